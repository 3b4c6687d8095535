package checker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fencepost/core/schedule"
	"fencepost/harness/target/simrun"
	"fencepost/harness/target/workload"
	"fencepost/internal/race"
)

// everySchedule are schedules of every kind and policy, and what can be done to them.
func everySchedule() (out []workload.Recurring) {
	s := time.Second
	add := func(r workload.Recurring) {
		r.Key = fmt.Sprintf("s%d", len(out))
		out = append(out, r)
	}
	for i, misfire := range []schedule.Misfire{schedule.MisfireSkip, schedule.MisfireOnce, schedule.MisfireAll} {
		for k, overlap := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue} {
			r := workload.Recurring{Kind: schedule.FixedRate, Every: 2 * s, Misfire: misfire, Overlap: overlap, Grace: s, Length: time.Duration(k) * 1500 * time.Millisecond}
			if misfire == schedule.MisfireAll {
				r.Window = 5 * s
			}
			add(r)
			r.Kind, r.Every, r.Cron, r.Zone = schedule.Cron, 0, "*/3 * * * * *", "Europe/Berlin"
			r.Upset, r.Pace = workload.Upsets[(i+k)%3], 5*s
			add(r)
		}
	}
	for k, overlap := range []schedule.Overlap{schedule.OverlapSkip, schedule.OverlapQueue} {
		add(workload.Recurring{Kind: schedule.FixedDelay, Every: 2 * s, Overlap: overlap, Length: s, Upset: workload.Upsets[k], Pace: 6 * s})
	}
	return out
}

// TestRecurringRunsPass: what the scheduler does with schedules of every kind is legal, under
// losses and takeovers, by the checker's own oracle.
func TestRecurringRunsPass(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := simrun.DrawJobs(seed)
			c.Recurring = everySchedule()
			r := Check(context.Background(), simrun.Make(t, c), Options{})
			n := r.Counts.Jobs
			t.Logf("%s; %d fired, %d missed, %d skipped", r.Summary, n.Fired, n.Missed, n.Skipped)
			if p := propertyOf(r, "P12"); p.Status != StatusPass || len(failing(r)) > 0 {
				for _, v := range p.Violations[:min(6, len(p.Violations))] {
					t.Error(v.Message)
				}
				t.Errorf("P12 is %s, failing %v: %s", p.Status, failing(r), p.Detail)
			}
			if n.Fired < 50 || n.Skipped == 0 {
				t.Error("too little was fired or skipped to show anything")
			}
		})
	}
}
