package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/core/job"
)

// TestDefaults are those that the documentation names.
func TestDefaults(t *testing.T) {
	t.Parallel()
	base := Definition{Queue: "q", Key: "k", Job: job.Job{Kind: "mail"}, Timing: Timing{Kind: Cron, Cron: "@daily"}}
	d := base.WithDefaults()
	if d.Misfire != MisfireOnce || d.Grace.String() != "1m0s" || d.Window != 0 || d.Overlap != OverlapSkip || d.Zone != "UTC" {
		t.Errorf("%+v", d)
	}
	base.Misfire = MisfireAll
	if d = base.WithDefaults(); d.Window.String() != "24h0m0s" {
		t.Errorf("the window is %s", d.Window)
	}
	base.Window = time.Hour
	if d = base.WithDefaults(); d.Window != time.Hour {
		t.Errorf("an hour became %s", d.Window)
	}
	if d = (Definition{Timing: Timing{Kind: FixedRate}}).WithDefaults(); d.Zone != "" {
		t.Errorf("a rate has the zone %s", d.Zone)
	}
}

// TestLimits: the least and the most are taken, and nothing beyond.
func TestLimits(t *testing.T) {
	t.Parallel()
	const most = 87840 * time.Hour // ten years
	long := func(n int) string { return strings.Repeat("t", n) }
	for name, c := range map[string]struct {
		change func(*Definition)
		ok     bool
	}{
		"a key of 200 bytes":        {func(d *Definition) { d.Key = long(200) }, true},
		"a key of 201 bytes":        {func(d *Definition) { d.Key = long(201) }, false},
		"every second":              {func(d *Definition) { d.Every = time.Second }, true},
		"every 999 ms":              {func(d *Definition) { d.Every = 999 * time.Millisecond }, false},
		"every ten years":           {func(d *Definition) { d.Every = most }, true},
		"every more than ten years": {func(d *Definition) { d.Every = most + time.Millisecond }, false},
		"the most grace":            {func(d *Definition) { d.Grace = most }, true},
		"too much grace":            {func(d *Definition) { d.Grace = most + 1 }, false},
		"the least grace":           {func(d *Definition) { d.Grace = 1 }, true},
		"the most window":           {func(d *Definition) { d.Misfire, d.Window = MisfireAll, most }, true},
		"too much window":           {func(d *Definition) { d.Misfire, d.Window = MisfireAll, most+1 }, false},
		"a window of the grace":     {func(d *Definition) { d.Misfire, d.Window = MisfireAll, time.Minute }, true},
		"a window of less":          {func(d *Definition) { d.Misfire, d.Window = MisfireAll, time.Minute-1 }, false},
		"at 1970":                   {func(d *Definition) { d.At = time.Unix(0, 0) }, true},
		"until 1970":                {func(d *Definition) { d.Until = time.Unix(0, 0) }, true},
		"until before 1970":         {func(d *Definition) { d.Until = time.Unix(-1, 0) }, false},
		"until the end of 9999":     {func(d *Definition) { d.Until = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) }, true},
		"until 10000":               {func(d *Definition) { d.Until = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }, false},
		"until at":                  {func(d *Definition) { d.At, d.Until = time.Unix(5, 0), time.Unix(5, 0) }, true},
	} {
		d := Definition{Queue: "q", Key: "k", Job: job.Job{Kind: "mail"}, Timing: Timing{Kind: FixedRate, Every: time.Minute}}
		c.change(&d)
		if _, err := New(d, 4); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := mustNew(t, Definition{Timing: Timing{Kind: FixedRate, Every: time.Second}, Overlap: OverlapQueue})
	if d := s.Decide(s.Start(0), 30_000, 5); len(d.State.Queue) != 20 || d.Skipped != 10 {
		t.Errorf("of 30 that come during one %d wait, %d are skipped", len(d.State.Queue), d.Skipped)
	}
	for n, ok := range map[int]bool{1: true, 64: true, 65: false} {
		if _, err := s.Trigger(s.Start(0), long(n), 0); (err == nil) != ok {
			t.Errorf("a trigger of %d bytes: %v", n, err)
		}
	}
}

// TestCountsAroundMidnight: what is counted between two wall times is what is listed there, also
// where one of them is the last or first second of a day.
func TestCountsAroundMidnight(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"59 59 23 * * *", "0 0 0 * * *", "58-59 59 23 * * *", "30 0 12 * * *", "0 0 * 2 * *", "*/7 */13 */5 * * tue"} {
		p := mustParse(t, expr, "UTC").pattern
		for from := int64(day - 3); from <= day+2; from++ {
			for _, to := range []int64{from - 1, from, from + 1, from + 4, 2*day - 2, 2*day - 1, 2 * day, 2*day + 1, 3*day - 1} {
				var listed int64
				for w, ok := p.next(from); ok && w <= to; w, ok = p.next(w) {
					listed++
				}
				if got := p.count(from, to); got != listed {
					t.Fatalf("%s has %d times in (%d, %d], listed are %d", expr, got, from, to, listed)
				}
			}
		}
	}
}

