package schedule

import (
	"fmt"
	"math/bits"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// pattern is a cron expression: the wall times that it names, as sets of bits. A wall
// time is what a clock on the wall shows, in seconds since 1970 as if it showed UTC.
type pattern struct {
	second, minute, hour, dom, month, dow uint64
	// eitherDay: both days are restricted, and one of them is enough.
	eitherDay bool
	// recurs: it speaks of spacing (all day long, or every so many hours), not of times of day.
	recurs bool
}

const (
	starBit = 1 << 63 // the parser's mark of a field that is * or ?
	day     = 24 * 60 * 60
	// mostDays is how many days there are from one 29 February to the next, both counted,
	// around a century without one: the longest wait for a date.
	mostDays = 8*365 + 2
)

var (
	parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	// fields is what the parser is given: it panics on some other texts, and takes
	// others for what they are not ("*-5" for "*").
	fields = regexp.MustCompile(`^ *(@[a-z]+|` + field + `( +` + field + `){4,5}) *$`)
)

const (
	element = `([*?]|[0-9]+(-[0-9]+)?|[A-Za-z]{3}(-[A-Za-z]{3})?)(/[0-9]+)?`
	field   = element + `(,` + element + `)*`
)

func parsePattern(expr string) (*pattern, error) {
	if !fields.MatchString(expr) {
		return nil, &InvalidError{Field: "cron", Reason: fmt.Sprintf("is %q: want five or six fields ([second] minute hour day-of-month month day-of-week) of numbers, names, *, lists, ranges and steps, or @hourly, @daily, @weekly, @monthly, @yearly; the time zone has a field of its own", expr)}
	}
	parsed, err := parser.Parse(expr)
	if err != nil {
		return nil, &InvalidError{Field: "cron", Reason: fmt.Sprintf("is %q: %v", expr, err)}
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, &InvalidError{Field: "cron", Reason: fmt.Sprintf("is %q: use the kind %s", expr, FixedRate)}
	}
	p := &pattern{second: s.Second &^ starBit, minute: s.Minute &^ starBit, hour: s.Hour &^ starBit,
		dom: s.Dom &^ starBit, month: s.Month &^ starBit, dow: s.Dow &^ starBit,
		eitherDay: (s.Dom|s.Dow)&starBit == 0, recurs: recurs(expr, s.Hour&^starBit)}
	if _, ok := p.next(-1); !ok {
		return nil, &InvalidError{Field: "cron", Reason: fmt.Sprintf("is %q: there is no such date", expr)}
	}
	return p, nil
}

// everyHour is the set of all hours.
const everyHour = 1<<24 - 1

// recurs: every hour, or every so many. Within hours that are named it is a window of the
// day, however often it fires there.
func recurs(expr string, hours uint64) bool {
	f := strings.Fields(expr)
	return hours == everyHour || len(f) > 1 && strings.ContainsAny(f[len(f)-4], "*?")
}

// next is the first wall time after one.
func (p *pattern) next(after int64) (int64, bool) {
	d := floorDiv(after+1, day)
	from := int(after + 1 - d*day)
	for range mostDays {
		if p.onDay(d) {
			if s, ok := p.inDay(from); ok {
				return d*day + int64(s), true
			}
		}
		d, from = d+1, 0
	}
	return 0, false
}

// onDay: it names times of the d-th day since 1970.
func (p *pattern) onDay(d int64) bool {
	t := time.Unix(d*day, 0).UTC()
	_, month, dom := t.Date()
	if !has(p.month, int(month)) {
		return false
	}
	a, b := has(p.dom, dom), has(p.dow, int(t.Weekday()))
	if p.eitherDay {
		return a || b
	}
	return a && b
}

// inDay is the first second of a day that it names, from that one on.
func (p *pattern) inDay(from int) (int, bool) {
	h, m, s := from/3600, from/60%60, from%60
	if has(p.hour, h) {
		if has(p.minute, m) {
			if s = first(p.second, s); s < 60 {
				return h*3600 + m*60 + s, true
			}
		}
		if m = first(p.minute, m+1); m < 60 {
			return h*3600 + m*60 + first(p.second, 0), true
		}
	}
	if h = first(p.hour, h+1); h < 24 {
		return h*3600 + first(p.minute, 0)*60 + first(p.second, 0), true
	}
	return 0, false
}

// count is how many wall times there are after one, up to another.
func (p *pattern) count(after, upTo int64) int64 {
	if upTo <= after {
		return 0
	}
	var n int64
	from, to := floorDiv(after+1, day), floorDiv(upTo+1, day)
	for d := from; d <= to; d++ {
		if !p.onDay(d) {
			continue
		}
		if d < to {
			n += p.before(day)
		} else {
			n += p.before(int(upTo + 1 - d*day))
		}
		if d == from {
			n -= p.before(int(after + 1 - d*day))
		}
	}
	return n
}

// before is how many seconds of a day it names before that one.
func (p *pattern) before(s int) int64 {
	h, m := s/3600, s/60%60
	seconds := below(p.second, 60)
	n := below(p.hour, h) * below(p.minute, 60) * seconds
	if has(p.hour, h) {
		n += below(p.minute, m) * seconds
		if has(p.minute, m) {
			n += below(p.second, s%60)
		}
	}
	return n
}

func has(set uint64, n int) bool { return set>>n&1 == 1 }

// first is the lowest member from n on; 64 if there is none.
func first(set uint64, n int) int { return bits.TrailingZeros64(set >> n << n) }

func below(set uint64, n int) int64 { return int64(bits.OnesCount64(set & (1<<n - 1))) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
