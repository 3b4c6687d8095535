package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// TestABacklogOfOneShardDoesNotStopTheOthers: with one slot and three shards, two of
// them with hundreds of jobs, the third one's few are run by turns.
func TestABacklogOfOneShardDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testTurns(t, slots) })
		})
	}
}

func testTurns(t *testing.T, slots int) {
	const shards = 3
	var mu sync.Mutex
	var order []int
	handle := func(_ context.Context, task *worker.Task) error {
		time.Sleep(100 * time.Millisecond)
		n, err := task.Run.Job.ID.Shard()
		mu.Lock()
		defer mu.Unlock()
		order = append(order, n)
		return err
	}
	r := run(t, sim.New(), "w", handle, func(o *engine.Options) {
		o.Queues = []engine.Queue{{Name: "q", Shards: shards}}
		o.Executor = worker.New(worker.Options{Slots: slots, Handlers: map[string]worker.Handler{"k": handle}, Logger: quiet})
	})
	enqueue := func(shard, n int) {
		for i := 0; n > 0; i++ {
			key := fmt.Sprint(shard, " ", i)
			id := job.KeyedID("q", key, shards)
			if at, _ := id.Shard(); at != shard {
				continue
			}
			if _, err := r.eng.Enqueue(t.Context(), job.Job{ID: id, Queue: "q", Kind: "k", Key: key}); err != nil {
				t.Fatal(err)
			}
			n--
		}
	}
	enqueue(0, 60)
	enqueue(1, 60)
	mu.Lock()
	before := len(order)
	mu.Unlock()
	enqueue(2, 10)
	time.Sleep(time.Minute)
	mu.Lock()
	defer mu.Unlock()
	if len(order) != 130 {
		t.Fatalf("%d of 130 jobs have run", len(order))
	}
	last := 0
	for at, shard := range order {
		if shard == 2 {
			last = at
		}
	}
	if after := last - before; after > 40+2*slots {
		t.Errorf("the ten jobs of the third shard were done after %d others: %v", after, order)
	}
	r.end(t)
}
