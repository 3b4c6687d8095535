package engine_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// rig is one engine in a bubble over a perfect store.
type rig struct {
	store   *sim.Store
	session *sim.Session
	shards  store.Shards // the session, or what stands before it
	pool    *worker.Pool
	eng     *engine.Engine
	stop    context.CancelFunc
	result  chan error
}

func options(name string, pool *worker.Pool) engine.Options {
	return engine.Options{Name: name, Queues: []engine.Queue{{Name: "q", Shards: 1}}, Executor: pool,
		Ownership: engine.Ownership{TTL: 6 * time.Second}, World: engine.World{Clock: clock.Go()}, Reports: engine.Reports{Logger: quiet}}
}

// run starts an engine whose jobs are handled by h, and waits until it owns its shard.
func run(t *testing.T, s *sim.Store, name string, h worker.Handler, change ...func(*engine.Options)) *rig {
	t.Helper()
	var both []func(*rig, *engine.Options)
	for _, c := range change {
		both = append(both, func(_ *rig, o *engine.Options) { c(o) })
	}
	return runOver(t, s, name, h, both...)
}

func runOver(t *testing.T, s *sim.Store, name string, h worker.Handler, change ...func(*rig, *engine.Options)) *rig {
	t.Helper()
	r := &rig{store: s, session: s.Connect(name, 1), result: make(chan error, 1)}
	r.session.SetFaults(sim.Faults{Latency: time.Millisecond})
	r.shards = r.session
	r.pool = worker.New(worker.Options{Slots: 2, Handlers: map[string]worker.Handler{"k": h}, Clock: clock.Go(), Logger: quiet})
	o := options(name, r.pool)
	for _, c := range change {
		c(r, &o)
	}
	var err error
	if r.eng, err = engine.New(r.shards, o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() { r.result <- r.eng.Run(ctx) }()
	time.Sleep(time.Second)
	return r
}

func (r *rig) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.result; err != nil {
		t.Errorf("Run: %v", err)
	}
	r.pool.Wait()
}

// put enqueues a job, which must be taken.
func (r *rig) put(t *testing.T, j job.Job) {
	t.Helper()
	if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) command(ctx context.Context, c engine.Command, id job.ID) error {
	_, err := r.eng.Command(ctx, c, "q", id)
	return err
}

func nothing(context.Context, *worker.Task) error { return nil }

// bubble runs a test beside others, with a clock of its own.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

func aJob(key string) job.Job {
	return job.Job{ID: job.KeyedID("q", key, 1), Queue: "q", Kind: "k", Key: key}
}

var shard0 = store.ShardID{Queue: "q"}

func TestAJobRunsOnceAndAKeyIsSafe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var runs atomic.Int64
		r := run(t, sim.New(), "w", func(context.Context, *worker.Task) error { runs.Add(1); return nil })
		for n := range 3 {
			rec, err := r.eng.Submit(t.Context(), aJob("a"))
			if err != nil || rec.Duplicate != (n > 0) {
				t.Errorf("Submit %d: %+v, %v", n, rec, err)
			}
			time.Sleep(time.Minute)
		}
		if runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
		r.end(t)
		h, _ := r.store.ShardRows(shard0)
		if h.Owner != "" {
			t.Errorf("the shard was not handed over: %+v", h)
		}
	})
}

// TestHandOverNeedsNoWait: after an orderly stop the next owner is there at once;
// after a crash only when the ttl is over.
func TestHandOverNeedsNoWait(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]bool{"stop": false, "crash": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := sim.New()
				a := run(t, s, "a", nothing)
				b := run(t, s, "b", nothing)
				if !a.eng.Owns(shard0) || b.eng.Owns(shard0) {
					t.Fatal("the first one does not own the shard alone")
				}
				if crash {
					a.session.Crash()
					time.Sleep(5 * time.Second)
					if b.eng.Owns(shard0) {
						t.Error("taken over before the ttl was over")
					}
					time.Sleep(5 * time.Second)
				} else {
					a.end(t)
					time.Sleep(time.Second)
				}
				if !b.eng.Owns(shard0) {
					t.Error("not taken over")
				}
				b.end(t)
				if crash {
					a.end(t)
				}
			})
		})
	}
}

