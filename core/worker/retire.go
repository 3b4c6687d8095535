package worker

import (
	"context"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
)

// Retire returns what an engine.Options.Retire may be for jobs whose Tasks have their
// effects in a sink: their resources are removed from it. Each shard leaves one row, its
// floor, by which the sink refuses what comes late.
func Retire(from sink.Retirer) func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error {
	return func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error {
		resources := make([]string, len(ended))
		for n, id := range ended {
			resources[n] = Resource(job.Job{Queue: shard.Queue, ID: id})
		}
		_, err := from.Retire(ctx, engine.Issuer(shard), int64(below), resources...)
		return err
	}
}
