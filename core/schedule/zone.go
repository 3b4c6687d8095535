package schedule

import (
	"math"
	"time"
	_ "time/tzdata" // zones on machines that have no database of them
)

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
	return s
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
		s = z.span(s.to)
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
		s = z.span(s.to)
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
