package past

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/schedule"
)

// TestCronTimes: what an expression means where clocks are changed, by dates that people have
// worked out.
func TestCronTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expr, zone, from, to string
		want                 []string
	}{
		{"30 2 * * *", "Europe/Berlin", "2027-03-27T00:00:00Z", "2027-03-29T12:00:00Z",
			[]string{"2027-03-27T01:30:00Z", "2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"}}, // a gap: at its end
		{"0,30 2,3 * * *", "Europe/Berlin", "2027-03-28T00:00:00Z", "2027-03-28T12:00:00Z",
			[]string{"2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z"}}, // several in one gap, and one at its end
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z"}}, // twice: the first time
		{"*/30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", "2026-10-25T02:10:00Z",
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"}},
		{"*/30 * * * *", "Europe/Berlin", "2027-03-28T00:15:00Z", "2027-03-28T01:40:00Z",
			[]string{"2027-03-28T00:30:00Z", "2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z"}},
		{"45 1 * * *", "Australia/Lord_Howe", "2027-04-03T12:00:00Z", "2027-04-04T12:00:00Z",
			[]string{"2027-04-03T14:45:00Z"}}, // half an hour back
		{"0 0 30 * *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2012-01-01T00:00:00Z",
			[]string{"2011-12-30T10:00:00Z"}}, // a day that there was not
		{"15 30 9 * * mon-fri", "UTC", "2027-01-01T00:00:00Z", "2027-01-05T00:00:00Z",
			[]string{"2027-01-01T09:30:15Z", "2027-01-04T09:30:15Z"}},
		{"0 12 13 * fri", "UTC", "2027-01-01T13:00:00Z", "2027-01-14T00:00:00Z",
			[]string{"2027-01-08T12:00:00Z", "2027-01-13T12:00:00Z"}},
	} {
		at := func(s string) int64 {
			v, err := time.Parse(time.RFC3339, s)
			if err != nil {
				t.Fatal(err)
			}
			return v.UnixMilli()
		}
		x, err := newCron(c.expr, c.zone)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		x.each(at(c.from), at(c.to), func(ms int64) bool {
			got = append(got, time.UnixMilli(ms).UTC().Format(time.RFC3339))
			return true
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s in %s: %v, want %v", c.expr, c.zone, got, c.want)
		}
	}
	for _, expr := range []string{"", "* * *", "61 * * * *", "a * * * *", "*/0 * * * *", "5-1 * * * *"} {
		if _, err := newCron(expr, "UTC"); err == nil {
			t.Errorf("%q is an expression", expr)
		}
	}
}

// TestCronAsTheScheduler: two readings of the same rules, next to changes of clocks.
func TestCronAsTheScheduler(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Antarctica/Troll"}
	field := func(lo, hi int) string {
		switch v := lo + rng.IntN(hi-lo+1); rng.IntN(5) {
		case 0:
			return fmt.Sprint(v)
		case 1:
			return fmt.Sprintf("%d-%d", v, v+rng.IntN(hi-v+1))
		case 2:
			return fmt.Sprintf("*/%d", 1+rng.IntN(20))
		case 3:
			return fmt.Sprintf("%d,%d", v, lo+rng.IntN(hi-lo+1))
		}
		return "*"
	}
	seen := 0
	for range 400 {
		expr, zone := field(0, 59)+" "+field(0, 59)+" "+field(0, 23)+" * * *", zones[rng.IntN(len(zones))]
		if rng.IntN(4) == 0 {
			expr = field(0, 59) + " " + field(0, 59) + " " + field(0, 23) + " " + field(1, 31) + " * " + field(0, 6)
		}
		s, err := schedule.New(schedule.Definition{Queue: "q", Key: "k", Timing: schedule.Timing{Kind: schedule.Cron, Cron: expr, Zone: zone}, Job: template()}, 1)
		x, ours := newCron(expr, zone)
		if err != nil || ours != nil {
			t.Fatalf("%q: %v, %v", expr, err, ours)
		}
		change := time.Unix(8e8+rng.Int64N(16e8), 0)
		if _, end := change.In(x.zone).ZoneBounds(); !end.IsZero() {
			change = end
		}
		from := change.Add(-time.Duration(rng.IntN(180)) * time.Minute).UnixMilli()
		to := from + (6 * time.Hour).Milliseconds()
		var want, got []int64
		for at := from; len(want) < 2000; {
			if at = s.Next(schedule.State{Last: at}, 0); at > to {
				break
			}
			want = append(want, at)
		}
		x.each(from, to, func(ms int64) bool {
			got = append(got, ms)
			return len(got) < 2000
		})
		if seen += len(want); !slices.Equal(got, want) {
			n := 0
			for n < min(len(got), len(want)) && got[n] == want[n] {
				n++
			}
			t.Errorf("%q in %s from %s: %d and %d times, the first that differs is number %d", expr, zone, time.UnixMilli(from).UTC(), len(got), len(want), n)
		}
	}
	if seen < 1000 {
		t.Errorf("%d times were compared", seen)
	}
}

func template() job.Job { return job.Job{Kind: "k"} }