// TestStopWaitsForRuns: a run may end in peace; one that takes too long is interrupted.
func TestStopWaitsForRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var causes []error
		r := run(t, sim.New(), "w", func(ctx context.Context, t *worker.Task) error {
			d := 10 * time.Second
			if t.Run.Job.Key == "long" {
				d = time.Hour
			}
			err := clock.Go().Sleep(ctx, d)
			causes = append(causes, err)
			return err
		}, func(o *engine.Options) { o.DrainTimeout = 20 * time.Second })
		for _, key := range []string{"short", "long"} {
			j := aJob(key)
			j.MaxDuration = 2 * time.Hour
			if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Second)
		begun := time.Now()
		r.end(t)
		if d := time.Since(begun); d < 20*time.Second || d > 21*time.Second {
			t.Errorf("stopped after %s", d)
		}
		if len(causes) != 2 || causes[0] != nil || !errors.Is(causes[1], job.ErrInterrupted) {
			t.Errorf("the runs ended by %v", causes)
		}
		_, rows := r.store.ShardRows(shard0)
		states := map[string]int{}
		for _, row := range rows {
			states[row.State]++
		}
		if states["completed"] != 1 || states["pending"] != 1 || states["running"] != 0 {
			t.Errorf("left %v", states)
		}
	})
}

// alarms is a clock that counts the timers that are set. After 10,000 of them none ends within
// an hour, so that whoever sets them without end stops.
type alarms struct {
	clock.Clock
	set atomic.Int64
}

func (c *alarms) AfterFunc(d time.Duration, f func()) func() bool {
	if c.set.Add(1) > 10_000 {
		d = max(d, time.Hour)
	}
	return c.Clock.AfterFunc(d, f)
}

// TestStoppingIsQuiet: an engine that waits for a run which does not heed its interruption
// sleeps meanwhile.
func TestStoppingIsQuiet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := &alarms{Clock: clock.Go()}
		r := run(t, sim.New(), "w", func(context.Context, *worker.Task) error {
			time.Sleep(time.Minute)
			return nil
		}, func(o *engine.Options) { o.DrainTimeout, o.Clock = time.Second, c })
		r.put(t, aJob("deaf"))
		time.Sleep(time.Second)
		before := c.set.Load()
		r.end(t)
		if n := c.set.Load() - before; n > 1000 {
			t.Errorf("%d timers were set in a minute", n)
		}
	})
}

func TestTooManyEnqueuesAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*engine.Options){
		"waiting": func(o *engine.Options) { o.MaxWaiting = 1 },
		"pending": func(o *engine.Options) { o.MaxPending = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := run(t, sim.New(), "w", func(ctx context.Context, _ *worker.Task) error { return clock.Go().Sleep(ctx, time.Hour) }, change,
					func(o *engine.Options) { o.DrainTimeout = time.Second })
				results := make(chan error, 3)
				for _, key := range []string{"a", "b", "c"} {
					go func() {
						_, err := r.eng.Enqueue(t.Context(), aJob(key))
						results <- err
					}()
				}
				busy := 0
				for range 3 {
					if err := <-results; errors.Is(err, engine.ErrBusy) && store.OutcomeOf(err) == store.Fail {
						busy++
					} else if err != nil {
						t.Error(err)
					}
				}
				if busy != 2 {
					t.Errorf("%d of 3 were refused", busy)
				}
				r.end(t)
			})
		})
	}
}

func TestNotTheOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		var runs atomic.Int64
		a := run(t, s, "a", func(context.Context, *worker.Task) error { runs.Add(1); return nil })
		b := run(t, s, "b", nil)
		if _, err := b.eng.Enqueue(t.Context(), aJob("x")); !errors.Is(err, engine.ErrNotOwner) || store.OutcomeOf(err) != store.Fail {
			t.Errorf("Enqueue: %v", err)
		}
		if rec, err := b.eng.Submit(t.Context(), aJob("x")); err != nil || rec.Duplicate {
			t.Errorf("Submit: %+v, %v", rec, err)
		}
		time.Sleep(10 * time.Second)
		if runs.Load() != 1 || len(s.InboxRows(shard0)) != 0 {
			t.Errorf("%d runs, inbox %v", runs.Load(), s.InboxRows(shard0))
		}
		wrong := aJob("x")
		wrong.Queue = "other"
		if _, err := a.eng.Submit(t.Context(), wrong); !errors.As(err, new(*job.InvalidError)) {
			t.Errorf("a job of another queue: %v", err)
		}
		a.end(t)
		b.end(t)
	})
}

