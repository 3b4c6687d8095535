package runlog_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/runlog"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	quiet  = slog.New(slog.NewTextHandler(io.Discard, nil))
	shard0 = store.ShardID{Queue: "q"}
)

// rig is a log at work in a bubble.
type rig struct {
	t    *testing.T
	log  *runlog.Log
	s    *sim.Session
	stop func()
}

func start(t *testing.T, change ...func(*runlog.Options)) *rig {
	s := sim.New().Connect("p", 1)
	o := runlog.Options{Store: s, Worker: "w1", Clock: clock.Go(), Logger: quiet}
	for _, c := range change {
		c(&o)
	}
	r := &rig{t: t, log: runlog.New(o), s: s}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.log.Run(ctx) })
	r.stop = func() { cancel(); wg.Wait() }
	return r
}

func step(kind engine.StepKind, j string, fence int64, run job.RunID, err error) engine.Step {
	return engine.Step{Kind: kind, Shard: shard0, Fence: fence, Job: job.ID(j), Run: run, Attempt: 3, Err: err}
}

// rows are what is stored of a job today, in short.
func (r *rig) rows(j string) string {
	r.t.Helper()
	rows, err := r.s.RunsOf(context.Background(), store.RunsDay{Shard: shard0, Day: store.DayOf(time.Now())}, j)
	if err != nil {
		r.t.Error(err)
	}
	var out []string
	for _, x := range rows {
		text := fmt.Sprintf("%d %s", x.Run, x.Outcome)
		if x.Worker != "" {
			text += fmt.Sprintf(" by %s in %s", x.Worker, x.Ended.Sub(x.Started))
		}
		if x.Error != "" {
			text += ": " + x.Error
		}
		if x.Attempt != 3 {
			text += fmt.Sprintf(" attempt %d", x.Attempt)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

const fence = 2

var aRun, oldRun = job.NewRunID(fence, 7), job.NewRunID(fence-1, 9)

// TestOutcomes: what becomes of a run, by the steps of the engine.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad \xff")
	worked := func(kind engine.StepKind, err error) []engine.Step {
		return []engine.Step{step(engine.StepClaim, "j", fence, aRun, nil), step(engine.StepBegin, "j", fence, aRun, nil), step(engine.StepStart, "j", fence, aRun, nil),
			step(engine.StepFinish, "j", fence, aRun, err), step(kind, "j", fence, aRun, nil)}
	}
	lost := engine.Step{Kind: engine.StepLost, Shard: shard0, Fence: fence}
	for name, c := range map[string]struct {
		steps []engine.Step
		want  string
	}{
		"completed":                     {worked(engine.StepComplete, nil), fmt.Sprintf("%d completed by w1 in 1s", aRun)},
		"failed":                        {worked(engine.StepRetry, bad), fmt.Sprintf("%d failed by w1 in 1s: bad \uFFFD", aRun)},
		"given up":                      {worked(engine.StepDLQ, bad), fmt.Sprintf("%d dlq by w1 in 1s: bad \uFFFD", aRun)},
		"cancelled":                     {worked(engine.StepCancel, bad), fmt.Sprintf("%d cancelled by w1 in 1s: bad \uFFFD", aRun)},
		"not settled yet":               {worked(engine.StepComplete, nil)[:4], ""},
		"lost, then finished":           {append(worked("", nil)[:3:3], lost, step(engine.StepFinish, "j", fence, aRun, bad)), fmt.Sprintf("%d lost by w1 in 2s: bad \uFFFD", aRun)},
		"finished, then lost":           {append(worked("", nil)[:4:4], lost), fmt.Sprintf("%d lost by w1 in 1s", aRun)},
		"started as it was lost":        {append([]engine.Step{lost}, worked("", nil)[2:4]...), fmt.Sprintf("%d lost by w1 in 1s", aRun)},
		"another owner's, rescued":      {[]engine.Step{step(engine.StepRescue, "j", fence, oldRun, nil)}, fmt.Sprintf("%d rescued", oldRun)},
		"another owner's, abandoned":    {[]engine.Step{step(engine.StepAbandon, "j", fence, oldRun, nil)}, fmt.Sprintf("%d abandoned", oldRun)},
		"another owner's, given up":     {[]engine.Step{step(engine.StepDLQ, "j", fence, oldRun, nil)}, fmt.Sprintf("%d dlq", oldRun)},
		"a pending job is cancelled":    {append(worked(engine.StepRetry, nil), step(engine.StepCancel, "j", fence, aRun, nil)), fmt.Sprintf("%d failed by w1 in 1s", aRun)},
		"likewise, tried by another":    {[]engine.Step{step(engine.StepCancel, "j", fence, oldRun, nil)}, ""},
		"cancelled and never run":       {[]engine.Step{step(engine.StepCancel, "j", fence, 0, nil)}, ""},
		"the store refuses the outcome": {append(worked("", nil)[:4:4], step(engine.StepComplete, "j", fence, aRun, bad)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := start(t)
				for _, s := range c.steps {
					if s.Kind == engine.StepFinish || s.Kind == engine.StepLost {
						time.Sleep(time.Second)
					}
					r.log.Step(s)
				}
				time.Sleep(2 * time.Second)
				if got := r.rows("j"); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
				r.stop()
			})
		})
	}
}

