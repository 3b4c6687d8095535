package broken

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-admission-by-count", only(workload.Hooks{Engine: admissionByCount}))
	plant("jobs-inbox-after-timeout", inboxAfterTimeout)
	plant("jobs-one-queue-for-commands", oneQueueForCommands)
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

// oneQueueForCommands has a command wait for all enqueues of its process that came before it.
func oneQueueForCommands() workload.Hooks {
	q := &oneQueue{under: map[chan struct{}]bool{}}
	return workload.Hooks{
		Enqueue: func(inner workload.Enqueue) workload.Enqueue {
			return func(ctx context.Context, j job.Job) (engine.Receipt, error) {
				defer q.begin()()
				return inner(ctx, j)
			}
		},
		Commander: func(_ workload.Config, inner workload.Commander) workload.Commander {
			return queuedCommander{inner, q}
		},
	}
}

// oneQueue has a channel for each enqueue of a process that is under way, which is closed when it ends.
type oneQueue struct {
	mu    sync.Mutex
	under map[chan struct{}]bool
}

func (q *oneQueue) begin() (end func()) {
	ended := make(chan struct{})
	q.mu.Lock()
	defer q.mu.Unlock()
	q.under[ended] = true
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.under, ended)
		close(ended)
	}
}

// wait waits for those that are under way.
func (q *oneQueue) wait() {
	q.mu.Lock()
	before := slices.Collect(maps.Keys(q.under))
	q.mu.Unlock()
	for _, ended := range before {
		<-ended
	}
}

type queuedCommander struct {
	workload.Commander
	q *oneQueue
}

func (c queuedCommander) Cancel(ctx context.Context, queue string, id job.ID) error {
	c.q.wait()
	return c.Commander.Cancel(ctx, queue, id)
}

func (c queuedCommander) Redrive(ctx context.Context, queue string, id job.ID) error {
	c.q.wait()
	return c.Commander.Redrive(ctx, queue, id)
}

func (c queuedCommander) Hasten(ctx context.Context, queue string, id job.ID) (engine.Receipt, error) {
	c.q.wait()
	return c.Commander.Hasten(ctx, queue, id)
}
