package past

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cron is a cron expression in a time zone, as docs/core.md says what it means: the checker's own
// reading of it. It knows no way to the next time but to look at every minute between.
type cron struct {
	fields [6]map[int]bool // second, minute, hour, day of month, month, day of week
	// eitherDay: both days are restricted, and one of them is enough.
	eitherDay bool
	// spaced: it fires whenever the zone's clocks show a time that it names. Any other
	// fires when they show that time, or a later one, for the first time.
	spaced bool
	zone   *time.Location
}

// cronNames are names of months and days; cronBounds the least and largest of each field.
var (
	cronNames = map[string]int{"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
		"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
	cronBounds = [6][2]int{{0, 59}, {0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	cronWords  = map[string]string{"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
		"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"}
)

func newCron(expr, zone string) (*cron, error) {
	if word, ok := cronWords[strings.TrimSpace(expr)]; ok {
		expr = word
	}
	texts := strings.Fields(expr)
	if len(texts) == 5 {
		texts = append([]string{"0"}, texts...)
	}
	if len(texts) != 6 {
		return nil, fmt.Errorf("%q has not five or six fields", expr)
	}
	c := &cron{}
	var err error
	if c.zone, err = time.LoadLocation(zone); err != nil {
		return nil, err
	}
	for i, text := range texts {
		if c.fields[i], err = cronField(text, cronBounds[i]); err != nil {
			return nil, fmt.Errorf("%q: %w", expr, err)
		}
	}
	c.eitherDay = !anyDay(texts[3]) && !anyDay(texts[5])
	c.spaced = strings.ContainsAny(texts[2], "*?") || len(c.fields[2]) == 24
	return c, nil
}

// anyDay says whether a field of days restricts nothing. One with a step does.
func anyDay(text string) bool {
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSuffix(element, "/1"); element == "*" || element == "?" {
			return true
		}
	}
	return false
}

// cronField reads a list of elements: *, a value or a range, each with a step or without.
func cronField(text string, bounds [2]int) (map[int]bool, error) {
	out := map[int]bool{}
	for element := range strings.SplitSeq(text, ",") {
		span, by, stepped := strings.Cut(element, "/")
		from, to, step := bounds[0], bounds[1], 1
		if span != "*" && span != "?" {
			a, b, ranged := strings.Cut(span, "-")
			var err error
			if from, err = cronValue(a); err != nil {
				return nil, err
			}
			switch {
			case ranged:
				if to, err = cronValue(b); err != nil {
					return nil, err
				}
			case !stepped:
				to = from
			}
		}
		if stepped {
			var err error
			if step, err = strconv.Atoi(by); err != nil || step < 1 {
				return nil, fmt.Errorf("step %q", by)
			}
		}
		if from < bounds[0] || to > bounds[1] || from > to {
			return nil, fmt.Errorf("%q is out of range", element)
		}
		for v := from; v <= to; v += step {
			out[v] = true
		}
	}
	return out, nil
}

func cronValue(text string) (int, error) {
	if v, ok := cronNames[strings.ToLower(text)]; ok {
		return v, nil
	}
	return strconv.Atoi(text)
}

// inMinute says whether it names times of a minute that a clock on the wall shows. Wall times
// are in seconds since 1970, as if the clock showed UTC.
func (c *cron) inMinute(wall int64) bool {
	t := time.Unix(wall, 0).UTC()
	month, dom, dow := c.fields[4][int(t.Month())], c.fields[3][t.Day()], c.fields[5][int(t.Weekday())]
	day := dom && dow
	if c.eitherDay {
		day = dom || dow
	}
	return month && day && c.fields[2][t.Hour()] && c.fields[1][t.Minute()]
}

// names says whether it names a wall time within a span (after, upTo].
func (c *cron) names(after, upTo int64) bool {
	for m := (after + 1) / 60 * 60; m <= upTo; m += 60 {
		if !c.inMinute(m) {
			continue
		}
		for s := range int64(60) {
			if c.fields[0][int(s)] && m+s > after && m+s <= upTo {
				return true
			}
		}
	}
	return false
}

func (c *cron) offset(t int64) int64 {
	_, offset := time.Unix(t, 0).In(c.zone).Zone()
	return int64(offset)
}

// turnedBack is for how long, in s, the clocks of a zone can show what they have shown before: a
// day, by crossing the date line, and one more.
const turnedBack = 2 * 24 * 3600

// shown is the latest wall time that the zone's clocks have shown up to an instant.
func (c *cron) shown(t int64) int64 {
	latest, turned := t+c.offset(t), false
	for at := t - turnedBack; at < t; at += 3600 {
		turned = turned || c.offset(at) > c.offset(t)
	}
	if !turned {
		return latest
	}
	for at := (t - turnedBack) / 60 * 60; at <= t; at += 60 {
		// The clocks go on to the end of the minute, or to t.
		latest = max(latest, min(at+59, t)+c.offset(at))
	}
	return latest
}

// each calls yield with the instants at which it fires after one, up to another, in ms since
// 1970, while yield wants more. Zones change their clocks at whole minutes.
func (c *cron) each(after, upTo int64, yield func(ms int64) bool) {
	t := floorTo(after, 1000)/1000 + 1 // in s
	end := floorTo(upTo, 1000) / 1000
	shown := int64(0)
	if !c.spaced {
		shown = c.shown(t - 1)
	}
	for t <= end {
		minute := floorTo(t, 60)
		wall, last := t+c.offset(minute), min(minute+59, end)
		gap := !c.spaced && wall > shown+1 && c.names(shown, wall-1)
		if gap && !yield(t*1000) {
			return
		}
		if c.inMinute(floorTo(wall, 60)) {
			for s := t; s <= last; s++ {
				w := s + wall - t
				if c.fields[0][int(w-floorTo(w, 60))] && (c.spaced || w > shown) && !(gap && s == t) && !yield(s*1000) {
					return
				}
			}
		}
		shown = max(shown, last+wall-t)
		t = last + 1
	}
}

// floorTo is the largest multiple of a step that is not above a number.
func floorTo(n, step int64) int64 {
	r := n % step
	if r < 0 {
		r += step
	}
	return n - r
}
