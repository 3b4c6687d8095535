package enginetest

import (
	"slices"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// scheduleMutants are wrong about schedules and sequences; those that decide wrongly are in
// the tests of the engine, which has the place for another decision.
var scheduleMutants = []Mutant{
	{Name: "an occurrence without the advance", Rules: []string{"schedule"}, Under: "schedules",
		Plant: without(func(b store.Batch, op store.Op) bool { return isState(op) && fires(b) })},
	{Name: "two owners that fire", Rules: []string{"twice"}, Under: "schedules", Plant: noDedupe, World: func(c *Config) {
		c.setup = func(s *sim.Store) { s.MatchStamp = func(_, _ store.Stamp) bool { return true } }
	}},
	{Name: "the end of an occurrence is forgotten", Rules: []string{"schedule"}, Under: "schedules",
		Plant: without(func(b store.Batch, op store.Op) bool {
			return isState(op) && !fires(b) && mistake.Has(b, func(op store.Op) bool {
				return op.Kind == store.Delete &&
					op.Row.Kind == store.KindRunning
			})
		})},
	{Name: "a removed schedule leaves a row", Rules: []string{"schedule-rows"}, Under: "schedules",
		Plant: without(func(_ store.Batch, op store.Op) bool {
			return op.Kind == store.Delete && op.Row.Kind == store.KindSchedule && op.Row.At == engine.AtState
		})},
	{Name: "schedules are forgotten by a takeover", Rules: []string{"liveness", "schedule"}, Under: "schedules",
		Plant: func(_ *World, s store.Shards, _ *engine.Options) store.Shards {
			return mistake.Shards{Shards: s, OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
				return slices.DeleteFunc(rows, func(r store.Row) bool { return r.Kind == store.KindSchedule })
			}}
		}},
	{Name: "schedules as they were when they were first read", Rules: []string{"schedule"}, Under: "schedules", Plant: firstRead},
	{Name: "a trigger is told before it is settled", Rules: []string{"told"}, Under: "schedules",
		Plant: earlyAnswers(func(_ *World, c mistake.Copy) bool { return mistake.Has(c.Batch, isState) && fires(c.Batch) })},
	{Name: "a schedule is reported before it is settled", Rules: []string{"told"}, Under: "schedules",
		Plant: earlyAnswers(func(_ *World, c mistake.Copy) bool { return mistake.Has(c.Batch, isState) && !fires(c.Batch) })},
	// Over days in which clocks are changed.
	{Name: "time zones that nobody looks at", Rules: []string{"calendar"}, Under: "days", World: zoned("UTC")},
	{Name: "standard time all year", Rules: []string{"calendar"}, Under: "days", World: zoned("Etc/GMT-1")}, // east of Greenwich
	{Name: "a minute early", Rules: []string{"schedule", "calendar"}, Under: "days", Plant: options(func(o *engine.Options) {
		wall := o.Wall
		o.Wall = func() time.Time { return wall().Add(time.Minute) }
	})},
}

// madeBy is the job that the engine itself inserts with an operation.
func madeBy(b store.Batch, op store.Op) (j job.Job, ok bool) {
	for _, other := range b.Ops {
		if other.Kind == store.Put && other.Row.Kind == store.KindPending && other.Row.ID == op.Row.ID {
			j, err := job.Decode(other.Row.Body)
			return j, err == nil && !j.Occurrence.IsZero()
		}
	}
	return j, false
}

func fires(b store.Batch) bool {
	return mistake.Has(b, func(op store.Op) bool {
		j, ok := madeBy(b, op)
		return op.Kind == store.PutNew && ok && j.After == ""
	})
}

func isState(op store.Op) bool {
	return op.Kind == store.Put && op.Row.Kind == store.KindSchedule && op.Row.At == engine.AtState
}

// zoned has cron schedules put with another zone, and nobody else knows.
func zoned(zone string) func(*Config) {
	return func(c *Config) {
		c.twist = func(d *schedule.Definition) {
			if d.Kind == schedule.Cron {
				d.Zone = zone
			}
		}
	}
}
