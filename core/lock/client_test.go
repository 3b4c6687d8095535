package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// rig is a store and clients in a bubble.
type rig struct {
	t     *testing.T
	store *sim.Store
	rec   *recorder
}

// recorder keeps what an Observer is told.
type recorder struct {
	mu   sync.Mutex
	ops  []string
	lost []error
}

func (r *recorder) Begin(op lock.Op) lock.Span { return &recSpan{r: r, op: op} }
func (r *recorder) LeaseLost(_, _ string, _ int64, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = append(r.lost, cause)
}

func (r *recorder) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprint(r.ops)
}

type recSpan struct {
	r  *recorder
	op lock.Op
	n  int
}

func (s *recSpan) Sending(n int) { s.n = n + 1 }
func (s *recSpan) End(res lock.Result) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	name := s.op.Kind.String()
	if s.op.Takeover {
		name = "takeover"
	}
	timeout := ""
	if res.ServerTimeout {
		timeout = "!"
	}
	s.r.ops = append(s.r.ops, fmt.Sprintf("%s:%s/%d%s", name, res.Outcome, s.n, timeout))
}

const testTTL = 6 * time.Second

// bubble runs f with a rig in a synctest bubble.
func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, &rig{t: t, store: sim.New(), rec: &recorder{}}) })
}

// client returns a client with its session; it is closed at the bubble's end.
func (r *rig) client(name string, change ...func(*lock.Options)) (*lock.Client, *sim.Session) {
	s := r.store.Connect(name, 7)
	s.SetFaults(sim.Faults{Latency: time.Millisecond})
	return r.clientOn(s, change...), s
}

func (r *rig) clientOn(s store.Locks, change ...func(*lock.Options)) *lock.Client {
	o := lock.Options{TTL: testTTL, Clock: clock.Go(), Observer: r.rec, Logger: quiet}
	for _, c := range change {
		c(&o)
	}
	c, err := lock.New(s, o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ctx)
	})
	return c
}

func (r *rig) acquire(c *lock.Client, holder string) *lock.Lease {
	r.t.Helper()
	l, err := c.Acquire(r.t.Context(), lock.Request{Resource: "r", Holder: holder})
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

func (r *rig) release(l *lock.Lease) {
	r.t.Helper()
	if err := l.Release(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) ops(want string) {
	r.t.Helper()
	if got := r.rec.all(); got != want {
		r.t.Errorf("operations %s, want %s", got, want)
	}
}

func noRenew(o *lock.Options) { o.NoAutoRenew = true }

func TestUncontendedCost(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		for i := range int64(3) {
			l := r.acquire(c, "h")
			if l.Token() != i+1 || !l.Valid() || l.Holder() != "h" || l.Resource() != "r" || l.TTL() != testTTL {
				t.Errorf("lease %d of %q by %q", l.Token(), l.Resource(), l.Holder())
			}
			r.release(l)
		}
		r.ops("[acquire:ok/1 release:ok/1 acquire:ok/1 release:ok/1 acquire:ok/1 release:ok/1]")
		if row := r.store.Row("r"); row.Fence != 3 || row.Holder != "" {
			t.Errorf("row %s", row)
		}
	})
}

func TestRenewalKeepsTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		l := r.acquire(c, "h")
		before := l.Deadline()
		time.Sleep(10 * testTTL)
		if !l.Valid() || l.Deadline() <= before || l.Context().Err() != nil {
			t.Error("the lease was not kept")
		}
		if beat := r.store.Row("r").Beat; beat < 29 || beat > 31 {
			t.Errorf("%d renewals in 10 ttl, want one every third", beat)
		}
		r.release(l)
		if err := context.Cause(l.Context()); !errors.Is(err, lock.ErrReleased) {
			t.Errorf("cause %v", err)
		}
		var lost *lock.LostError
		if err := l.Renew(t.Context()); !errors.Is(err, lock.ErrReleased) || errors.As(err, &lost) {
			t.Errorf("renew after release: %v", err)
		}
		if l.Valid() || l.Release(t.Context()) != nil {
			t.Error("a second release")
		}
	})
}

