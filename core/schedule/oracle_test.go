package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fencepost/internal/race"
)

// expression is a cron expression and what it means, made together: the oracle does
// not read expressions.
type expression struct {
	text   string
	sets   [6]map[int]bool // second, minute, hour, day of month, month, day of week
	star   [6]bool         // a field that is * alone
	recurs bool
}

// expressions draws expressions that fire some times a day at least, mostly.
func expressions() *rapid.Generator[expression] {
	return rapid.Custom(func(t *rapid.T) expression {
		bounds := [6][2]int{{0, 59}, {0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
		var e expression
		var text []string
		for n, b := range bounds {
			e.sets[n] = map[int]bool{}
			s := ""
			kinds := []string{"one", "list", "range", "step", "steps", "*", "*", "*"}
			if n > 2 && rapid.IntRange(0, 4).Draw(t, "any day") > 0 {
				kinds = kinds[5:] // or in most spans of a test nothing fires
			}
			switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
			case "*":
				s, e.star[n] = rapid.SampledFrom([]string{"*", "?"}).Draw(t, "star"), true
				e.fill(n, b[0], b[1], 1)
			case "one", "list":
				var items []string
				for range map[string]int{"one": 1, "list": 3}[kind] {
					v := rapid.IntRange(b[0], b[1]).Draw(t, "value")
					items = append(items, fmt.Sprint(v))
					e.fill(n, v, v, 1)
				}
				s = strings.Join(items, ",")
			case "range", "steps":
				from := rapid.IntRange(b[0], b[1]).Draw(t, "from")
				to := rapid.IntRange(from, b[1]).Draw(t, "to")
				step := 1
				s = fmt.Sprintf("%d-%d", from, to)
				if kind == "steps" {
					step = rapid.IntRange(1, 20).Draw(t, "step")
					s += fmt.Sprintf("/%d", step)
				}
				e.fill(n, from, to, step)
			case "step":
				step := rapid.IntRange(2, 20).Draw(t, "step")
				s = fmt.Sprintf("*/%d", step)
				e.fill(n, b[0], b[1], step)
			}
			e.recurs = e.recurs || n == 2 && (strings.ContainsAny(s, "*?") || len(e.sets[n]) == 24)
			text = append(text, s)
		}
		e.text = strings.Join(text, " ")
		return e
	})
}

func (e *expression) fill(field, from, to, step int) {
	for v := from; v <= to; v += step {
		e.sets[field][v] = true
	}
}

// names: the expression names what a clock shows.
func (e *expression) names(t time.Time) bool {
	if !e.sets[0][t.Second()] || !e.sets[1][t.Minute()] || !e.sets[2][t.Hour()] || !e.sets[4][int(t.Month())] {
		return false
	}
	dom, dow := e.sets[3][t.Day()], e.sets[5][int(t.Weekday())]
	if e.star[3] || e.star[5] {
		return dom && dow
	}
	return dom || dow
}

// fires is the oracle: it looks at the zone's clock in every second of (after, upTo].
func (e *expression) fires(zone *time.Location, after, upTo int64) (out []int64) {
	wall := func(t int64) int64 {
		at := time.Unix(t, 0).In(zone)
		y, m, d := at.Date()
		return time.Date(y, m, d, at.Hour(), at.Minute(), at.Second(), 0, time.UTC).Unix()
	}
	const before = day + 3600 // clocks were never turned back by more
	shown := wall(after - before)
	for t := after - before + 1; t <= upTo; t++ {
		w := wall(t)
		fires := false
		if e.recurs {
			fires = e.names(time.Unix(w, 0).UTC())
		} else {
			for ; shown < w; shown++ {
				fires = fires || e.names(time.Unix(shown+1, 0).UTC())
			}
		}
		if fires && t > after {
			out = append(out, t)
		}
	}
	return out
}

var zones = []string{"Asia/Ho_Chi_Minh", "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia",
	"Africa/Cairo", "America/Sao_Paulo", "Africa/Casablanca", "Antarctica/Troll", "America/Caracas", "Pacific/Chatham", "Asia/Pyongyang"}

// nearChange is an instant, in most cases next to a change of the zone's clocks.
func nearChange(t *rapid.T, zone *time.Location) int64 {
	at := time.Unix(rapid.Int64Range(8e8, 24e8).Draw(t, "about"), 0) // 1995 to 2046
	if start, end := at.In(zone).ZoneBounds(); !end.IsZero() && rapid.IntRange(0, 9).Draw(t, "near") > 0 {
		at = end
	} else if !start.IsZero() {
		at = start
	}
	return at.Unix() + rapid.Int64Range(-3*3600, 3600).Draw(t, "off")
}

// TestAgainstBruteForce: nothing is skipped, nothing is added, times rise, and the
// numbers are those of the list.
func TestAgainstBruteForce(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := expressions().Draw(t, "expression")
		z, err := Timing{Cron: e.text, Zone: rapid.SampledFrom(zones).Draw(t, "zone")}.parse()
		if err != nil {
			t.Skip(err)
		}
		from := nearChange(t, z.zone)
		to := from + rapid.Int64Range(1, 30*3600).Draw(t, "for")
		want := e.fires(z.zone, from, to)
		got := z.list(from, to)
		if !slices.Equal(got, want) {
			t.Fatalf("%q (recurs %v) in %s from %s: %v, want %v", e.text, e.recurs, z.zone, time.Unix(from, 0).UTC(), shown(z, got), shown(z, want))
		}
		times := calendar{z}
		for range 5 {
			a := rapid.Int64Range(from, to).Draw(t, "a")
			b := rapid.Int64Range(a, to).Draw(t, "b")
			var in []int64
			for _, x := range want {
				if a < x && x <= b {
					in = append(in, x)
				}
			}
			if n := times.count(a*1000+999, b*1000+999); n != int64(len(in)) {
				t.Errorf("%q in %s: %d times in (%s, %s], want %v", e.text, z.zone, n, time.Unix(a, 0).UTC(), time.Unix(b, 0).UTC(), shown(z, in))
			}
			if last, ok := latest(times, a*1000, b*1000); ok != (len(in) > 0) || ok && last != in[len(in)-1]*1000 {
				t.Errorf("%q in %s: the last of %v is %d, %v", e.text, z.zone, shown(z, in), last, ok)
			}
		}
	})
}