// TestATooLargeJobIsRefusedAtOnce: by whichever way it comes.
func TestATooLargeJobIsRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := run(t, sim.New(), "w", nothing)
		inbox := engine.Inbox{Store: r.session, Clock: clock.Go()}
		ways := map[string]func(job.Job) error{
			"Enqueue": func(j job.Job) error { _, err := r.eng.Enqueue(t.Context(), j); return err },
			"Submit":  func(j job.Job) error { _, err := r.eng.Submit(t.Context(), j); return err },
			"Inbox":   func(j job.Job) error { _, err := inbox.Enqueue(t.Context(), j, 1); return err },
		}
		for name, way := range ways {
			j := aJob(name)
			j.Payload = make([]byte, store.MaxBytes)
			var invalid *job.InvalidError
			if err := way(j); !errors.As(err, &invalid) || invalid.Field != "payload" {
				t.Errorf("%s: %v", name, err)
			}
			j.Payload = make([]byte, store.MaxBytes/2)
			if err := way(j); err != nil {
				t.Errorf("%s of half the size: %v", name, err)
			}
		}
		time.Sleep(time.Minute)
		_, rows := r.store.ShardRows(shard0)
		done := 0
		for _, row := range rows {
			if row.State == string(job.Completed) {
				done++
			}
		}
		if done != len(ways) {
			t.Errorf("%d of %d jobs were completed", done, len(ways))
		}
		r.end(t)
	})
}

func TestAnotherNumberOfShardsIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := sim.New()
		run(t, s, "a", nil).end(t)
		o := options("b", worker.New(worker.Options{Clock: clock.Go()}))
		o.Queues[0].Shards = 2
		e, err := engine.New(s.Connect("b", 1), o)
		if err != nil {
			t.Fatal(err)
		}
		var se *engine.ShardsError
		if err := e.Run(t.Context()); !errors.As(err, &se) || se.Stored != 1 || se.Used != 2 {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*engine.Options)
		says   string
	}{
		"valid":             {func(*engine.Options) {}, ""},
		"no name":           {func(o *engine.Options) { o.Name = "" }, "Name"},
		"no executor":       {func(o *engine.Options) { o.Executor = nil }, "Executor"},
		"no shards":         {func(o *engine.Options) { o.Queues[0].Shards = 0 }, "shard"},
		"a queue twice":     {func(o *engine.Options) { o.Queues = append(o.Queues, o.Queues[0]) }, "twice"},
		"no bytes":          {func(o *engine.Options) { o.MaxPendingBytes = -1 }, "MaxPendingBytes"},
		"no queue name":     {func(o *engine.Options) { o.Queues[0].Name = "" }, "name"},
		"negative ttl":      {func(o *engine.Options) { o.TTL = -time.Second }, "TTL"},
		"broken ttl":        {func(o *engine.Options) { o.TTL += time.Microsecond }, "whole milliseconds"},
		"ttl below margin":  {func(o *engine.Options) { o.TTL = 150 * time.Millisecond }, "margin"},
		"drift too large":   {func(o *engine.Options) { o.DriftBound = 0.25 }, "DriftBound"},
		"batches too small": {func(o *engine.Options) { o.MaxOps = 3 }, "MaxOps"},
		"batches too large": {func(o *engine.Options) { o.MaxOps = 1000 }, "MaxOps"},
		"bytes too few":     {func(o *engine.Options) { o.MaxBytes = 100 }, "MaxBytes"},
		"bytes too many":    {func(o *engine.Options) { o.MaxBytes = store.MaxBytes + 1 }, "MaxBytes"},
		"nothing may run":   {func(o *engine.Options) { o.MaxRunning = -1 }, "MaxRunning"},
		"no dedupe window":  {func(o *engine.Options) { o.DedupeWindow = 1 }, "DedupeWindow"},
		"nothing may pend":  {func(o *engine.Options) { o.MaxPending = -1 }, "MaxPending"},
		"no horizon at all": {func(o *engine.Options) { o.Horizon = -1 }, "Horizon"},
		"a margin below 0":  {func(o *engine.Options) { o.MarginBase = -1 }, "MarginBase"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options("w", worker.New(worker.Options{}))
			c.change(&o)
			_, err := engine.New(sim.New().Connect("w", 1), o)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("New: %v, want %q", err, c.says)
			}
		})
	}
}

func TestMain(m *testing.M) {
	// Thousands of small worlds of a few megabytes: collecting them is half the time.
	debug.SetGCPercent(1000)
	goleak.VerifyTestMain(m)
}
