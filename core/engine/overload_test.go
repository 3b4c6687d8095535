package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
	"fencepost/internal/race"
)

// crowd offers jobs at a rate, whatever becomes of them.
type crowd struct {
	wg      sync.WaitGroup
	mu      sync.Mutex
	offered int
	refused int
	other   []error
	// waits are those of acknowledged enqueues, refusals those of refused ones.
	waits, refusals []time.Duration
}

// offer offers so many jobs a second for a while, evenly, each to submit.
func (c *crowd) offer(rate int, d time.Duration, submit func(n int) error) {
	gap := time.Second / time.Duration(rate)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(gap) {
		c.offered++
		n := c.offered
		c.wg.Go(func() {
			begun := time.Now()
			err := submit(n)
			took := time.Since(begun)
			c.mu.Lock()
			defer c.mu.Unlock()
			_, busy := engine.RetryAfter(err)
			switch {
			case err == nil:
				c.waits = append(c.waits, took)
			case busy && store.OutcomeOf(err) == store.Fail:
				c.refused++
				c.refusals = append(c.refusals, took)
			default:
				c.other = append(c.other, err)
			}
		})
	}
	c.wg.Wait()
}

func p99(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)*99/100]
}

// busyRig is an engine whose store takes 20 ms each way, with the slots for everything that comes.
func busyRig(t *testing.T, shards int, done *[8]atomic.Int64, change ...func(*rig, *engine.Options)) *rig {
	t.Helper()
	h := func(_ context.Context, k *worker.Task) error {
		n, err := k.Run.Job.ID.Shard()
		done[n].Add(1)
		return err
	}
	slow := func(r *rig, o *engine.Options) {
		r.session.SetFaults(sim.Faults{Latency: 20 * time.Millisecond})
		r.pool = worker.New(worker.Options{Slots: 400, Handlers: map[string]worker.Handler{"k": h}, Clock: clock.Go(), Logger: quiet})
		o.Executor, o.Queues = r.pool, []engine.Queue{{Name: "q", Shards: shards}}
	}
	r := runOver(t, sim.New(), "a", h, append([]func(*rig, *engine.Options){slow}, change...)...)
	time.Sleep(time.Second)
	return r
}

func (r *rig) submit(ctx context.Context, shards int, what string) func(n int) error {
	return func(n int) error {
		key := fmt.Sprint(what, n)
		_, err := r.eng.Submit(ctx, job.Job{ID: job.KeyedID("q", key, shards), Queue: "q", Kind: "k", Key: key})
		return err
	}
}

// TestOverload: with three times as much as a shard can do, it does as much as it can, what it
// takes it runs at once, the rest is refused at once, and then all is as before. With the mistake
// jobs-admission-by-count what is taken waits.
func TestOverload(t *testing.T) {
	t.Parallel()
	race.Skip(t)
	byCount := func(_ *rig, o *engine.Options) { o.MaxWait, o.MaxOverdue = time.Hour, time.Hour }
	for name, c := range map[string]struct {
		plant []func(*rig, *engine.Options)
		slow  bool
	}{
		"as it is":                {nil, false},
		"jobs-admission-by-count": {[]func(*rig, *engine.Options){byCount}, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var done [8]atomic.Int64
				r := busyRig(t, 1, &done, c.plant...)
				// Capacity: as many callers as are always enough, each again and again.
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for lane := range 40 {
					wg.Go(func() {
						for n := 0; ctx.Err() == nil; n++ {
							_ = r.submit(t.Context(), 1, fmt.Sprint("full ", lane, " "))(n)
						}
					})
				}
				time.Sleep(5 * time.Second)
				was := done[0].Load()
				time.Sleep(10 * time.Second)
				capacity := int(done[0].Load()-was) / 10
				stop()
				wg.Wait()
				time.Sleep(time.Second)

				var below, over, after crowd
				below.offer(capacity*8/10, 20*time.Second, r.submit(t.Context(), 1, "below "))
				if below.refused*1000 > below.offered || len(below.other) > 0 {
					t.Errorf("at 0.8 of %d jobs/s %d of %d were refused, others failed: %v", capacity, below.refused, below.offered, below.other)
				}
				was = done[0].Load()
				over.offer(3*capacity, time.Minute, r.submit(t.Context(), 1, "over "))
				goodput := int(done[0].Load()-was) / 60
				wait, told := p99(over.waits), p99(over.refusals)
				t.Logf("capacity %d/s, goodput %d/s, of %d %d were refused; p99: acknowledged after %s, refused after %s", capacity, goodput, over.offered, over.refused, wait, told)
				if goodput < capacity*9/10 || told > 100*time.Millisecond || len(over.other) > 0 {
					t.Errorf("of %d jobs/s %d were done; told after %s that there is no room; others failed: %v", capacity, goodput, told, over.other)
				}
				if slow := wait > 1500*time.Millisecond; slow != c.slow {
					t.Errorf("acknowledged after %s (p99)", wait)
				}
				time.Sleep(10 * time.Second)
				after.offer(capacity*8/10, 10*time.Second, r.submit(t.Context(), 1, "after "))
				if after.refused > 0 || len(after.other) > 0 || p99(after.waits) > time.Second {
					t.Errorf("afterwards %d of %d were refused, p99 is %s, others failed: %v", after.refused, after.offered, p99(after.waits), after.other)
				}
				time.Sleep(5 * time.Second)
				if n := r.count(store.KindPending, nil); n > 0 {
					t.Errorf("%d acknowledged jobs are not run", n)
				}
				r.end(t)
			})
		})
	}
}