func shown(z zoned, list []int64) (out []string) {
	for _, t := range list[:min(len(list), 20)] {
		out = append(out, time.Unix(t, 0).In(z.zone).Format("02T15:04:05-07"))
	}
	return out
}

// TestNext: between an instant and the next time nothing has another next time.
func TestNext(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := expressions().Draw(t, "expression")
		z, err := Timing{Cron: e.text, Zone: rapid.SampledFrom(zones).Draw(t, "zone")}.parse()
		if err != nil {
			t.Skip(err)
		}
		times := calendar{z}
		a := nearChange(t, z.zone)*1000 + rapid.Int64Range(0, 999).Draw(t, "ms")
		for range 10 {
			b := times.next(a)
			if b == Never {
				t.Skip("no such date any more")
			}
			between := rapid.Int64Range(a, b-1).Draw(t, "between")
			if b <= a || times.next(between) != b || times.next(b-1) != b || times.count(a, b) != 1 || times.count(a, b-1) != 0 {
				t.Fatalf("%q in %s: after %d comes %d, after %d between them %d, and there are %d", e.text, z.zone, a, b, between, times.next(between), times.count(a, b))
			}
			a = b
		}
	})
}

// TestSpans: spans follow each other without a gap, and each holds its instants, also
// where Go's own bounds do not: past the end of a zone's table, in leap years.
func TestSpans(t *testing.T) {
	t.Parallel()
	for _, name := range zones {
		z, err := Timing{Cron: "@hourly", Zone: name}.parse()
		if err != nil {
			t.Fatal(err)
		}
		from, upTo := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(2110, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		for s := z.span(from); s.to < upTo; s = z.following(s) {
			for _, in := range []int64{max(s.from, from), s.to - 1} {
				if at := z.span(in); at.to != s.to || at.from > in || at.offset != s.offset {
					t.Fatalf("%s: %s lies in %+v, by which it is not held; the walk is at %+v", name, time.Unix(in, 0).UTC(), at, s)
				}
			}
			if next := z.following(s); s.to <= s.from || next.from != s.to {
				t.Fatalf("%s: %+v has no instant, or %+v does not follow it", name, s, next)
			}
		}
	}
}

// TestLastDayOfALeapYear: on 31 December 2044 the next time is a later one.
func TestLastDayOfALeapYear(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{"5 10-59/10 */9 * * *": "2044-12-31T05:10:05Z", "0 0 3 * * *": "2044-12-31T08:00:00Z"} {
		z, err := Timing{Cron: expr, Zone: "America/New_York"}.parse()
		if err != nil {
			t.Fatal(err)
		}
		after := time.Date(2044, 12, 31, 0, 0, 24, 0, time.UTC)
		if got := time.UnixMilli(calendar{z}.next(after.UnixMilli())).UTC().Format(time.RFC3339); got != want {
			t.Errorf("%q after %s: %s, want %s", expr, after, got, want)
		}
		if n := (calendar{z}).count(after.UnixMilli(), after.AddDate(0, 0, 2).UnixMilli()); n < 2 {
			t.Errorf("%q: %d times in two days", expr, n)
		}
	}
}

// TestRate compares with the list made by adding.
func TestRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := rate{rapid.Int64Range(0, 500).Draw(t, "first"), rapid.Int64Range(1, 100).Draw(t, "every")}
		a := rapid.Int64Range(-100, 1000).Draw(t, "a")
		b := rapid.Int64Range(a, 1100).Draw(t, "b")
		var n, last, next int64
		for x := r.first; ; x += r.every {
			if x > a {
				next = x
				break
			}
		}
		for x := r.first; x <= b; x += r.every {
			if x > a {
				n, last = n+1, x
			}
		}
		got, ok := latest(r, a, b)
		if r.next(a) != next || r.count(a, b) != n || ok != (n > 0) || got != last {
			t.Errorf("%+v in (%d, %d]: next %d, %d of them, last %d; want %d, %d, %d", r, a, b, r.next(a), r.count(a, b), got, next, n, last)
		}
	})
}
