package lockperjob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/worker"
)

// TestRuns: two processes run every job once; a job costs what the design says.
func TestRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.start("a", done, nil), w.start("b", done, nil)
		var ids []job.ID
		for i := range 50 {
			ids = append(ids, a.ask(newJob(fmt.Sprint(i))))
		}
		sleep(10 * time.Second)
		a.stop()
		b.stop()
		for _, id := range ids {
			r, waiting := w.row(id)
			lock := w.locks.Row(LockName("q", id))
			if r.State != job.Completed || r.Attempt != 1 || r.Ended == 0 || waiting != 0 || len(w.runs(id)) != 1 || lock == nil || lock.Holder != "" || lock.Fence != int64(r.Run) {
				t.Errorf("%+v, %d pending rows, runs %v, lock %s", r, waiting, w.runs(id), lock)
			}
		}
		holders := map[byte]bool{}
		for _, r := range w.past {
			holders[r.holder[0]] = true
		}
		if len(holders) != 2 {
			t.Errorf("one process did it all")
		}
		if w.plain < 7*len(ids) || w.plain > 8*len(ids) {
			t.Errorf("%d plain writes for %d jobs, want 7 a job", w.plain, len(ids))
		}
		// Who comes second to a job is refused.
		if w.conditional < 2*len(ids) || w.conditional > 3*len(ids) {
			t.Errorf("%d conditional writes for %d jobs, want 2 a job", w.conditional, len(ids))
		}
	})
}

// TestEnds: what becomes of jobs that fail.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			handler worker.Handler
			state   job.State
			runs    int
		}{
			"fails once": {func(_ context.Context, k *worker.Task) error {
				if k.Run.First != (k.Run.Attempt == 1) {
					return job.Cancel(io.EOF)
				}
				if k.Run.First {
					return io.EOF
				}
				return nil
			}, job.Completed, 2},
			"fails always": {func(context.Context, *worker.Task) error { return io.EOF }, job.DLQ, 3},
			"is cancelled": {func(context.Context, *worker.Task) error { return job.Cancel(io.EOF) }, job.Cancelled, 1},
			"panics":       {func(context.Context, *worker.Task) error { panic("x") }, job.DLQ, 3},
		} {
			w := newWorld(t)
			p := w.start("p", c.handler, nil)
			id := p.ask(newJob("j"))
			sleep(time.Minute)
			p.stop()
			r, waiting := w.row(id)
			if r.State != c.state || r.Attempt != c.runs || len(w.runs(id)) != c.runs || waiting != 0 || r.Ended == 0 || (r.Error == "") != (c.state == job.Completed) {
				t.Errorf("%s: %+v, runs %v, %d pending rows", name, r, w.runs(id), waiting)
			}
		}
	})
}

// TestTime: a job is not run before it is due, nor a retry before its delay.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var at []time.Duration
		begin := time.Now()
		p := w.start("p", func(context.Context, *worker.Task) error {
			at = append(at, time.Since(begin))
			return io.EOF
		}, nil)
		j := newJob("j")
		j.MaxAttempts, j.Due = 2, begin.Add(5*time.Second)
		p.ask(j)
		sleep(time.Minute)
		p.stop()
		if len(at) != 2 || at[0] < 5*time.Second || at[0] > 6*time.Second || at[1]-at[0] < 800*time.Millisecond || at[1]-at[0] > 2*time.Second {
			t.Errorf("runs after %v", at)
		}
	})
}

// TestEnqueueAgain: a job that is there is not enqueued again, and one whose enqueue
// was cut between its two writes is completed.
func TestEnqueueAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start("p", done, nil)
		j := newJob("j")
		p.ask(j)
		sleep(5 * time.Second)
		if rec, err := p.Submit(t.Context(), j); err != nil || !rec.Duplicate || rec.ID != j.ID {
			t.Errorf("again: %+v, %v", rec, err)
		}
		k := newJob("k")
		w.mu.Lock()
		body, _ := k.Encode()
		w.jobs[k.ID] = Row{ID: k.ID, Body: body, State: job.Pending, Due: 1}
		w.mu.Unlock()
		sleep(5 * time.Second)
		if _, waiting := w.row(k.ID); waiting != 0 || len(w.runs(k.ID)) != 0 {
			t.Errorf("a job without a pending row was run")
		}
		if rec, err := p.Submit(t.Context(), k); err != nil || !rec.Duplicate {
			t.Errorf("cut enqueue, again: %+v, %v", rec, err)
		}
		sleep(5 * time.Second)
		// A row that comes late, of a job that is over.
		w.mu.Lock()
		w.wait[Pending{Bucket: 0, Due: 1, ID: j.ID}] = true
		w.mu.Unlock()
		sleep(5 * time.Second)
		p.stop()
		for _, x := range []job.Job{j, k} {
			if r, waiting := w.row(x.ID); r.State != job.Completed || len(w.runs(x.ID)) != 1 || waiting != 0 {
				t.Errorf("%+v, runs %v, %d pending rows", r, w.runs(x.ID), waiting)
			}
		}
	})
}

