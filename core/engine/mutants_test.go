package engine_test

import (
	"slices"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/engine/enginetest"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/internal/race"
)

// TestSimulationFindsMutants: a test that cannot fail proves nothing. Each broken
// variant must be found, by a rule that is about its mistake.
func TestSimulationFindsMutants(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for _, m := range slices.Concat(enginetest.Mutants(), deciders) {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			others := map[string]bool{}
			for seed := uint64(1); seed <= m.Seeds(*mutantSeeds); seed++ {
				cfg, ok := m.Draw(seed)
				if !ok {
					continue
				}
				for rule, what := range enginetest.Run(t, cfg).Violations {
					if slices.Contains(m.Rules, rule) {
						t.Logf("found with seed %d by %q: %s", seed, rule, what)
						return
					}
					others[rule] = true
				}
			}
			t.Errorf("not found by any of %v within %d seeds; found by %v", m.Rules, m.Seeds(*mutantSeeds), others)
		})
	}
}

// TestHarmless: mistakes under some conditions are found by what these have alone.
func TestHarmless(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	met := map[string]bool{}
	for _, m := range enginetest.Mutants() {
		without := enginetest.Harmless[m.Under]
		if without == nil {
			continue
		}
		met[m.Under] = true
		for seed := uint64(1); seed <= 3; seed++ {
			cfg, ok := m.Draw(seed)
			if !ok {
				continue
			}
			without(&cfg)
			for rule, what := range enginetest.Run(t, cfg).Violations {
				t.Errorf("%s, seed %d: found without that by %s: %s", m.Name, seed, rule, what)
			}
		}
	}
	if len(met) != len(enginetest.Harmless) {
		t.Errorf("mutants are under %v alone", met)
	}
}

// TestConditions: what mutants run under is no mistake by itself, and is there: so often in a run, in the
// mean of those that are tried.
func TestConditions(t *testing.T) {
	t.Parallel()
	must := map[string]struct {
		what string
		n    int
	}{"sweeps": {"swept", 80}, "retires": {"retired", 150 / 4}, "claims": {"tick-ok", 300}, "stands": {"stands", 2}, "doubled": {"doubled", 50}, "stale": {"takeover-ok", 2}, "halts": {"halt-ok", 6}, "again": {"relived", 2}, "sequences": {"plain-followed-completed", 2}, "storms": {"ordered", 10}}
	for _, name := range enginetest.Conditions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "days" { // the longest
				race.Skip(t)
			}
			runs, had, m := 0, 0, must[name]
			for seed := uint64(1); seed <= 2; seed++ {
				cfg, ok := enginetest.Mutant{Under: name}.Draw(seed)
				if !ok {
					continue
				}
				r := enginetest.Run(t, cfg)
				runs, had = runs+1, had+r.Counts[m.what]
				if len(r.Violations) > 0 {
					t.Errorf("seed %d: %v", seed, r.Violations)
				}
			}
			if had < runs*m.n {
				t.Errorf("%s %d times in %d runs, want %d in each", m.what, had, runs, m.n)
			}
		})
	}
}

// TestShrink: a red run becomes smaller and stays red by the same rule.
func TestShrink(t *testing.T) {
	t.Parallel()
	all := enginetest.Mutants()
	m := all[slices.IndexFunc(all, func(m enginetest.Mutant) bool { return m.Name == "ack before the tick is settled" })]
	cfg, _ := m.Draw(1)
	small := enginetest.Shrink(t, cfg, m.Rules[0], 60)
	if _, red := enginetest.Run(t, small).Violations[m.Rules[0]]; !red {
		t.Error("the shrunk run is not red")
	}
	if len(small.String()) >= len(cfg.String()) {
		t.Errorf("not smaller: %s, was %s", small, cfg)
	}
	t.Logf("from %s\nto %s", cfg, small)
}

// changed makes a mistake in the engine's own parts.
func changed(f func(o engine.Options) engine.Options) enginetest.Plant {
	return func(_ *enginetest.World, s store.Shards, o *engine.Options) store.Shards {
		*o = f(*o)
		return s
	}
}

// question is what a schedule is asked to decide.
type question struct {
	st    schedule.State
	now   int64
	limit int
	void  []job.Occurrence
}

func (q question) of(s schedule.Schedule) schedule.Decision {
	return s.Decide(q.st, q.now, q.limit, q.void...)
}

// deciding plants another decision of schedules.
func deciding(f func(s schedule.Schedule, q question) schedule.Decision) enginetest.Plant {
	return changed(func(o engine.Options) engine.Options {
		return o.WithDecide(func(s *schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
			return f(*s, question{st, now, limit, void})
		})
	})
}