// TestAStalledShardCostsItsOwnCallers: while the store does not answer for one shard of four, the
// others do what they did.
func TestAStalledShardCostsItsOwnCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var bad atomic.Bool
		var done [8]atomic.Int64
		r := busyRig(t, 4, &done, over(func(s store.Shards) store.Shards {
			return mistake.Shards{Shards: s, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
				if bad.Load() && c.Shard.Shard == 0 {
					<-c.Ctx.Done()
					return store.CommitResult{}, &store.Error{Op: "commit", Outcome: store.Unknown, Cause: context.Cause(c.Ctx)}
				}
				return c.Send()
			}}
		}))
		var c crowd
		time.AfterFunc(10*time.Second, func() { bad.Store(true) })
		time.AfterFunc(14*time.Second, func() { bad.Store(false) })
		var at10, at14 [8]int64
		note := func(to *[8]int64) func() {
			return func() {
				for n := range done {
					to[n] = done[n].Load()
				}
			}
		}
		time.AfterFunc(10*time.Second, note(&at10))
		time.AfterFunc(14*time.Second, note(&at14))
		c.offer(400, 25*time.Second, r.submit(t.Context(), 4, "x "))
		for n := 1; n < 4; n++ {
			if before, during := at10[n]/10, (at14[n]-at10[n])/4; during < before*9/10 {
				t.Errorf("shard %d: %d jobs/s, and %d while another was not answered", n, before, during)
			}
		}
		var stalled int
		for _, err := range c.other {
			if errors.Is(err, engine.ErrStalled) {
				stalled++
			}
		}
		if c.refused < 100 || len(c.other) > 0 {
			t.Errorf("%d were refused, others failed: %d, as stalled %d: %v", c.refused, len(c.other), stalled, c.other)
		}
		r.end(t)
	})
}

// TestForwardUnderOverload: what another process hands on to an owner with too much to do is refused
// at once and never goes into the inbox; when there is less to do all is as before. With the mistake
// jobs-inbox-after-timeout it goes there, and the owner has more to do.
func TestForwardUnderOverload(t *testing.T) {
	t.Parallel()
	t.Run("as it is", func(t *testing.T) {
		none := func(ask mistake.Asks, _ store.Shards) mistake.Asks { return ask }
		if wrong, inbox := forwardUnderOverload(t, none); len(wrong) > 0 || inbox > 0 {
			t.Errorf("%d changes of the inbox; %v", inbox, wrong)
		}
	})
	t.Run("jobs-inbox-after-timeout", func(t *testing.T) {
		planted := func(ask mistake.Asks, s store.Shards) mistake.Asks { return mistake.InboxAfterTimeout(ask, s, 1) }
		if wrong, inbox := forwardUnderOverload(t, planted); len(wrong) == 0 || inbox == 0 {
			t.Errorf("%d changes of the inbox; %v", inbox, wrong)
		}
	})
}

// forwardUnderOverload returns what was not as it should be, and how many changes the inbox had.
func forwardUnderOverload(t *testing.T, plant func(mistake.Asks, store.Shards) mistake.Asks) (wrong []string, inbox int) {
	bubble(t, func(t *testing.T) {
		var done [8]atomic.Int64
		a := busyRig(t, 1, &done, func(r *rig, o *engine.Options) {
			r.session.SetFaults(sim.Faults{Latency: 150 * time.Millisecond}) // some 40 jobs a second
			o.TTL, o.Addr = 30*time.Second, "at a"
		})
		b := runOver(t, a.store, "b", nothing, func(_ *rig, o *engine.Options) {
			o.TTL = 30 * time.Second
			o.Forward = plant(func(ctx context.Context, _ string, j job.Job) (engine.Receipt, error) { return a.eng.Enqueue(ctx, j) },
				a.store.Connect("b's inbox", 9))
		})
		time.Sleep(5 * time.Second)
		for _, c := range []struct {
			what    string
			rate    int
			d       time.Duration
			refuses bool
		}{{"before", 20, 20 * time.Second, false}, {"over", 150, 30 * time.Second, true}, {"after", 20, 30 * time.Second, false}} {
			var all crowd
			all.offer(c.rate, c.d, b.submit(t.Context(), 1, c.what))
			if (all.refused > 0) != c.refuses || len(all.other) > 0 || p99(all.waits) > 2*time.Second || p99(all.refusals) > 100*time.Millisecond {
				wrong = append(wrong, fmt.Sprintf("%s: of %d %d were refused; p99: acknowledged after %s, refused after %s; others failed: %v",
					c.what, all.offered, all.refused, p99(all.waits), p99(all.refusals), all.other))
			}
			time.Sleep(10 * time.Second)
		}
		inbox = len(a.store.InboxChanges())
		a.end(t)
		b.end(t)
	})
	return wrong, inbox
}