// TestDeadline: without a renewal the lease ends a margin before its ttl from
// the first send, and its context says why.
func TestDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a", noRenew)
		start := time.Now()
		l := r.acquire(c, "h")
		<-l.Context().Done()
		want := testTTL - lock.Margin(testTTL, 0.01, 100*time.Millisecond)
		if got := time.Since(start).Round(5 * time.Millisecond); got != want {
			t.Errorf("lost after %s, want %s", got, want)
		}
		var lost *lock.LostError
		if cause := context.Cause(l.Context()); !errors.As(cause, &lost) || !errors.Is(cause, lock.ErrDeadline) || lost.Token != 1 {
			t.Errorf("cause %v", cause)
		}
		if l.Valid() {
			t.Error("valid after its deadline")
		}
		if err := l.Renew(t.Context()); !errors.Is(err, lock.ErrDeadline) {
			t.Errorf("renew: %v", err)
		}
		if len(r.rec.lost) != 1 {
			t.Errorf("reported lost %d times", len(r.rec.lost))
		}
		if err := l.Release(t.Context()); !errors.As(err, &lost) {
			t.Errorf("release: %v", err)
		}
		r.ops("[acquire:ok/1 release:ok/1]") // no renewal was sent; the row is freed all the same
	})
}

// TestValidLooksAtTheClock: after a suspend the timer has not fired yet.
func TestValidLooksAtTheClock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		jump := &jumpClock{Clock: clock.Go()}
		c, _ := r.client("a", func(o *lock.Options) { o.Clock = jump })
		l := r.acquire(c, "h")
		jump.jump(time.Hour)
		if l.Valid() {
			t.Error("valid an hour later")
		}
		if !errors.Is(context.Cause(l.Context()), lock.ErrDeadline) {
			t.Errorf("cause %v", context.Cause(l.Context()))
		}
	})
}

// jumpClock is a clock that went on while the machine slept; its timers did not.
type jumpClock struct {
	clock.Clock
	mu  sync.Mutex
	off time.Duration
}

func (c *jumpClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Clock.Now() + c.off
}

func (c *jumpClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

func TestTakeover(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, _ := r.client("a", noRenew)
		b, _ := r.client("b")
		la := r.acquire(a, "a")
		start := time.Now()
		lb := r.acquire(b, "b")
		if waited := time.Since(start); waited < testTTL || waited > testTTL+testTTL/8 {
			t.Errorf("taken over after %s", waited)
		}
		if la.Valid() || lb.Token() != 2 {
			t.Errorf("token %d, the old one valid: %v", lb.Token(), la.Valid())
		}
		var lost *lock.LostError
		if err := la.Release(t.Context()); !errors.As(err, &lost) {
			t.Errorf("stale release: %v", err)
		}
		if row := r.store.Row("r"); row.Holder != "b" {
			t.Errorf("the stale release changed the row: %s", row)
		}
		r.ops("[acquire:ok/1 takeover:ok/1 release:fail/1]")
	})
}

// TestTakenOverIsNoticed: a renewal that is rejected ends the lease at once.
func TestTakenOverIsNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, _ := r.client("a", noRenew)
		l := r.acquire(a, "a")
		thief := store.Version{Fence: 2, Attempt: "thief", Holder: "thief", TTL: time.Second}
		if _, err := r.store.Connect("x", 1).CAS(t.Context(), "r", r.store.Row("r"), thief, 0); err != nil {
			t.Fatal(err)
		}
		err := l.Renew(t.Context())
		var lost *lock.LostError
		if !errors.As(err, &lost) || !errors.Is(err, lock.ErrTakenOver) {
			t.Errorf("renew: %v", err)
		}
		if l.Valid() || l.Context().Err() == nil {
			t.Error("the lease lives on")
		}
		if err := l.Release(t.Context()); !errors.Is(err, lock.ErrTakenOver) {
			t.Errorf("release: %v", err)
		}
		r.ops("[acquire:ok/1 renew:fail/1]") // the stale release sends nothing
	})
}

// TestLiveHolderIsLeftAlone: a contender never takes a lease that is renewed.
func TestLiveHolderIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, _ := r.client("a")
		b, _ := r.client("b")
		l := r.acquire(a, "a")
		_, err := b.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "b", Timeout: 20 * testTTL})
		var ae *lock.AcquireError
		if !errors.Is(err, lock.ErrTimeout) || !errors.As(err, &ae) || ae.Row == nil || ae.Row.Holder != "a" || ae.Unsettled {
			t.Errorf("contender: %v", err)
		}
		if !l.Valid() {
			t.Error("the holder lost its lease")
		}
	})
}

func TestTryAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, _ := r.client("a")
		b, _ := r.client("b")
		req := lock.Request{Resource: "r", Holder: "x"}
		l, err := a.TryAcquire(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*lock.Client{a, b} {
			start := time.Now()
			if _, err := c.TryAcquire(t.Context(), req); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("TryAcquire on a held lock: %v", err)
			}
			if time.Since(start) > 100*time.Millisecond {
				t.Errorf("it took %s", time.Since(start))
			}
		}
		r.release(l)
		// b's cached row is stale: the try must look again, not give up.
		time.Sleep(time.Second)
		if _, err := b.TryAcquire(t.Context(), req); err != nil {
			t.Errorf("TryAcquire on a free lock: %v", err)
		}
	})
}

func TestFIFO(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		l := r.acquire(c, "first")
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				l := r.acquire(c, fmt.Sprint(i))
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				r.release(l)
			})
			synctest.Wait()
		}
		start := time.Now()
		r.release(l)
		wg.Wait()
		if fmt.Sprint(order) != "[0 1 2 3 4]" {
			t.Errorf("order %v", order)
		}
		if d := time.Since(start); d > 100*time.Millisecond {
			t.Errorf("five hand-overs took %s", d)
		}
	})
}

// TestQueueLeft: a caller that gives up leaves no gap in the queue.
func TestQueueLeft(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		l := r.acquire(c, "first")
		done := make(chan string, 3)
		for i, timeout := range []time.Duration{time.Second, 2 * time.Second, 0} {
			go func() {
				_, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: fmt.Sprint(i), Timeout: timeout})
				done <- fmt.Sprint(i, err == nil, errors.Is(err, lock.ErrTimeout))
			}()
			synctest.Wait()
		}
		for _, want := range []string{"0 false true", "1 false true"} {
			if got := <-done; got != want {
				t.Errorf("caller %s, want %s", got, want)
			}
		}
		r.release(l)
		if got := <-done; got != "2 true false" {
			t.Errorf("caller %s", got)
		}
	})
}

// TestAbandonedAcquire: a grant whose caller has gone is released in the
// background, and the next caller of the process waits for that.
func TestAbandonedAcquire(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a")
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		_, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "h", Timeout: 1500 * time.Millisecond})
		var ae *lock.AcquireError
		if !errors.As(err, &ae) || !errors.Is(err, lock.ErrTimeout) {
			t.Fatalf("acquire: %v", err)
		}
		// The read of the row was lost too, so nothing was sent yet.
		s.SetFaults(sim.Faults{Latency: time.Millisecond})
		r.release(r.acquire(c, "warm up"))
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		_, err = c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "h", Timeout: 1500 * time.Millisecond})
		if !errors.As(err, &ae) || !ae.Unsettled || !errors.Is(err, lock.ErrTimeout) {
			t.Fatalf("acquire: %v", err)
		}
		if row := r.store.Row("r"); row.Holder != "h" {
			t.Fatalf("row %s", row)
		}
		s.SetFaults(sim.Faults{Latency: time.Millisecond})
		start := time.Now()
		l := r.acquire(c, "next")
		if d := time.Since(start); d > 2*time.Second || l.Token() != 3 {
			t.Errorf("token %d after %s", l.Token(), d)
		}
		r.release(l)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLateGrant: a grant that becomes known after its deadline is not given to
// its caller, who goes on trying.
func TestLateGrant(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", func(o *lock.Options) { o.RequestTimeout = 2 * time.Second })
		r.release(r.acquire(c, "warm up"))
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		time.AfterFunc(7*time.Second, func() { s.SetFaults(sim.Faults{Latency: time.Millisecond}) })
		l := r.acquire(c, "h")
		if l.Token() != 3 || !l.Valid() {
			t.Errorf("token %d", l.Token())
		}
		if len(r.rec.lost) != 1 || !errors.Is(r.rec.lost[0], lock.ErrLateGrant) {
			t.Errorf("lost %v", r.rec.lost)
		}
		r.ops("[acquire:ok/1 release:ok/1 acquire:ok/5 release:ok/1 acquire:ok/1]")
	})
}

