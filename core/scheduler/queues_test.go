package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// TestMoreShardsAtOnce: a queue that nobody has created yet is created with its own first number.
func TestMoreShardsAtOnce(t *testing.T) {
	t.Parallel()
	s := sim.New()
	a, err := scheduler.New(scheduler.Options{Shards: s.Connect("a", 1), Engine: engine.Options{Name: "a", Queues: []engine.Queue{{Name: "q", Shards: 4}}}})
	if err != nil {
		t.Fatal(err)
	}
	q, duplicate, err := a.PutQueue(t.Context(), "q", 12)
	if want := (store.Queue{Name: "q", First: 4, Shards: 12}); q != want || duplicate || err != nil {
		t.Errorf("%+v, %v, %v, want %+v", q, duplicate, err, want)
	}
}

// TestMoreShards: a queue gets more shards while it is at work. A process that has not looked since knows the
// new shards when it is asked about them, all processes have as many within 4 ttl, each key still has one job,
// and all others spread.
func TestMoreShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(2)
		a, stopA := c.begin(t, "a")
		time.Sleep(c.ttl)
		jobs := 0
		enqueue := func(s *scheduler.Scheduler, j job.Job, again bool) job.ID {
			t.Helper()
			j.Kind = "k"
			rec, err := s.Enqueue(t.Context(), j)
			if err != nil || rec.Duplicate != again && !rec.Inbox { // an inbox does not know what its shard has
				t.Errorf("%+v, %v, want duplicate %v", rec, err, again)
			}
			if !again {
				jobs++
			}
			return rec.ID
		}
		ids := map[string]job.ID{}
		for n := range 50 {
			key := fmt.Sprint(n)
			ids[key] = enqueue(a, job.Job{Key: key}, false)
		}
		operator := c.store.Connect("operator", 1)
		raise := func(to int) {
			t.Helper()
			if q, err := operator.RaiseQueue(t.Context(), "q", to); err != nil || q.Shards != to {
				t.Fatal(q, err)
			}
		}
		raise(7)
		if q, err := a.Queue(t.Context(), "q"); err != nil || q.Shards != 2 {
			t.Fatalf("it knows of %+v, %v, and has not looked", q, err)
		}
		var far job.ID
		for n, try := 0, byte(0); n < 2; n, _ = far.Shard() {
			far = job.SpreadID([16]byte{try}, 2, 7)
			try++
		}
		enqueue(a, job.Job{ID: far}, false)
		raise(8)
		if _, err := a.SetPaused(t.Context(), "q", true); err != nil {
			t.Error(err)
		}
		for n := range 8 {
			if h, _ := c.store.ShardRows(store.ShardID{Queue: "q", Shard: n}); !h.Pause.On {
				t.Errorf("shard %d is not paused", n)
			}
		}
		if _, _, err := a.PutQueue(t.Context(), "q", 9); !errors.Is(err, scheduler.ErrPaused) {
			t.Errorf("a queue that is paused: %v", err)
		}
		if _, err := a.SetPaused(t.Context(), "q", false); err != nil {
			t.Error(err)
		}
		for _, raise := range []struct {
			shards    int
			duplicate bool
		}{{8, true}, {9, false}, {9, true}} {
			q, duplicate, err := a.PutQueue(t.Context(), "q", raise.shards)
			if want := (store.Queue{Name: "q", First: 2, Shards: raise.shards}); q != want || duplicate != raise.duplicate || err != nil {
				t.Errorf("%+v, %v, %v, want %+v, %v", q, duplicate, err, want, raise.duplicate)
			}
		}
		b, stopB := c.begin(t, "b")
		c.n = 9
		time.Sleep(4 * c.ttl)
		c.even(t, "with more shards", 2)
		for key, id := range ids {
			for _, s := range []*scheduler.Scheduler{a, b} {
				if got := enqueue(s, job.Job{Key: key}, true); got != id {
					t.Errorf("key %s has job %s, and had %s", key, got, id)
				}
			}
		}
		beyond := 0
		for range 90 {
			if n, _ := enqueue(b, job.Job{}, false).Shard(); n >= 2 {
				beyond++
			}
		}
		if beyond < 50 {
			t.Errorf("%d of 90 jobs without a key are in the 7 of 9 shards that are new", beyond)
		}
		var invalid *job.InvalidError
		for _, wrong := range []struct {
			queue  string
			shards int
		}{{"q", 8}, {"q", 0}, {"q", job.MaxShards + 1}, {"another", 1}} {
			if _, _, err := a.PutQueue(t.Context(), wrong.queue, wrong.shards); !errors.As(err, &invalid) {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
		// A process that starts may be told the first number, or today's, and no other.
		stopB()
		for _, told := range []int{2, 9, 5} {
			c.n = told
			_, stop := c.begin(t, "b")
			time.Sleep(c.ttl)
			stop()
		}
		time.Sleep(c.ttl)
		stopA()
		for _, told := range []int{1, 10} {
			s := c.store.Connect("wrong", 1)
			var wrong *engine.ShardsError
			if err := engine.RaiseFences(t.Context(), s, engine.Queue{Name: "q", Shards: told}, 1); !errors.As(err, &wrong) {
				t.Errorf("a process that is told %d shards: %v", told, err)
			}
		}
		ran := 0
		c.mu.Lock()
		for key, n := range c.ran {
			ran += n
			if key != "" && n != 1 {
				t.Errorf("the job of key %s ran %d times", key, n)
			}
		}
		c.mu.Unlock()
		if ran != jobs {
			t.Errorf("%d of %d jobs ran", ran, jobs)
		}
	})
}