// counting counts requests, and fails some.
type counting struct {
	store.Runs
	mu    sync.Mutex
	sizes []int
	fail  func(store.RunsDay) bool
}

func (c *counting) PutRuns(ctx context.Context, d store.RunsDay, rows []store.RunRow) error {
	c.mu.Lock()
	c.sizes = append(c.sizes, len(rows))
	fail := c.fail != nil && c.fail(d)
	c.mu.Unlock()
	if fail {
		<-ctx.Done()
		return &store.Error{Cause: context.Cause(ctx)}
	}
	return c.Runs.PutRuns(ctx, d, rows)
}

func (r *rig) finish(shard, n int) {
	for k := range n {
		run := job.NewRunID(fence, uint32(k+1))
		for _, kind := range []engine.StepKind{engine.StepStart, engine.StepFinish, engine.StepComplete} {
			s := step(kind, fmt.Sprint("j", k), fence, run, nil)
			s.Shard.Shard = shard
			r.log.Step(s)
		}
	}
}

// TestOneRequestForManyRows: rows are gathered and written by partition.
func TestOneRequestForManyRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counting{}
		r := start(t, func(o *runlog.Options) { c.Runs, o.Store = o.Store, c })
		for n := range 3 {
			r.finish(n, 70)
		}
		r.finish(1, 80) // some of which are the same runs again
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if got := fmt.Sprint(c.sizes); got != "[70 100 50 70]" {
			t.Errorf("requests of %s rows", got)
		}
		if s := r.log.Stats(); s.Written != 290 || s.Dropped != 0 {
			t.Errorf("%+v", s)
		}
		r.finish(0, 1)
		r.stop() // writes what is left
		if s := r.log.Stats(); s.Written != 291 {
			t.Errorf("after the end: %+v", s)
		}
	})
}

