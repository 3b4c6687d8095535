package broken

import (
	"encoding/json"
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