// looks are shards whose queues somebody looks at, and raises.
type looks struct {
	store.Shards
	queues func()
	raise  func(raise func() (store.Queue, error)) (store.Queue, error)
}

func (l looks) Queues(ctx context.Context) ([]store.Queue, error) {
	l.queues()
	return l.Shards.Queues(ctx)
}

func (l looks) RaiseQueue(ctx context.Context, queue string, shards int) (store.Queue, error) {
	return l.raise(func() (store.Queue, error) { return l.Shards.RaiseQueue(ctx, queue, shards) })
}

// TestPausedWhileRaised: shards that a queue gets while it is being paused are paused too.
func TestPausedWhileRaised(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(2)
		operator := c.store.Connect("operator", 1)
		var n atomic.Int64
		n.Store(-1000)
		c.through = func(s store.Shards) store.Shards {
			return looks{Shards: s, queues: func() {
				if n.Add(1) != 2 { // the first look is before any shard is paused
					return
				}
				if h, _ := c.store.ShardRows(store.ShardID{Queue: "q", Shard: 1}); !h.Pause.On {
					t.Error("the second look is not after the pause")
				}
				if _, err := operator.RaiseQueue(t.Context(), "q", 5); err != nil {
					t.Error(err)
				}
			}}
		}
		a, stop := c.begin(t, "a")
		defer stop()
		time.Sleep(c.ttl)
		n.Store(0)
		if duplicate, err := a.SetPaused(t.Context(), "q", true); duplicate || err != nil {
			t.Errorf("%v, %v", duplicate, err)
		}
		for shard := range 5 {
			if h, _ := c.store.ShardRows(store.ShardID{Queue: "q", Shard: shard}); !h.Pause.On {
				t.Errorf("shard %d is not paused", shard)
			}
		}
	})
}

// TestRaiseOfUnknownOutcome: whether a queue has more shards is not known if the answer is lost, and shows
// when one asks again.
func TestRaiseOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	lost, done := errors.New("the answer is lost"), true
	s := sim.New()
	shards := looks{Shards: s.Connect("a", 1), queues: func() {}, raise: func(raise func() (store.Queue, error)) (store.Queue, error) {
		if done {
			if _, err := raise(); err != nil {
				t.Error(err)
			}
		}
		return store.Queue{}, &store.Error{Op: "raise", Outcome: store.Unknown, Cause: lost}
	}}
	a, err := scheduler.New(scheduler.Options{Shards: shards, Engine: engine.Options{Name: "a", Queues: []engine.Queue{{Name: "q", Shards: 4}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, done = range []bool{false, true} {
		var unknown *scheduler.QueueError
		if _, _, err := a.PutQueue(t.Context(), "q", 12); !errors.As(err, &unknown) || store.OutcomeOf(err) != store.Unknown || !errors.Is(err, lost) {
			t.Errorf("done %v: %v", done, err)
		}
	}
	if q, duplicate, err := a.PutQueue(t.Context(), "q", 12); q.Shards != 12 || !duplicate || err != nil {
		t.Errorf("%+v, %v, %v", q, duplicate, err)
	}
}
