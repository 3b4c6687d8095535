package broken

import (
	"encoding/json"
	"slices"
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
	plant("jobs-overlap-in-memory", only(workload.Hooks{Shards: overlapInMemory}))
	plant("jobs-trigger-again", only(workload.Hooks{Shards: triggerAgain}))
	plant("jobs-failure-ignored", only(workload.Hooks{Submit: failureIgnored}))
}

// states changes the states of schedules as an owner reads them.
func states(inner store.Shards, change func(*schedule.State)) store.Shards {
	return mistake.Shards{Shards: inner, OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
		for i, r := range rows {
			var st schedule.State
			if r.Kind != store.KindSchedule || r.At != engine.AtState || json.Unmarshal(r.Body, &st) != nil {
				continue
			}
			change(&st)
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
			return states(inner, func(st *schedule.State) { st.Last = wall().UnixMilli() })
		},
	}
}

// removedReturns removes schedules from their owner's memory and not from the shard.
func removedReturns(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	return mistake.Without(inner, func(_ store.Batch, op store.Op) bool {
		return op.Kind == store.Delete && op.Row.Kind == store.KindSchedule
	})
}

// overlapInMemory has the next owner not know which occurrence of a schedule has not ended.
func overlapInMemory(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	return states(inner, func(st *schedule.State) { st.Active, st.Queue = job.Occurrence{}, nil })
}

// triggerAgain writes the jobs of manual triggers over those of the same name.
func triggerAgain(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	return mistake.Shards{Shards: inner, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
		triggered := map[string]bool{}
		for _, op := range c.Batch.Ops {
			if op.Kind == store.Put && op.Row.Kind == store.KindPending {
				j, err := job.Decode(op.Row.Body)
				triggered[op.Row.ID] = err == nil && j.Occurrence.Trigger != "" && j.After == ""
			}
		}
		c.Each(func(op *store.Op) {
			if op.Kind == store.PutNew && triggered[op.Row.ID] {
				op.Kind = store.Put
			}
		})
		return c.Send()
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
