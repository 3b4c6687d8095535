package schedule

import (
	"math"
	"sort"
	"time"
)

// Never is later than every time.
const Never = math.MaxInt64

// lastSecond is the end of the year 9999, after which nothing fires.
var lastSecond = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).Unix() - 1

// times are the nominal times of a schedule, in ms since 1970: instants that rise
// strictly.
type times interface {
	// next is the first one after an instant; Never if there is none.
	next(after int64) int64
	// count is how many there are after an instant, up to another.
	count(after, upTo int64) int64
}

// latest is the last of the times after an instant, up to another.
func latest(t times, after, upTo int64) (int64, bool) {
	n := t.count(after, upTo)
	if n == 0 {
		return 0, false
	}
	i := sort.Search(int(upTo-after), func(i int) bool { return t.count(after, after+int64(i)) == n })
	return after + int64(i), true
}

// bounded are the times before an end.
type bounded struct {
	times
	until int64
}

func (b bounded) next(after int64) int64 {
	if t := b.times.next(after); t < b.until {
		return t
	}
	return Never
}

func (b bounded) count(after, upTo int64) int64 { return b.times.count(after, min(upTo, b.until-1)) }

// single is one time.
type single int64

func (s single) next(after int64) int64 {
	if int64(s) > after {
		return int64(s)
	}
	return Never
}

func (s single) count(after, upTo int64) int64 {
	if after < int64(s) && int64(s) <= upTo {
		return 1
	}
	return 0
}

// rate is a time and all that follow it at a distance, which is positive.
type rate struct{ first, every int64 }

// ordinal is how many of the times there are up to t.
func (r rate) ordinal(t int64) int64 {
	if t < r.first {
		return 0
	}
	return (t-r.first)/r.every + 1
}

func (r rate) next(after int64) int64 { return r.first + r.ordinal(after)*r.every }

func (r rate) count(after, upTo int64) int64 {
	return max(r.ordinal(upTo)-r.ordinal(after), 0)
}

// calendar is a cron expression's times in a zone.
type calendar struct{ zoned }

func (c calendar) next(after int64) int64 {
	t, ok := c.zoned.next(floorDiv(after, 1000))
	if !ok || t > lastSecond {
		return Never
	}
	return t * 1000
}

func (c calendar) count(after, upTo int64) int64 {
	return c.zoned.count(floorDiv(after, 1000), floorDiv(upTo, 1000))
}
