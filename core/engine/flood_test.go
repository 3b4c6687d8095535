package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// TestCommandsInAFlood: while more enqueues come than may wait, a queue can be paused and a
// job cancelled. With the mistake jobs-commands-among-enqueues they are refused.
func TestCommandsInAFlood(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plant   func(engine.Options) engine.Options
		refused bool
	}{
		"as it is":                     {func(o engine.Options) engine.Options { return o }, false},
		"jobs-commands-among-enqueues": {engine.Options.WithOneRoom, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := run(t, sim.New(), "w", nothing, func(o *engine.Options) {
					*o = c.plant(*o)
					o.MaxWaiting = 20
				})
				r.session.SetFaults(sim.Faults{Latency: 200 * time.Millisecond})
				waits := aJob("waits")
				waits.Due = time.Now().Add(time.Hour)
				r.put(t, waits)
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for lane := range 30 {
					wg.Go(func() {
						for n := 0; ctx.Err() == nil; n++ {
							_, _ = r.eng.Enqueue(ctx, aJob(fmt.Sprint(lane, "/", n)))
							time.Sleep(10 * time.Millisecond)
						}
					})
				}
				time.Sleep(2 * time.Second)
				refused := 0
				for n := range 10 {
					begun := time.Now()
					_, err := r.eng.SetPaused(t.Context(), shard0, n%2 == 0)
					if errors.Is(err, engine.ErrBusy) {
						refused++
					} else if took := time.Since(begun); err != nil || took > 2*time.Second {
						t.Errorf("pause %d: %v after %s", n, err, took)
					}
					time.Sleep(50 * time.Millisecond)
				}
				if err := r.command(t.Context(), engine.CancelJob, waits.ID); errors.Is(err, engine.ErrBusy) {
					refused++
				} else if err != nil {
					t.Error(err)
				}
				if (refused > 0) != c.refused {
					t.Errorf("%d of 11 commands were refused", refused)
				}
				stop()
				wg.Wait()
				time.Sleep(time.Minute)
				r.end(t)
			})
		})
	}
}

// TestAnEnqueueThatNobodyTook: a caller who goes away before a batch has the job is told
// that nothing was done, and the room is another's.
func TestAnEnqueueThatNobodyTook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, sim.New(), "w", nothing, func(o *engine.Options) { o.MaxWaiting, o.MaxPending = 2, 4 })
		r.session.SetFaults(sim.Faults{Latency: 300 * time.Millisecond})
		put := func(key string, limit time.Duration) store.Outcome {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := r.eng.Enqueue(ctx, aJob(key))
			if errors.Is(err, engine.ErrBusy) {
				t.Errorf("%s: %v", key, err) // for those who have gone
			}
			return store.OutcomeOf(err)
		}
		rides := make(chan store.Outcome)
		go func() { rides <- put("rides", 300*time.Millisecond) }()
		time.Sleep(100 * time.Millisecond)
		for n := range 5 { // one after the other: what waits for a tick is one
			if got := put(fmt.Sprint("waits ", n), 20*time.Millisecond); got != store.Fail {
				t.Errorf("%d: %s", n, got)
			}
		}
		if got := <-rides; got != store.Unknown {
			t.Errorf("what was on its way: %s", got)
		}
		time.Sleep(time.Minute)
		if st, _ := r.state(aJob("rides").ID); st != job.Completed || r.count(store.KindJob, nil) != 1 {
			t.Errorf("it is %s, and there are %d jobs", st, r.count(store.KindJob, nil))
		}
		r.end(t)
	})
}

// TestABacklogOfOneShardDoesNotStopTheOthers: with one slot and three shards, two of
// them with hundreds of jobs, the third one's few are run by turns.
func TestABacklogOfOneShardDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			bubble(t, func(t *testing.T) { testTurns(t, slots) })
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
			r.put(t, job.Job{ID: id, Queue: "q", Kind: "k", Key: key})
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
