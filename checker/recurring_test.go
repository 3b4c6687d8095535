package checker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/core/schedule"
	"fencepost/harness/record/history"
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
	for _, overlap := range []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue} {
		for range 4 { // here only a shard's owner takes commands: some must be the worker that fires
			add(workload.Recurring{Kind: schedule.FixedRate, Every: 4 * s, Misfire: schedule.MisfireAll, Window: 5 * s, Grace: s, Overlap: overlap,
				Length: s, Upset: workload.UpsetTrigger, Pace: 2 * s})
		}
	}
	for k, overlap := range []schedule.Overlap{schedule.OverlapSkip, schedule.OverlapQueue} {
		add(workload.Recurring{Kind: schedule.FixedDelay, Every: 2 * s, Overlap: overlap, Length: s, Upset: workload.Upsets[k], Pace: 6 * s})
	}
	return out
}

// instants are schedules that fire once, or begin and end at an instant, and what can be done to them.
func instants() (out []workload.Recurring) {
	s := time.Second
	add := func(r workload.Recurring) {
		r.Key, r.Overlap, r.Pace = fmt.Sprintf("i%d", len(out)), schedule.OverlapAllow, 3*s
		out = append(out, r)
	}
	for k, upset := range []workload.Upset{"", workload.UpsetChange, workload.UpsetRemove, workload.UpsetDisable} {
		at := time.Duration(3+9*k) * s
		add(workload.Recurring{Kind: schedule.Now, Upset: upset})
		add(workload.Recurring{Kind: schedule.At, At: at, Upset: upset})
		add(workload.Recurring{Kind: schedule.FixedRate, Every: 2 * s, At: at, Until: at + 12*s, Misfire: schedule.MisfireOnce, Grace: s})
	}
	add(workload.Recurring{Kind: schedule.At, At: -20 * s, Misfire: schedule.MisfireSkip, Grace: 5 * s})
	add(workload.Recurring{Kind: schedule.Cron, Cron: "*/3 * * * * *", At: 5 * s, Until: 30 * s})
	return out
}

// TestInstantsPass: what the scheduler does with schedules that fire once, begin and end is legal,
// under losses and takeovers.
func TestInstantsPass(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	c := simrun.DrawJobs(1)
	c.Recurring = instants()
	r := Check(context.Background(), simrun.Make(t, c), Options{})
	if n := r.Counts.Jobs; len(failing(r)) > 0 || n.Fired < 20 || n.Missed == 0 {
		t.Errorf("%v fail, %d fired, %d missed: %s", failing(r), n.Fired, n.Missed, r.Summary)
	}
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
			t.Logf("%s; %d fired, %d triggered, %d missed, %d skipped", r.Summary, n.Fired, n.Triggered, n.Missed, n.Skipped)
			if p := propertyOf(r, "P12"); p.Status != StatusPass || len(failing(r)) > 0 {
				for _, v := range p.Violations[:min(6, len(p.Violations))] {
					t.Error(v.Message)
				}
				t.Errorf("P12 is %s, failing %v: %s", p.Status, failing(r), p.Detail)
			}
			if n.Fired < 50 || n.Skipped == 0 || n.Triggered == 0 {
				t.Error("too little was fired or skipped to show anything")
			}
		})
	}
}

// TestPolicies: P12 passes what a schedule's policies allow, and says what they do not.
func TestPolicies(t *testing.T) {
	t.Parallel()
	asks := func(overlap, misfire string, grace int64) func(*recurringStory) {
		return func(y *recurringStory) {
			y.form = func(_ int, s *history.Schedule) {
				s.Kind, s.Overlap, s.Misfire, s.GraceMS, s.WindowMS = "fixed_rate", overlap, misfire, grace, 0
			}
		}
	}
	both := func(fs ...func(*recurringStory)) func(*recurringStory) {
		return func(y *recurringStory) {
			for _, f := range fs {
				f(y)
			}
		}
	}
	makesUp := edited(4100, func(e *history.Event) { // by the last one
		e.OwnDetails().Changes = fire(4)
		e.Changes()[1].Missed = 1
	})
	does := func(when int64, do string, last int64) func(*recurringStory) {
		return edited(when, func(e *history.Event) {
			e.OwnDetails().Changes = []history.Change{{Do: do, Schedule: storyKey, LastMS: last}}
		})
	}
	for name, c := range map[string]struct {
		change func(*recurringStory)
		status Status
		says   string
		named  string
	}{
		"what is late is skipped":                 {both(asks("allow", "skip", 500), makesUp), StatusPass, "", ""},
		"what is late fires":                      {asks("allow", "skip", 500), StatusFail, "was late by 1080 ms: more than 500", ""},
		"what is in time is skipped":              {both(asks("allow", "skip", 2000), makesUp), StatusFail, "misses its nominal time", ""},
		"one in time makes up for the late":       {both(asks("allow", "once", 500), makesUp), StatusPass, "", ""},
		"the last of the late makes up for all":   {both(asks("allow", "once", 50), makesUp), StatusPass, "", ""},
		"the last of the late, by another policy": {both(asks("allow", "skip", 50), makesUp), StatusFail, "was late by 80 ms", ""},
		"an occurrence beside another":            {asks("skip", "once", 5000), StatusFail, "has not ended: its overlap policy is skip", "overlap-not-kept"},
		"an occurrence that should wait":          {asks("queue", "once", 5000), StatusFail, "its overlap policy is queue", "overlap-not-kept"},
		"fires when it was removed":               {does(4100, history.DoRemove, 0), StatusFail, "though it was removed", "removal-in-memory"},
		"goes back":                               {does(5030, history.DoFire, storyWall(3020)), StatusFail, "goes back from", "schedule-set-back"},
		"is enabled, and was not disabled":        {does(2022, history.DoEnable, storyWall(2022)), StatusFail, "nobody has disabled it", "switch-in-memory"},
		"an occurrence that is over, and is not":  {does(2022, history.DoOver, storyWall(1020)), StatusFail, "for ended, which is not", ""},
		"a form that nobody asked for": {both(func(y *recurringStory) {
			y.form = func(_ int, s *history.Schedule) { s.Form = "a" }
		}, edited(storyFirst, func(e *history.Event) { e.Changes()[0].Form = "b" })), StatusFail, "in a form that nobody asked for", ""},
		"the version before says less": {func(y *recurringStory) {
			y.form = func(n int, s *history.Schedule) {
				if n == 0 {
					s.Kind, s.Overlap, s.Misfire, s.GraceMS, s.Form = "fixed_rate", "allow", "all", 60_000, "a"
				}
			}
		}, StatusPass, "", ""},
		"two forms, and nobody says which": {func(y *recurringStory) {
			y.form = func(n int, s *history.Schedule) { s.EveryMS += int64(n) * 500 }
		}, StatusUnknown, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newStory()
			c.change(y)
			h := y.tell()
			r := Check(context.Background(), h, Options{})
			p := propertyOf(r, "P12")
			said := c.says == ""
			for _, v := range p.Violations {
				said = said || strings.Contains(v.Message, c.says)
			}
			if p.Status != c.status || !said {
				t.Errorf("P12 is %s, want %s saying %q: %s %+v", p.Status, c.status, c.says, p.Detail, p.Violations)
			}
			if best := Explain(h, r, Options{}).Best(); c.named != "" && !slices.Contains(best, c.named) {
				t.Errorf("named %v, want %s", best, c.named)
			}
		})
	}
}
