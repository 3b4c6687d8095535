package workload

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// renewedLease is valid until its context ends, and notes when it is renewed.
type renewedLease struct {
	ctx    context.Context
	at     []time.Duration
	began  time.Time
	answer func(n int) error
}

func (l *renewedLease) Resource() string              { return "l" }
func (l *renewedLease) Holder() string                { return "w2.1/c1" }
func (l *renewedLease) Token() int64                  { return 7 }
func (l *renewedLease) Context() context.Context      { return l.ctx }
func (l *renewedLease) Valid() bool                   { return l.ctx.Err() == nil }
func (l *renewedLease) Release(context.Context) error { return nil }
func (l *renewedLease) Renew(context.Context) error {
	l.at = append(l.at, time.Since(l.began))
	return l.answer(len(l.at))
}

// events keeps what is recorded.
type events struct {
	list []history.Event
}

func (*events) Now() int64     { return 1 }
func (r *events) NewID() int64 { return int64(len(r.list) + 1) }
func (r *events) Record(e history.Event) int64 {
	r.list = append(r.list, e)
	return 1
}

// TestWorkIsRenewedByHand: a quarter of the ttl apart at most, by all holders of a worker whose leases
// do not renew themselves, and each call is recorded with its end.
func TestWorkIsRenewedByHand(t *testing.T) {
	t.Parallel()
	ends := []error{nil, &store.Error{Outcome: store.Unknown}, &store.Error{Outcome: store.Fail}, &lock.LostError{Reason: lock.ErrDeadline}}
	for _, c := range []struct {
		worker string
		renew  float64
		alone  bool
		hold   time.Duration
		least  int
	}{{"w2", 0.01, true, 10 * time.Second, 6}, {"w2", 0.01, true, 20 * time.Millisecond, 1}, {"w1", 1, false, 10 * time.Second, 6}, {"w2", 0, false, 10 * time.Second, 0}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &events{}
				cl := testClient(Config{Seed: 4, Worker: c.worker, TTL: 6 * time.Second, Lock: LockLoad{Renew: c.renew}})
				cl.rec = rec
				if cl.cfg.byHandAlone() != c.alone {
					t.Error(cl.cfg.byHandAlone())
				}
				l := &renewedLease{ctx: t.Context(), began: time.Now(), answer: func(n int) error { return ends[n%len(ends)] }}
				cl.work(l, c.hold)
				if took := time.Since(l.began); took != c.hold {
					t.Errorf("worked for %s", took)
				}
				last := time.Duration(0)
				for _, at := range l.at {
					if at-last > 1500*time.Millisecond {
						t.Errorf("renewed at %v", l.at)
					}
					last = at
				}
				if len(l.at) < c.least || c.least == 0 && len(l.at) > 0 {
					t.Errorf("%d renewals", len(l.at))
				}
				types := []history.Type{history.OK, history.Unknown, history.Fail, history.Fail}
				for i, e := range rec.list {
					want := history.Invoke
					if i%2 == 1 {
						want = types[(i/2+1)%len(types)]
					}
					if e.Op != history.OpExtend || e.Type != want || e.Key != "l" || e.ID != int64(i/2*2+1) {
						t.Fatalf("%d: %+v, want %s", i, e, want)
					}
				}
				if len(rec.list) != 2*len(l.at) {
					t.Errorf("%d events of %d renewals", len(rec.list), len(l.at))
				}
			})
		})
	}
}

// TestALostLeaseHasALastRenewal, which must fail, and then the work is over.
func TestALostLeaseHasALastRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		cl := testClient(Config{Seed: 4, Worker: "w2", TTL: 6 * time.Second, Lock: LockLoad{Renew: 0.5}})
		cl.rec = &events{}
		l := &renewedLease{ctx: ctx, began: time.Now(), answer: func(int) error { return nil }}
		cl.work(l, time.Minute)
		if took := time.Since(l.began); took != 5*time.Second || !slices.Contains(l.at, took) || len(l.at) != 4 {
			t.Errorf("%s, renewed at %v", took, l.at)
		}
	})
}