// TestRefusal: a node that refuses is followed by the next; if all refuse, the
// operation has failed and a new one is tried.
func TestRefusal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a")
		r.release(r.acquire(c, "warm up"))
		s.SetFaults(sim.Faults{Latency: time.Millisecond, Refuse: 1})
		_, err := c.TryAcquire(t.Context(), lock.Request{Resource: "r", Holder: "h", Timeout: time.Second})
		var ae *lock.AcquireError
		if !errors.As(err, &ae) || ae.Unsettled || !errors.Is(err, sim.ErrRefused) {
			t.Errorf("error %v", err)
		}
		if ops := r.rec.all(); ops[:len("[acquire:ok/1 release:ok/1 acquire:fail/3")] != "[acquire:ok/1 release:ok/1 acquire:fail/3" {
			t.Errorf("operations %s", ops)
		}
	})
}

// TestRenewalThroughRefusals: refusals do not end a renewal before its deadline.
func TestRenewalThroughRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		s.SetFaults(sim.Faults{Latency: time.Millisecond, Refuse: 1})
		time.AfterFunc(3*time.Second, func() { s.SetFaults(sim.Faults{Latency: time.Millisecond}) })
		before := l.Deadline()
		if err := l.Renew(t.Context()); err != nil {
			t.Errorf("renew: %v", err)
		}
		// The trust counts from the first send, not from the copy that succeeded.
		if moved := l.Deadline() - before; moved > 100*time.Millisecond {
			t.Errorf("the deadline moved by %s", moved)
		}
	})
}

// TestServerTimeout: End says when no copy is on its way any more.
func TestServerTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		s.SetFaults(sim.Faults{Latency: time.Millisecond, ServerTimeout: 1})
		var lost *lock.LostError
		if err := l.Renew(t.Context()); !errors.As(err, &lost) {
			t.Errorf("renew: %v", err)
		}
		ops := r.rec.all()
		if ops[len(ops)-2] != '!' {
			t.Errorf("operations %s: the last should be known to be over", ops)
		}
	})
	t.Run("a copy without an answer", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, s := r.client("a", noRenew)
			l := r.acquire(c, "h")
			s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseRequest: 1})
			time.AfterFunc(500*time.Millisecond, func() { s.SetFaults(sim.Faults{Latency: time.Millisecond, ServerTimeout: 1}) })
			_ = l.Renew(t.Context())
			ops := r.rec.all()
			if ops[len(ops)-2] == '!' {
				t.Errorf("operations %s: the first copy may still be on its way", ops)
			}
		})
	})
}

// TestPendingRenewal: a renewal that its caller abandoned is continued, not
// repeated, and a release settles it first.
func TestPendingRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := l.Renew(ctx); store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("renew: %v", err)
		}
		s.SetFaults(sim.Faults{Latency: time.Millisecond})
		r.release(l)
		r.ops("[acquire:ok/1 renew:ok/2 release:ok/1]")
	})
}

// TestUnsettledAtTheDeadline: the row is freed by what a SERIAL read shows.
func TestUnsettledAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		s.SetFaults(sim.Faults{Latency: time.Millisecond, LoseReply: 1})
		var lost *lock.LostError
		if err := l.Renew(t.Context()); !errors.As(err, &lost) || !errors.Is(err, lock.ErrDeadline) {
			t.Errorf("renew: %v", err)
		}
		s.SetFaults(sim.Faults{Latency: time.Millisecond})
		if err := l.Release(t.Context()); !errors.As(err, &lost) {
			t.Errorf("release: %v", err)
		}
		if row := r.store.Row("r"); row.Holder != "" || row.Fence != 1 {
			t.Errorf("row %s", row)
		}
		r.ops("[acquire:ok/1 renew:unknown/6 read:ok/1 release:ok/1]")
	})
}

func TestReleaseInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, s := r.client("a", noRenew)
		l := r.acquire(c, "h")
		s.Cut(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Release(ctx); store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("release: %v", err)
		}
		s.Cut(false)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if row := r.store.Row("r"); row.Holder != "" {
			t.Errorf("row %s", row)
		}
	})
}

