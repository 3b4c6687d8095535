package broken

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/harness/target/workload"
)

// slowSpan stands still for a time where the answer has come.
type slowSpan struct{ stands time.Duration }

func (slowSpan) Sending(int)       {}
func (s slowSpan) End(lock.Result) { time.Sleep(s.stands) }

type slowObserver struct {
	stands time.Duration
	lost   int
}

func (o *slowObserver) Begin(lock.Op) lock.Span                { return slowSpan{o.stands} }
func (o *slowObserver) LeaseLost(string, string, int64, error) { o.lost++ }

// plantTold plants the variant before an observer; the observer of the client is what it returns.
func plantTold(o lock.Observer) (lock.Observer, workload.Hooks) {
	h := trustFromTold()
	return h.Observer(config, o), h
}

// toldClient is a lock client of the core that sends one acquire, which takes a second.
type toldClient struct {
	obs  lock.Observer
	late bool
	// gave is when it went on after it had said that its grant is late.
	gave chan time.Time
}

type soundLease struct {
	workload.Lease
	token int64
}

func (l soundLease) Token() int64                  { return l.token }
func (l soundLease) Release(context.Context) error { return nil }

func (c toldClient) Acquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	span := c.obs.Begin(lock.Op{Kind: lock.Acquire, Resource: r.Resource, Holder: r.Holder})
	span.Sending(0)
	time.Sleep(time.Second)
	span.End(lock.Result{Outcome: store.OK})
	if !c.late {
		return soundLease{token: 7}, nil
	}
	c.obs.LeaseLost(r.Resource, r.Holder, 7, &lock.LostError{Reason: lock.ErrLateGrant})
	c.gave <- time.Now()
	<-ctx.Done()
	return nil, errors.New("asked no more")
}

func (c toldClient) TryAcquire(ctx context.Context, r lock.Request) (workload.Lease, error) {
	return c.Acquire(ctx, r)
}

func (toldClient) Close(context.Context) error { return nil }

// What the request took is counted, what its client stood still afterwards is not.
func TestTrustFromTold(t *testing.T) {
	t.Parallel()
	for name, stands := range map[string]time.Duration{"at once": 0, "much later": 2 * config.TTL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := &slowObserver{stands: stands}
				obs, h := plantTold(o)
				c := toldClient{obs, stands > config.TTL, make(chan time.Time, 1)}
				l, err := h.Locker(config, nil, c).Acquire(t.Context(), lock.Request{Resource: "l", Holder: "c1"})
				if err != nil || l.Token() != 7 || l.Resource() != "l" || l.Holder() != "c1" || !l.Valid() || o.lost != 0 {
					t.Fatalf("%+v, %v; %d leases lost", l, err, o.lost)
				}
				time.Sleep(config.TTL - 2*time.Second)
				if !l.Valid() || l.Context().Err() != nil || len(c.gave) != 0 {
					t.Error("it is over already, or given back")
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if l.Valid() || l.Context().Err() == nil {
					t.Error("it is not over after its ttl, less what the request took")
				}
				if err := l.Release(t.Context()); err != nil || l.Release(t.Context()) != nil {
					t.Errorf("released: %v", err)
				}
				if c.late && len(c.gave) != 1 {
					t.Error("the sound client cannot go on")
				}
			})
		})
	}
}

// A lease that is lost otherwise is lost.
func TestTrustFromToldLosesLeases(t *testing.T) {
	t.Parallel()
	o := &slowObserver{}
	obs, _ := plantTold(o)
	obs.LeaseLost("l", "c1", 7, &lock.LostError{Reason: lock.ErrDeadline})
	obs.LeaseLost("l", "c1", 7, &lock.LostError{Reason: lock.ErrLateGrant}) // and nobody asks
	if o.lost != 2 {
		t.Errorf("%d leases lost", o.lost)
	}
}
