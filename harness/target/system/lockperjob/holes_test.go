package lockperjob

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/job"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// The five holes of the design, and what is sound beside each.

// TestTokensDoNotRise: tokens are unique, but the next holder's can be lower.
func TestTokensDoNotRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		fails := func(context.Context, *worker.Task) error { return io.EOF }
		a, b := w.start("a", fails, nil), w.start("b", fails, nil)
		fell, seen := false, map[job.RunID]bool{}
		for i := range 20 {
			j := newJob(string(rune('a' + i)))
			a.ask(j)
			sleep(10 * time.Second)
			last := job.RunID(0)
			for _, run := range w.runs(j.ID) {
				if seen[run] {
					t.Errorf("token %d was given twice", run)
				}
				seen[run] = true
				fell = fell || run < last
				last = run
			}
		}
		a.stop()
		b.stop()
		if !fell {
			t.Error("no token was lower than the one before it")
		}
	})
}

// TestRenewals: a lock is renewed while its run is at work, also when the answer to a
// renewal is lost; a run whose renewals fail goes on.
func TestRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var ended atomic.Bool
		p := w.start("p", func(ctx context.Context, k *worker.Task) error {
			time.Sleep(10 * testTTL)
			ended.Store(ctx.Err() == nil && k.Valid())
			return nil
		}, nil)
		id := p.ask(newJob("j"))
		name := LockName("q", id)
		left := func() time.Duration { return time.Until(time.UnixMilli(w.locks.Row(name).Beat)) }
		sleep(3 * testTTL)
		if d := left(); d < testTTL/2 {
			t.Errorf("the lock expires in %s", d)
		}
		p.locks.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		sleep(testTTL / 2)
		p.locks.SetFaults(sim.Faults{Latency: time.Millisecond})
		sleep(testTTL / 2)
		if d := left(); d < testTTL/2 {
			t.Errorf("after a lost answer the lock expires in %s", d)
		}
		p.cutOff(true)
		sleep(2 * testTTL)
		if d := left(); d > 0 {
			t.Errorf("cut off, and the lock expires in %s", d)
		}
		p.cutOff(false)
		sleep(8 * testTTL)
		if r, _ := w.row(id); !ended.Load() || r.State != job.Completed {
			t.Errorf("the run did not go on: %+v", r)
		}
		p.stop()
	})
}

// TestLostJob: a job whose process dies while it runs is never run again.
func TestLostJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", lasting(time.Minute), nil)
		id := a.ask(newJob("j"))
		sleep(time.Second)
		a.cutOff(true) // and for ever, as if it were dead
		b := w.start("b", done, nil)
		other := b.ask(newJob("k"))
		sleep(time.Hour)
		r, waiting := w.row(id)
		if r.State != job.Running || waiting != 0 || len(w.runs(id)) != 1 {
			t.Errorf("%+v, %d pending rows, runs %v", r, waiting, w.runs(id))
		}
		if r, _ := w.row(other); r.State != job.Completed {
			t.Errorf("another job: %+v", r)
		}
		b.stop()
		a.stop()
	})
}

// TestWallClocks: who is ahead of time takes a lock over that is held.
func TestWallClocks(t *testing.T) {
	for name, c := range map[string]struct {
		ahead time.Duration
		runs  int
	}{"right": {0, 1}, "ahead by more than the ttl": {testTTL + time.Second, 2}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			held := make(chan struct{})
			// a stands still after it has locked the job and before it removes the row.
			a := w.start("a", done, func(o *Options) { o.Observer = &holding{until: held} })
			id := a.ask(newJob("j"))
			sleep(time.Second)
			b := w.start("b", done, func(o *Options) {})
			b.mu.Lock()
			b.offset = c.ahead
			b.mu.Unlock()
			sleep(time.Second)
			close(held)
			sleep(time.Second)
			a.stop()
			b.stop()
			if n := len(w.runs(id)); n != c.runs {
				t.Errorf("%s: %d runs, want %d", name, n, c.runs)
			}
		})
	}
}

// holding keeps claims until it is closed.
type holding struct {
	blind
	until chan struct{}
}

func (h *holding) Step(s Step) {
	if s.Kind == StepClaimed {
		<-h.until
	}
}

// TestLateHolder: who stands still for longer than the ttl after it has locked a job
// runs it beside, or after, the one that took it over.
func TestLateHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		go_ := make(chan struct{})
		a := w.start("a", done, func(o *Options) { o.Observer = &holding{until: go_} })
		id := a.ask(newJob("j"))
		sleep(time.Second)
		a.cutOff(true) // a process that is stopped renews nothing
		b := w.start("b", done, nil)
		sleep(2 * testTTL)
		if r, _ := w.row(id); r.State != job.Completed || r.Attempt != 1 {
			t.Fatalf("%+v: nobody took the lock over", r)
		}
		a.cutOff(false)
		close(go_)
		sleep(time.Second)
		a.stop()
		b.stop()
		if n := len(w.runs(id)); n != 2 {
			t.Errorf("%d runs, want the late one too", n)
		}
	})
}
