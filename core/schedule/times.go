package schedule

import (
	"math"
	"sort"
	"time"
	_ "time/tzdata" // zones on machines that have no database of them
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

// zoned is a pattern on the clocks of a time zone. Instants are seconds since 1970.
type zoned struct {
	*pattern
	zone *time.Location
}

// span is a stretch [from, to) in which a zone's clocks are not changed.
type span struct{ from, to, offset int64 }

func (z zoned) span(t int64) span {
	at := time.Unix(t, 0).In(z.zone)
	start, end := at.ZoneBounds()
	_, offset := at.Zone()
	s := span{math.MinInt64, math.MaxInt64, int64(offset)}
	if !start.IsZero() {
		s.from = start.Unix()
	}
	if !end.IsZero() {
		s.to = end.Unix()
	}
	if s.to <= t {
		// Past the table of a zone Go ends a year's last span after 365 days
		// (time.tzset), so that 31 December of a leap year lies behind its own end.
		s.to = t - t%day + day
	}
	return s
}

// following is the span that begins where s ends. Go's own beginning can lie before
// that: at the end of a zone's table, and on 31 December of a leap year.
func (z zoned) following(s span) span {
	next := z.span(s.to)
	next.from = s.to
	return next
}

// mostTurned is more than a zone's clocks were ever turned back: a day, by crossing
// the date line.
const mostTurned = 2 * day

// shown is the latest wall time that the zone's clocks have shown until t, which lies
// in s. Before they were turned back they had shown later ones.
func (z zoned) shown(t int64, s span) int64 {
	latest := t + s.offset
	for s.from > t-mostTurned {
		s = z.span(s.from - 1)
		latest = max(latest, s.to-1+s.offset)
	}
	return latest
}

// next is the first instant after one at which the pattern fires. A pattern that
// recurs fires whenever the clocks show a time that it names. Any other fires when
// they show it, or a later one, for the first time.
func (z zoned) next(after int64) (int64, bool) {
	s := z.span(after)
	from := after + s.offset
	if !z.recurs {
		from = z.shown(after, s)
	}
	w, ok := z.pattern.next(from)
	for ok && s.from <= lastSecond {
		if w-s.offset < s.to {
			return w - s.offset, true
		}
		s = z.following(s)
		switch begins := s.from + s.offset; {
		case z.recurs:
			w, ok = z.pattern.next(begins - 1)
		case begins >= w:
			return s.from, true
		}
	}
	return 0, false
}

// count is how many instants there are after one, up to another, at which the
// pattern fires.
func (z zoned) count(after, upTo int64) int64 {
	if upTo <= after {
		return 0
	}
	var n int64
	s := z.span(after)
	from := after + s.offset
	if !z.recurs {
		from = z.shown(after, s)
	}
	for {
		last := min(upTo, s.to-1)
		n += z.pattern.count(from, last+s.offset)
		from = max(from, last+s.offset)
		if last == upTo {
			return n
		}
		s = z.following(s)
		switch begins := s.from + s.offset; {
		case z.recurs:
			from = begins - 1
		case begins > from:
			// What lies in the gap fires at its end, all of it at once.
			n += min(z.pattern.count(from, begins), 1)
			from = begins
		}
	}
}