func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		l := r.acquire(c, "h")
		waiting := make(chan error)
		go func() {
			_, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "w"})
			waiting <- err
		}()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- c.Close(t.Context()) }()
		if err := <-waiting; !errors.Is(err, lock.ErrClosed) {
			t.Errorf("a waiting call: %v", err)
		}
		if _, err := c.Acquire(t.Context(), lock.Request{Resource: "r", Holder: "w"}); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("a new call: %v", err)
		}
		time.Sleep(2 * testTTL)
		if !l.Valid() {
			t.Error("Close ended a lease that is in use")
		}
		r.release(l)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
	t.Run("by force", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, s := r.client("a")
			l := r.acquire(c, "h")
			s.Cut(true)
			go func() {
				_, _ = c.Acquire(context.Background(), lock.Request{Resource: "other", Holder: "w"})
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close: %v", err)
			}
			if time.Since(start) != time.Second {
				t.Errorf("Close took %s", time.Since(start))
			}
			if !errors.Is(context.Cause(l.Context()), lock.ErrClosed) {
				t.Errorf("cause %v", context.Cause(l.Context()))
			}
			if err := l.Release(t.Context()); !errors.Is(err, lock.ErrClosed) {
				t.Errorf("release after Close: %v", err)
			}
		})
	})
}

func TestCallersContext(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		l := r.acquire(c, "h")
		why := errors.New("the caller has better things to do")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if _, err := c.Acquire(ctx, lock.Request{Resource: "r", Holder: "w"}); !errors.Is(err, why) {
			t.Errorf("acquire: %v", err)
		}
		r.release(l)
		// The lease outlives the call's context and keeps its values.
		type key struct{}
		ctx2, cancel2 := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		l, err := c.Acquire(ctx2, lock.Request{Resource: "r", Holder: "h"})
		if err != nil {
			t.Fatal(err)
		}
		cancel2()
		if l.Context().Err() != nil || l.Context().Value(key{}) != "value" {
			t.Error("the lease's context")
		}
		r.release(l)
	})
}

func TestBadRequests(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		for name, req := range map[string]lock.Request{
			"no resource":      {Holder: "h"},
			"no holder":        {Resource: "r"},
			"short ttl":        {Resource: "r", Holder: "h", TTL: time.Millisecond},
			"fractional ttl":   {Resource: "r", Holder: "h", TTL: time.Second + 1},
			"negative timeout": {Resource: "r", Holder: "h", Timeout: -1},
		} {
			if _, err := c.Acquire(t.Context(), req); err == nil {
				t.Errorf("%s was accepted", name)
			}
		}
		r.ops("[]")
	})
	if _, err := lock.New(nil, lock.Options{}); err == nil {
		t.Error("a client without a store")
	}
}

// TestQuickHandOverBetweenProcesses: a release is seen by another process's
// looker soon, though it had been waiting for long.
func TestQuickHandOverBetweenProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, _ := r.client("a")
		b, _ := r.client("b")
		l := r.acquire(a, "a")
		var waited time.Duration
		done := make(chan struct{})
		released := make(chan time.Time, 1)
		go func() {
			defer close(done)
			l := r.acquire(b, "b")
			waited = time.Since(<-released)
			r.release(l)
		}()
		time.Sleep(2 * testTTL)
		released <- time.Now()
		r.release(l)
		<-done
		if waited > testTTL/8+50*time.Millisecond {
			t.Errorf("seen %s after the release", waited)
		}
	})
}

// TestNobodyStarves: a process with a queue stands back for the pollers of others.
func TestNobodyStarves(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		cycles := map[string]int{}
		var mu sync.Mutex
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			c, s := r.client(name)
			s.SetFaults(sim.Faults{Latency: 3 * time.Millisecond})
			clients := 3
			if name == "c" {
				clients = 1
			}
			for range clients {
				wg.Go(func() {
					for ctx.Err() == nil {
						l, err := c.Acquire(ctx, lock.Request{Resource: "r", Holder: name})
						if err != nil {
							continue
						}
						time.Sleep(20 * time.Millisecond)
						_ = l.Release(context.Background())
						mu.Lock()
						cycles[name]++
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		total := cycles["a"] + cycles["b"] + cycles["c"]
		t.Logf("cycles in 30 s: %v", cycles)
		for name, n := range cycles {
			if n < total/20 {
				t.Errorf("%s had %d of %d cycles", name, n, total)
			}
		}
		if total < 500 {
			t.Errorf("%d cycles in 30 s", total)
		}
	})
}

// TestManyResources: what is remembered of idle resources is bounded, and
// forgetting costs a read only.
func TestManyResources(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _ := r.client("a")
		for round := range int64(2) {
			for i := range 1500 {
				l, err := c.Acquire(t.Context(), lock.Request{Resource: fmt.Sprint(i), Holder: "h"})
				if err != nil || l.Token() != round+1 {
					t.Fatalf("%v, %v", l, err)
				}
				r.release(l)
			}
		}
	})
}