// redefined asks the schedule as it would be with another definition.
func redefined(f func(d *schedule.Definition)) enginetest.Plant {
	return deciding(func(s schedule.Schedule, q question) schedule.Decision {
		d := s.Definition
		f(&d)
		other, err := schedule.New(d, 2)
		if err != nil {
			other = &s
		}
		return q.of(*other)
	})
}

// deciders are the mutants that the engine's own parts must be changed for.
var deciders = []enginetest.Mutant{
	{Name: "trust counted from the answer", Rules: []string{"exclusive"}, Under: "cut",
		Plant: changed(func(o engine.Options) engine.Options {
			return o.WithAnchor(func(_, answered time.Duration) time.Duration { return answered })
		})},
	{Name: "a rate counted from now", Rules: []string{"schedule"}, Under: "schedules",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			d := q.of(s)
			if n := len(d.Fire); n > 0 && s.Kind == schedule.FixedRate {
				d.State.Created = q.now
			}
			return d
		})},
	{Name: "an occurrence by the time it is fired", Rules: []string{"schedule"}, Under: "schedules",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			d := q.of(s)
			for n := range d.Fire {
				d.Fire[n].Nominal = q.now
			}
			return d
		})},
	{Name: "no misfire is too late", Rules: []string{"schedule"}, Under: "schedules",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			s.Misfire, s.Window = schedule.MisfireAll, schedule.MaxSpan
			return q.of(s)
		})},
	{Name: "a window of half its length", Rules: []string{"schedule"}, Under: "schedules",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			s.Window, s.Grace = s.Window/2, s.Grace/2
			return q.of(s)
		})},
	{Name: "misfires are dropped", Rules: []string{"schedule"}, Under: "schedules",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			s.Misfire = schedule.MisfireSkip
			return q.of(s)
		})},
	{Name: "misses that are not counted", Rules: []string{"schedule"}, Under: "schedules",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			d := q.of(s)
			d.State.Missed, d.Missed = q.st.Missed, 0
			return d
		})},
	{Name: "occurrences overlap", Rules: []string{"schedule", "overlap"}, Under: "schedules",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			s.Overlap = schedule.OverlapAllow
			return q.of(s)
		})},
	{Name: "what should wait is skipped", Rules: []string{"schedule"}, Under: "schedules",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			if s.Overlap == schedule.OverlapQueue && len(q.st.Queue) == 0 {
				s.Overlap = schedule.OverlapSkip
			}
			return q.of(s)
		})},
	{Name: "half a second early", Rules: []string{"schedule"}, Under: "schedules",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			return question{q.st, q.now + 500, q.limit, q.void}.of(s)
		})},
	// Over days in which clocks are changed.
	{Name: "nothing fires in a gap", Rules: []string{"schedule", "calendar"}, Under: "days",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			d := q.of(s)
			zone, err := time.LoadLocation(s.Zone)
			if err != nil || s.Kind != schedule.Cron {
				return d
			}
			d.Fire = slices.DeleteFunc(d.Fire, func(o job.Occurrence) bool {
				_, before := time.UnixMilli(o.Nominal - 1).In(zone).Zone()
				_, after := time.UnixMilli(o.Nominal).In(zone).Zone()
				return after > before
			})
			return d
		})},
	{Name: "a crash is an outage", Rules: []string{"schedule", "calendar"}, Under: "days",
		Plant: redefined(func(d *schedule.Definition) { d.Grace = time.Second })},
	{Name: "the last day alone is made up for", Rules: []string{"schedule", "calendar"}, Under: "days",
		Plant: redefined(func(d *schedule.Definition) {
			if d.Misfire == schedule.MisfireAll {
				d.Window = max(d.Grace, d.Window/3)
			}
		})},
	{Name: "a scheduler that sleeps at night", Rules: []string{"calendar-late"}, Under: "days",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			if h := time.UnixMilli(q.now).UTC().Hour(); h < 4 {
				return schedule.Decision{State: q.st, Next: q.now + time.Minute.Milliseconds()}
			}
			return q.of(s)
		})},
	{Name: "an occurrence whose job is lost", Rules: []string{"schedule", "calendar"}, Under: "days",
		Plant: deciding(func(s schedule.Schedule, q question) schedule.Decision {
			d := q.of(s)
			if len(d.Fire) > 0 && d.Fire[0].Nominal%7 == 0 {
				d.Fire = d.Fire[1:]
				if s.Overlap != schedule.OverlapAllow {
					d.State.Active = job.Occurrence{}
				}
			}
			return d
		})},
}