// TestWhatTheStoreDoesNotTakeIsDropped: memory is bounded, one partition does not stand
// in the way of the others for ever, and somebody is told.
func TestWhatTheStoreDoesNotTakeIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		c := &counting{fail: func(d store.RunsDay) bool { return d.Shard.Shard == 0 }}
		r := start(t, func(o *runlog.Options) {
			c.Runs, o.Store, o.Most = o.Store, c, 100
			o.Logger = slog.New(slog.NewTextHandler(&said, nil))
		})
		r.finish(0, 60)
		r.finish(1, 60)
		if s := r.log.Stats(); s.Dropped != 20 || !strings.Contains(said.String(), "dropped") {
			t.Errorf("%+v, said %q", s, said.String())
		}
		time.Sleep(5 * time.Minute)
		if s, n := r.log.Stats(), strings.Count(said.String(), "dropped:"); s.Dropped != 80 || s.Written != 40 || n != 1 {
			t.Errorf("%+v, said %d times", s, n)
		}
		r.finish(1, 100) // there is room again
		time.Sleep(2 * time.Second)
		if s := r.log.Stats(); s.Dropped != 80 || s.Written != 140 {
			t.Errorf("later: %+v", s)
		}
		r.finish(0, 30)
		begun := time.Now()
		defer func() {
			if n := strings.Count(said.String(), "dropped:"); n != 2 { // a minute later
				t.Errorf("said %d times", n)
			}
		}()
		r.stop()
		if s, took := r.log.Stats(), time.Since(begun); s.Dropped != 110 || took > 6*time.Second {
			t.Errorf("at the end: %+v after %s", s, took)
		}
	})
}

// TestRunsOf: a job's runs of several days.
func TestRunsOf(t *testing.T) {
	t.Parallel()
	s := sim.New().Connect("p", 1)
	id := job.KeyedID("q", "a", 1)
	day := func(n int) time.Time { return time.Unix(int64(20_000+n)*86_400+3600, 0) }
	for n := range 3 {
		d := store.RunsDay{Shard: shard0, Day: store.DayOf(day(n))}
		if err := s.PutRuns(t.Context(), d, []store.RunRow{{Job: string(id), Run: int64(n), Worker: "w", Ended: day(n)}}); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := runlog.RunsOf(t.Context(), s, "q", id, day(1), day(14))
	if err != nil || len(rows) != 2 || rows[0].Run != 1 || rows[1].Run != 2 {
		t.Errorf("%v, %v", rows, err)
	}
	if _, err := runlog.RunsOf(t.Context(), s, "q", "x", day(0), day(1)); !errors.As(err, new(*job.InvalidError)) {
		t.Errorf("no id: %v", err)
	}
	for _, to := range []int{-1, 15} {
		if _, err := runlog.RunsOf(t.Context(), s, "q", id, day(0), day(to)); !errors.As(err, new(*job.InvalidError)) {
			t.Errorf("%d days: %v", to, err)
		}
	}
	if d := store.DayOf(time.Unix(-1, 0)); d != -1 {
		t.Errorf("before 1970: day %d", d)
	}
}

// TestOfAnEngine: the runs of an engine at work, and nothing is left in memory.
func TestOfAnEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		pool := worker.New(worker.Options{Clock: clock.Go(), Logger: quiet, Handlers: map[string]worker.Handler{"k": func(ctx context.Context, k *worker.Task) error {
			time.Sleep(100 * time.Millisecond)
			if k.Run.Attempt < 3 {
				return errors.New("not yet")
			}
			return nil
		}}})
		e, err := engine.New(r.s, engine.Options{Name: "w1", Queues: []engine.Queue{{Name: "q", Shards: 1}}, Executor: pool,
			World: engine.World{Clock: clock.Go()}, Reports: engine.Reports{Observer: engine.Watch(nil, r.log.Step), Logger: quiet}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		time.Sleep(time.Second)
		j := job.Job{ID: job.KeyedID("q", "a", 1), Queue: "q", Kind: "k", Key: "a", Retry: job.RetryPolicy{Base: time.Second}}
		if _, err := e.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		r.stop()
		rows, err := runlog.RunsOf(t.Context(), r.s, "q", j.ID, time.Now(), time.Now())
		if err != nil || len(rows) != 3 || rows[0].Outcome != runlog.Failed || rows[0].Error != "not yet" || rows[2].Outcome != runlog.Completed || rows[2].Attempt != 3 || rows[2].Ended.Sub(rows[2].Started) != 100*time.Millisecond {
			t.Errorf("%+v, %v", rows, err)
		}
		if n := r.log.AtWork(); n != 0 {
			t.Errorf("%d ownerships are still in memory", n)
		}
	})
}