// TestGrace: what is late by the grace fires, and by a millisecond more it is a misfire.
func TestGrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		misfire Misfire
		now     int64
		fire    []int64
		missed  int64
	}{
		{MisfireSkip, 5000, []int64{0}, 0},
		{MisfireSkip, 5001, nil, 1},
		{MisfireSkip, 11000, []int64{6000}, 1},
		{MisfireSkip, 11001, nil, 2},
		{MisfireOnce, 5000, []int64{0}, 0},
		{MisfireOnce, 5001, []int64{0}, 0},
		{MisfireOnce, 11000, []int64{6000}, 1},
		{MisfireOnce, 11001, []int64{6000}, 1},
		{MisfireAll, 11000, []int64{6000}, 1},
		{MisfireAll, 11001, nil, 2},
	} {
		d := Definition{Timing: Timing{Kind: FixedRate, Every: 6 * time.Second}, Misfire: c.misfire, Grace: 5 * time.Second, Overlap: OverlapAllow}
		if c.misfire == MisfireAll {
			d.Window = d.Grace
		}
		s := mustNew(t, d)
		got := s.Decide(s.Start(0), c.now, 5)
		var fire []int64
		for _, o := range got.Fire {
			fire = append(fire, o.Nominal)
		}
		if !slices.Equal(fire, c.fire) || got.Missed != c.missed {
			t.Errorf("%s at %d: fires %v and misses %d, want %v and %d", c.misfire, c.now, fire, got.Missed, c.fire, c.missed)
		}
	}
}

// TestEnds: an end is no time any more, and after the year 9999 nothing fires.
func TestEnds(t *testing.T) {
	t.Parallel()
	for until, want := range map[int64]int64{19: 2, 20: 2, 21: 3} {
		b := bounded{rate{0, 10}, until}
		if n := b.count(-1, 100); n != want {
			t.Errorf("until %d: %d times, want %d", until, n, want)
		}
		if next := b.next(10); (next == 20) != (want == 3) || next != 20 && next != Never {
			t.Errorf("until %d: after 10 comes %d", until, next)
		}
	}
	for _, c := range []struct{ zone, expr, after, want string }{
		{"UTC", "* * * * * *", "9999-12-31T23:59:58Z", "9999-12-31T23:59:59Z"},
		{"UTC", "* * * * * *", "9999-12-31T23:59:59Z", ""},
		{"UTC", "0 0 1 6 *", "9999-07-01T00:00:00Z", ""},
		{"America/New_York", "0 0 1 6 *", "9999-07-01T00:00:00Z", ""},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if next := (calendar{mustParse(t, c.expr, c.zone)}).next(after.UnixMilli()); next != Never {
			got = time.UnixMilli(next).UTC().Format(time.RFC3339)
		}
		if got != c.want {
			t.Errorf("%s in %s: after %s comes %q, want %q", c.expr, c.zone, c.after, got, c.want)
		}
	}
}

// TestFloorDiv: the second of an instant begins before it, also before 1970.
func TestFloorDiv(t *testing.T) {
	t.Parallel()
	for a, want := range map[int64]int64{-1001: -2, -1000: -1, -1: -1, 0: 0, 999: 0, 1000: 1} {
		if got := floorDiv(a, 1000); got != want {
			t.Errorf("%d ms are second %d, want %d", a, got, want)
		}
	}
}

// TestFiresSoManyAtOnce: what is over the limit stays for the next decision.
func TestFiresSoManyAtOnce(t *testing.T) {
	t.Parallel()
	s := mustNew(t, Definition{Timing: Timing{Kind: FixedRate, Every: time.Second}, Misfire: MisfireAll, Window: time.Hour, Overlap: OverlapAllow})
	const now = 6000
	st := s.Start(0)
	for _, want := range [][]int64{{0, 1000, 2000}, {3000, 4000, 5000}, {6000}} {
		got := s.Decide(st, now, 3)
		var fire []int64
		for _, o := range got.Fire {
			fire = append(fire, o.Nominal)
		}
		if !slices.Equal(fire, want) {
			t.Errorf("fires %v, want %v", fire, want)
		}
		st = got.State
	}
}
