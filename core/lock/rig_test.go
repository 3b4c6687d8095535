package lock_test

import (
	"context"
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

func (r *recorder) losses() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.lost...)
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

// century makes a clock positive, as any machine's is: a bubble begins long before its process.
const century = 100 * 365 * 24 * time.Hour

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
	o := lock.Options{TTL: testTTL, Clock: &jumpClock{Clock: clock.Go(), off: century}, Observer: r.rec, Logger: quiet}
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

// steal takes the lock over as no client would: before its holder's ttl has passed.
func (r *rig) steal() store.Version {
	r.t.Helper()
	row := r.store.Row("r")
	thief := store.Version{Fence: row.Fence + 1, Attempt: "thief", Holder: "thief", TTL: time.Second}
	if res, err := r.store.Connect("x", 1).CAS(context.Background(), "r", row, thief, 0); err != nil || !res.Applied {
		r.t.Errorf("steal: %+v, %v", res, err)
	}
	return thief
}

func (r *rig) ops(want string) {
	r.t.Helper()
	if got := r.rec.all(); got != want {
		r.t.Errorf("operations %s, want %s", got, want)
	}
}

func noRenew(o *lock.Options) { o.NoAutoRenew = true }