// TestSubmitOutcomes: an enqueue says whether it certainly did nothing.
func TestSubmitOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start("p", done, nil)
		bad := newJob("x")
		bad.Kind = ""
		if _, err := p.Submit(t.Context(), bad); store.OutcomeOf(err) != store.Fail || !errors.As(err, new(*job.InvalidError)) {
			t.Errorf("a job without a kind: %v", err)
		}
		p.cutOff(true)
		if _, err := p.Submit(t.Context(), newJob("y")); store.OutcomeOf(err) != store.Fail {
			t.Errorf("nothing but the look at the job was sent: %v", err)
		}
		p.cutOff(false)
		w.mu.Lock()
		k := newJob("z")
		body, _ := k.Encode()
		w.jobs[k.ID] = Row{ID: k.ID, Body: body, State: job.Pending}
		w.mu.Unlock()
		time.AfterFunc(500*time.Microsecond, func() { p.cutOff(true) })
		if _, err := p.Submit(t.Context(), k); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("its pending row may be there: %v", err)
		}
		p.cutOff(false)
		time.AfterFunc(1500*time.Microsecond, func() { p.refuse(true) })
		if _, err := p.Submit(t.Context(), newJob("v")); store.OutcomeOf(err) != store.Unknown {
			t.Errorf("its row is there, its pending row is not: %v", err)
		}
		p.refuse(false)
		p.stop()
	})
}

// TestTakeover: a job that was locked and not begun is run by another when the lock
// has expired, and not before.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", done, nil)
		id := newJob("j").ID
		// As a process leaves it that dies before it removes the pending row.
		v := Version("dead/r1", 1_000_000, time.Now().Add(testTTL), testTTL)
		if res, err := a.locks.CAS(t.Context(), LockName("q", id), nil, v, 0); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		a.ask(newJob("j"))
		sleep(testTTL - time.Second)
		if n := len(w.runs(id)); n != 0 {
			t.Errorf("%d runs under another's lock", n)
		}
		sleep(2 * time.Second)
		if r, _ := w.row(id); r.State != job.Completed {
			t.Errorf("%+v: nobody took the lock over", r)
		}
		// A job that is over, whose release was lost and whose pending row came late.
		over := newJob("k").ID
		w.mu.Lock()
		w.jobs[over] = Row{ID: over, Body: w.jobs[id].Body, State: job.Completed, Run: 5}
		w.wait[Pending{Bucket: 0, Due: 1, ID: over}] = true
		w.mu.Unlock()
		v = Version("dead/r2", 1_000_001, time.Now(), testTTL)
		if res, err := a.locks.CAS(t.Context(), LockName("q", over), nil, v, 0); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		sleep(time.Second)
		if _, waiting := w.row(over); waiting != 0 || len(w.runs(over)) != 0 || w.locks.Row(LockName("q", over)).Holder != "" {
			t.Errorf("a job that is over: %d pending rows, runs %v, lock %s", waiting, w.runs(over), w.locks.Row(LockName("q", over)))
		}
		a.stop()
	})
}

// TestStop: runs get their time; those that do not use it are pending again.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start("p", func(ctx context.Context, k *worker.Task) error {
			if k.Run.Job.Key == "quick" {
				time.Sleep(500 * time.Millisecond)
				return nil
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}, nil)
		quick, slow := p.ask(newJob("quick")), p.ask(newJob("slow"))
		sleep(time.Second / 2)
		p.stop()
		if r, _ := w.row(quick); r.State != job.Completed {
			t.Errorf("quick: %+v", r)
		}
		r, waiting := w.row(slow)
		if ago := time.Now().UnixMilli() - r.Due; ago < 0 {
			t.Errorf("slow is due in %d ms only", -ago)
		}
		if lock := w.locks.Row(LockName("q", slow)); r.State != job.Pending || waiting != 1 || lock.Holder != "" {
			t.Errorf("slow: %+v, %d pending rows, lock %s", r, waiting, lock)
		}
	})
}

// TestPage: what others have locked does not keep a process from the rest.
func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start("p", lasting(time.Second), func(o *Options) { o.Slots, o.Page = 2, 3 })
		var ids []job.ID
		for i := range 20 {
			ids = append(ids, p.ask(newJob(fmt.Sprint(i))))
		}
		sleep(15 * time.Second)
		p.stop()
		if slices.ContainsFunc(ids, func(id job.ID) bool { r, _ := w.row(id); return r.State != job.Completed }) {
			t.Errorf("not all of 20 jobs are done after 15 s with 2 slots")
		}
		if n := len(w.past); n != len(ids) {
			t.Errorf("%d runs", n)
		}
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	good := Options{Name: "n", Queue: "q", Handlers: map[string]worker.Handler{"k": done}}
	if _, err := good.withDefaults(); err != nil {
		t.Error(err)
	}
	if _, err := New(good); err == nil {
		t.Error("a scheduler without a DB")
	}
	for name, change := range map[string]func(*Options){
		"no name":      func(o *Options) { o.Name = "" },
		"no queue":     func(o *Options) { o.Queue = "" },
		"no handlers":  func(o *Options) { o.Handlers = nil },
		"ttl in us":    func(o *Options) { o.TTL = time.Second + time.Microsecond },
		"negative":     func(o *Options) { o.Poll = -1 },
		"no buckets":   func(o *Options) { o.Buckets = -1 },
		"negative ttl": func(o *Options) { o.TTL = -time.Second },
	} {
		o := good
		change(&o)
		if _, err := o.withDefaults(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
