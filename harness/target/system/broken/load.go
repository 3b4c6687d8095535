package broken

import (
	"time"

	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/mistake"
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

// inboxAfterTimeout is [mistake.InboxAfterTimeout].
func inboxAfterTimeout() workload.Hooks {
	var shards store.Shards
	return workload.Hooks{
		Shards: func(_ workload.Config, _ *cassandra.DB, s store.Shards) store.Shards {
			shards = s
			return s
		},
		Engine: func(cfg workload.Config, o *engine.Options) {
			o.Forward = mistake.InboxAfterTimeout(forward.NewClient(nil).Enqueue, shards, cfg.Jobs.Shards)
		},
	}
}
