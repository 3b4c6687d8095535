package broken

import (
	"context"
	"time"

	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-admission-by-count", only(workload.Hooks{Engine: admissionByCount}))
	plant("jobs-inbox-after-timeout", inboxAfterTimeout)
}

// admissionByCount refuses an enqueue when too many wait, however long that takes.
func admissionByCount(_ workload.Config, o *engine.Options) {
	o.MaxWait, o.MaxOverdue = time.Hour, time.Hour
}

// ownerPatience is for how long inboxAfterTimeout waits for another process: longer than a batch takes, and
// shorter than an enqueue may wait for one.
const ownerPatience = 600 * time.Millisecond

// inboxAfterTimeout takes a shard's owner that does not answer soon for one that cannot be reached: the
// job goes into the inbox. That owner has it too, and the inbox to copy.
func inboxAfterTimeout() workload.Hooks {
	var inbox engine.Inbox
	keep := func(_ workload.Config, _ *cassandra.DB, s store.Shards) store.Shards {
		inbox.Store = s
		return s
	}
	forwards := func(cfg workload.Config, o *engine.Options) {
		ask := forward.NewClient(nil).Enqueue
		o.Forward = func(ctx context.Context, addr string, j job.Job) (engine.Receipt, error) {
			short, stop := context.WithTimeout(ctx, ownerPatience)
			defer stop()
			rec, err := ask(short, addr, j)
			if err == nil || short.Err() == nil {
				return rec, err
			}
			if rec, err := inbox.Enqueue(ctx, j, cfg.Jobs.Shards); err == nil {
				rec.Inbox = true
				return rec, nil
			}
			return rec, &engine.EnqueueError{Job: j.ID, Outcome: store.Unknown, Cause: err}
		}
	}
	return workload.Hooks{Shards: keep, Engine: forwards}
}
