package engine_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/internal/race"
)

// decider is a schedule's Decide.
type decider func(s *schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision

func deciders(f func(decide decider) decider) planter {
	return func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return s, o.WithDecide(f((*schedule.Schedule).Decide))
	}
}

// redefined asks the schedule as it would be with another definition.
func redefined(f func(d *schedule.Definition)) planter {
	return deciders(func(decide decider) decider {
		return func(s *schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
			d := s.Definition
			f(&d)
			other, err := schedule.New(d, 2)
			if err != nil {
				other = s
			}
			return decide(other, st, now, limit, void...)
		}
	})
}

// calendarMutants are schedulers with one mistake that shows over days, and the rules of
// which one must find it.
var calendarMutants = []struct {
	name  string
	rules []string
	plant planter
	twist func(d *schedule.Definition)
}{
	{"time zones that nobody looks at", []string{"calendar"}, nil, func(d *schedule.Definition) {
		if d.Kind == schedule.Cron {
			d.Zone = "UTC"
		}
	}},
	{"standard time all year", []string{"calendar"}, nil, func(d *schedule.Definition) {
		if d.Kind == schedule.Cron {
			d.Zone = "Etc/GMT-1" // east of Greenwich
		}
	}},
	{"nothing fires in a gap", []string{"schedule", "calendar"}, deciders(func(decide decider) decider {
		return func(s *schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
			d := decide(s, st, now, limit, void...)
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
		}
	}), nil},
	{"a crash is an outage", []string{"schedule", "calendar"}, redefined(func(d *schedule.Definition) { d.Grace = time.Second }), nil},
	{"the last day alone is made up for", []string{"schedule", "calendar"}, redefined(func(d *schedule.Definition) {
		if d.Misfire == schedule.MisfireAll {
			d.Window = max(d.Grace, d.Window/3)
		}
	}), nil},
	{"each owner counts from its own start", []string{"schedule", "calendar"}, func(w *world, p *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, scaned: func(_ store.ShardID, rows []store.Row) []store.Row {
			for n, r := range rows {
				var st schedule.State
				if r.Kind == store.KindSchedule && r.At == engine.AtState && json.Unmarshal(r.Body, &st) == nil {
					st.Last = max(st.Last, w.wall(p.node).UnixMilli())
					rows[n].Body, _ = json.Marshal(st)
				}
			}
			return rows
		}}, o
	}, nil},
	{"a scheduler that sleeps at night", []string{"calendar-late"}, deciders(func(decide decider) decider {
		return func(s *schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
			if h := time.UnixMilli(now).UTC().Hour(); h < 4 {
				return schedule.Decision{State: st, Next: now + time.Minute.Milliseconds()}
			}
			return decide(s, st, now, limit, void...)
		}
	}), nil},
	{"a minute early", []string{"schedule", "calendar"}, func(w *world, p *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		o.Wall = func() time.Time { return w.wall(p.node).Add(time.Minute) }
		return s, o
	}, nil},
	{"an occurrence whose job is lost", []string{"schedule", "calendar"}, deciders(func(decide decider) decider {
		return func(s *schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
			d := decide(s, st, now, limit, void...)
			if len(d.Fire) > 0 && d.Fire[0].Nominal%7 == 0 {
				d.Fire = d.Fire[1:]
				if s.Overlap != schedule.OverlapAllow {
					d.State.Active = job.Occurrence{}
				}
			}
			return d
		}
	}), nil},
}

// TestCalendarFindsMutants: the same over five days in which clocks are changed.
func TestCalendarFindsMutants(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	for _, m := range calendarMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			others := map[string]bool{}
			for seed := uint64(5); seed <= 20; seed += 5 { // from the day before Berlin changes
				cfg := configForDays(seed, 5*24*time.Hour)
				cfg.plant, cfg.twist, cfg.zones, cfg.days = m.plant, m.twist, []string{"Europe/Berlin"}, 10
				for rule, what := range runSim(t, cfg).violations {
					if slices.Contains(m.rules, rule) {
						t.Logf("found with seed %d by %q: %s", seed, rule, what)
						return
					}
					others[rule] = true
				}
			}
			t.Errorf("not found by any of %v; found by %v", m.rules, others)
		})
	}
}
