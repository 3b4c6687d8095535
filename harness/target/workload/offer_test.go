package workload

import (
	"context"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/harness/target/control"
)

// counter answers each job after a while, and counts how often each is asked for, and how many wait.
type counter struct {
	takes time.Duration
	err   error

	mu         sync.Mutex
	asked      map[job.ID]int
	open, most int
}

func (c *counter) Submit(ctx context.Context, j job.Job) (engine.Receipt, error) {
	c.mu.Lock()
	if c.asked == nil {
		c.asked = map[job.ID]int{}
	}
	c.asked[j.ID]++
	c.open++
	c.most = max(c.most, c.open)
	err := c.err
	c.mu.Unlock()
	_ = clock.Go().Sleep(ctx, c.takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	return engine.Receipt{ID: j.ID}, err
}

// so forgets what was counted, and answers with err from now on.
func (c *counter) so(err error) (asked map[job.ID]int, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, most = c.asked, c.most
	c.asked, c.most, c.err = nil, c.open, err
	return asked, most
}

func enqueuerOf(s submits) *enqueuer {
	jobs := &Jobs{Queue: "q", Shards: 4, Steps: 1, MaxAttempts: 1, RetryBase: time.Second}
	p := &process{cfg: Config{Life: "w1.1", TTL: 6 * time.Second, Seed: 7, Jobs: jobs}, rec: &notebook{}, clock: NewClock(clock.Go()), counts: &counters{}}
	return newEnqueuer(p, s, shardIssuer, drawEffects)
}

// TestStopped: an enqueuer makes up for a delay, and not for a time in which its process was stopped.
func TestStopped(t *testing.T) {
	t.Parallel()
	for stopped, want := range map[bool]int{false: 2000, true: 1000} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			came := 0
			e := enqueuerOf(&counter{})
			e.goesOn = make(chan os.Signal, 1)
			e.arrive(ctx, 100, func(job.Job) {
				if came++; came == 50 {
					time.Sleep(10 * time.Second)
					if stopped {
						e.goesOn <- unix.SIGCONT
					}
				}
			})
			if came < want*9/10 || came > want*11/10 {
				t.Errorf("stopped: %v, %d jobs came in 20 s, of which 10 were idle; want some %d", stopped, came, want)
			}
		})
	}
}

// TestOffer: an enqueuer keeps as many enqueues open as it is told to, or has jobs come at a rate and
// go away when they are refused; and then does what its workload says again.
func TestOffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		to := &counter{takes: 100 * time.Millisecond}
		e := enqueuerOf(to)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { e.run(ctx) })
		after := func(d time.Duration) { time.Sleep(d); synctest.Wait() }

		after(10 * time.Second)
		if asked, _ := to.so(nil); len(asked) > 0 {
			t.Errorf("%d jobs came, and its workload has none", len(asked))
		}
		e.offer(control.Load{Rate: 1000}) // for an instant, or not at all
		e.offer(control.Load{Open: 5})
		after(10 * time.Second)
		if asked, most := to.so(nil); len(asked) < 400 || len(asked) > 500 || most != 5 {
			t.Errorf("%d jobs in 10 s, %d at once; want 50 a second, but for those that are there, 5 at once", len(asked), most)
		}
		busy := &engine.EnqueueError{Outcome: store.Fail, Cause: engine.ErrBusy}
		to.so(busy)
		e.offer(control.Load{Rate: 200})
		after(time.Second) // those before are asked for again
		to.so(busy)
		after(10 * time.Second)
		asked, most := to.so(nil)
		for id, n := range asked {
			if n > 1 && id != e.done.Load().ID { // one that is there is asked for now and then
				t.Errorf("%s was refused and came %d times", id, n)
			}
		}
		if len(asked) < 1800 || len(asked) > 2200 || most < 10 {
			t.Errorf("%d jobs in 10 s, %d at once; want 200 a second", len(asked), most)
		}
		e.offer(control.Load{})
		after(10 * time.Second)
		to.so(nil)
		after(10 * time.Second)
		if asked, _ := to.so(nil); len(asked) > 0 {
			t.Errorf("%d jobs came when the load was over", len(asked))
		}
		if s := e.counts.stats(); s.Came < 2200 || s.Enqueuing != 0 {
			t.Errorf("%+v", s)
		}
		stop()
		wg.Wait()
	})
}
