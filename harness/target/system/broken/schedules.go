package broken

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-cron-by-clock", byClock)
	plant("jobs-removed-returns", only(workload.Hooks{Shards: removedReturns}))
	plant("jobs-disabled-returns", only(workload.Hooks{Shards: disabledReturns}))
	plant("jobs-enable-forgotten", only(workload.Hooks{Shards: enableForgotten}))
	plant("jobs-once-again", only(workload.Hooks{Shards: onceAgain}))
	plant("jobs-bounds-ignored", only(workload.Hooks{Shards: boundsIgnored}))
	plant("jobs-overlap-in-memory", only(workload.Hooks{Shards: overlapInMemory}))
	plant("jobs-trigger-again", only(workload.Hooks{Shards: triggerAgain}))
	plant("jobs-failure-ignored", only(workload.Hooks{Submit: failureIgnored}))
}

// states changes the states of schedules as an owner reads them.
func states(inner store.Shards, change func(id string, st *schedule.State)) store.Shards {
	return mistake.Shards{Shards: inner, OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
		for i, r := range rows {
			var st schedule.State
			if r.Kind != store.KindSchedule || r.At != engine.AtState || json.Unmarshal(r.Body, &st) != nil {
				continue
			}
			change(r.ID, &st)
			rows[i].Body, _ = json.Marshal(st) // of what was decoded
		}
		return rows
	}}
}

// byClock has each owner count the next time of a schedule from what its own clock shows, which
// may be before the last time that was fired.
func byClock() workload.Hooks {
	wall := time.Now
	return workload.Hooks{
		// Its worker's clock, which a fault may set.
		Engine: func(_ workload.Config, o *engine.Options) { wall = o.Wall },
		Shards: func(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
			return states(inner, func(_ string, st *schedule.State) { st.Last = wall().UnixMilli() })
		},
	}
}

// removedReturns removes schedules from their owner's memory and not from the shard.
func removedReturns(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	return mistake.Without(inner, func(_ store.Batch, op store.Op) bool {
		return op.Kind == store.Delete && op.Row.Kind == store.KindSchedule
	})
}

// written changes the states of schedules as they are written, and not in their owner's memory.
func written(inner store.Shards, change func(id string, st *schedule.State)) store.Shards {
	return mistake.Shards{Shards: inner, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
		c.Each(func(op *store.Op) {
			var st schedule.State
			if op.Kind != store.Put || op.Row.Kind != store.KindSchedule || op.Row.At != engine.AtState || json.Unmarshal(op.Row.Body, &st) != nil {
				return
			}
			change(op.Row.ID, &st)
			op.Row.Body, _ = json.Marshal(st) // of what was decoded
		})
		return c.Send()
	}}
}

// disabledReturns disables schedules in their owner's memory and not in their rows.
func disabledReturns(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	return written(inner, func(_ string, st *schedule.State) { st.Disabled = false })
}

// enableForgotten enables schedules in their owner's memory: the rows of those that it has ever
// disabled say so for ever.
func enableForgotten(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	var mu sync.Mutex
	disabled := map[string]bool{}
	return written(inner, func(id string, st *schedule.State) {
		mu.Lock()
		defer mu.Unlock()
		disabled[id] = disabled[id] || st.Disabled
		st.Disabled = disabled[id]
	})
}

// overlapInMemory has the next owner not know which occurrence of a schedule has not ended.
func overlapInMemory(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	return states(inner, func(_ string, st *schedule.State) { st.Active, st.Queue = job.Occurrence{}, nil })
}

// triggerAgain writes the jobs of manual triggers over those of the same name.
func triggerAgain(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	return overwriting(inner, func(o job.Occurrence) bool { return o.Trigger != "" })
}

// overwriting writes the jobs of occurrences over those of the same name.
func overwriting(inner store.Shards, which func(job.Occurrence) bool) store.Shards {
	return mistake.Shards{Shards: inner, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
		over := map[string]bool{}
		for _, op := range c.Batch.Ops {
			if op.Kind == store.Put && op.Row.Kind == store.KindPending {
				j, err := job.Decode(op.Row.Body)
				over[op.Row.ID] = err == nil && !j.Occurrence.IsZero() && j.After == "" && which(j.Occurrence)
			}
		}
		c.Each(func(op *store.Op) {
			if op.Kind == store.PutNew && over[op.Row.ID] {
				op.Kind = store.Put
			}
		})
		return c.Send()
	}}
}

// onceAgain has each owner fire again what is to fire once: that it has is in the memory of the one
// before.
func onceAgain(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	var mu sync.Mutex
	of := map[string]schedule.Definition{} // the rows of definitions are read before those of states
	read := mistake.Shards{Shards: inner, OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
		mu.Lock()
		defer mu.Unlock()
		for _, r := range rows {
			if r.Kind == store.KindSchedule && r.At == engine.AtDefinition {
				of[r.ID], _ = schedule.Decode(r.Body)
			}
		}
		return rows
	}}
	again := states(read, func(id string, st *schedule.State) {
		mu.Lock()
		defer mu.Unlock()
		switch d := of[id]; d.Kind {
		case schedule.Now:
			st.Last = st.Created - 1
		case schedule.At:
			st.Last = d.At.UnixMilli() - 1
		}
	})
	return overwriting(again, func(o job.Occurrence) bool { return o.Trigger == "" })
}

// boundsIgnored has each owner read definitions without when they begin and end, but for the one
// instant of those that fire once.
func boundsIgnored(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	return mistake.Shards{Shards: inner, OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
		for i, r := range rows {
			if r.Kind != store.KindSchedule || r.At != engine.AtDefinition {
				continue
			}
			d, err := schedule.Decode(r.Body)
			if err != nil || d.Kind == schedule.At || d.At.IsZero() && d.Until.IsZero() {
				continue
			}
			d.At, d.Until = time.Time{}, time.Time{}
			rows[i].Body, _ = d.Encode() // of what was decoded
		}
		return rows
	}}
}

// failureIgnored has every sequence continue after a failure.
func failureIgnored(j job.Job) job.Job {
	j.OnFailure = job.GoOn
	then := slices.Clone(j.Then)
	for i := range then {
		then[i].OnFailure = job.GoOn
	}
	j.Then = then
	return j
}
