package forward_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/job"
	"fencepost/core/store"
)

// owner is an engine whose enqueues are done by a function.
type owner struct {
	stub
	enqueue func(ctx context.Context, j job.Job) (engine.Receipt, error)
}

func (o *owner) Line(_ context.Context, j job.Job) func(context.Context) (engine.Receipt, error) {
	return func(ctx context.Context) (engine.Receipt, error) { return o.enqueue(ctx, j) }
}

func keyed(key string) job.Job {
	return job.Job{ID: job.KeyedID("q", key, 1), Queue: "q", Kind: "k", Key: key}.WithDefaults()
}

// counted counts requests.
func counted(h http.Handler, n *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h.ServeHTTP(w, r)
	})
}

// TestManyShareARequest: what waits while others are on their way goes together; each is
// answered for itself.
func TestManyShareARequest(t *testing.T) {
	t.Parallel()
	const all = 500
	var requests atomic.Int64
	o := &owner{enqueue: func(_ context.Context, j job.Job) (engine.Receipt, error) {
		time.Sleep(20 * time.Millisecond)
		if strings.HasSuffix(j.Key, "7") {
			return engine.Receipt{}, &engine.EnqueueError{Job: j.ID, Outcome: store.Fail, Cause: &engine.BusyError{Cause: engine.ErrBusy, RetryAfter: 3 * time.Second}}
		}
		return engine.Receipt{ID: j.ID, Duplicate: strings.HasSuffix(j.Key, "8")}, nil
	}}
	client, addr := serve(t, counted(forward.Handler(o), &requests))
	var wg sync.WaitGroup
	for n := range all {
		wg.Go(func() {
			j := keyed(fmt.Sprint(n))
			rec, err := client.Enqueue(t.Context(), addr, j)
			if n%10 == 7 {
				if wait, busy := engine.RetryAfter(err); !busy || wait != 3*time.Second || !errors.Is(err, engine.ErrBusy) || store.OutcomeOf(err) != store.Fail {
					t.Errorf("%d: %v, again after %s", n, err, wait)
				}
			} else if err != nil || rec.ID != j.ID || rec.Duplicate != (n%10 == 8) {
				t.Errorf("%d: %+v, %v", n, rec, err)
			}
		})
	}
	wg.Wait()
	if got := requests.Load(); got > all/10 {
		t.Errorf("%d requests for %d enqueues", got, all)
	}
}

// TestNoneWaitsForAnother: enqueues that share a request with one that takes long are answered
// before it, and others are sent meanwhile, however many such there are.
func TestNoneWaitsForAnother(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	o := &owner{enqueue: func(_ context.Context, j job.Job) (engine.Receipt, error) {
		if strings.HasPrefix(j.Key, "slow") {
			<-held
		}
		return engine.Receipt{ID: j.ID}, nil
	}}
	client, addr := serve(t, forward.Handler(o))
	var wg sync.WaitGroup
	for n := range 8 {
		for what := range 2 {
			key := fmt.Sprint([]string{"slow ", "fast "}[what], n)
			wg.Go(func() {
				if _, err := client.Enqueue(t.Context(), addr, keyed(key)); err != nil {
					t.Errorf("%s: %v", key, err)
				}
				if what == 1 && n == 7 {
					close(held)
				}
			})
		}
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
}

// TestTheOwnerKnowsTheTime that an enqueue has left, and gives it up in time for its answer.
func TestTheOwnerKnowsTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var left time.Duration
		h := forward.Handler(&owner{enqueue: func(ctx context.Context, j job.Job) (engine.Receipt, error) {
			end, _ := ctx.Deadline()
			left = time.Until(end)
			<-ctx.Done()
			return engine.Receipt{}, &engine.EnqueueError{Job: j.ID, Outcome: store.Fail, Cause: ctx.Err()}
		}})
		client := forward.NewClient(tripper(func(r *http.Request) (*http.Response, error) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			time.Sleep(90 * time.Millisecond) // the answer's way
			return rec.Result(), nil
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := client.Enqueue(ctx, "a:80", aJob())
		if store.OutcomeOf(err) != store.Fail || left != 1900*time.Millisecond {
			t.Errorf("%v, outcome %s; the owner had %s", err, store.OutcomeOf(err), left)
		}
	})
}

// TestTheVersionBefore takes one enqueue a request, and is given it so.
func TestTheVersionBefore(t *testing.T) {
	t.Parallel()
	s := &stub{rec: engine.Receipt{ID: aJob().ID, Duplicate: true}}
	var many, single atomic.Int64
	now := forward.Handler(s)
	client, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/internal/v1/enqueues" {
			many.Add(1)
			http.NotFound(w, r)
			return
		}
		single.Add(1)
		now.ServeHTTP(w, r)
	}))
	for range 3 {
		if rec, err := client.Enqueue(t.Context(), addr, aJob()); err != nil || rec != s.rec {
			t.Errorf("%+v, %v", rec, err)
		}
	}
	if many.Load() != 1 || single.Load() != 3 {
		t.Errorf("%d requests for many, %d for one", many.Load(), single.Load())
	}
	s.err = enqueueError(store.Fail, engine.ErrNotOwner)
	if err := second(client.Enqueue(t.Context(), addr, aJob())); !errors.Is(err, engine.ErrNotOwner) {
		t.Error(err)
	}
}

// TestLeftAlone: a process that does not answer is not asked again at once. Who asks is told so
// meanwhile, and whether it answers at all; it is asked again soon, and if it answers then, all is as
// before.
func TestLeftAlone(t *testing.T) {
	t.Parallel()
	lost, refused := errors.New("lost"), &net.OpError{Op: "dial", Err: errors.New("refused")}
	for name, c := range map[string]struct {
		enqueue, ping error
		outcome       store.Outcome // of what was asked
		told          error         // meanwhile
	}{
		"nobody is there": {refused, refused, store.Fail, engine.ErrUnreachable},
		"no answer":       {lost, lost, store.Unknown, engine.ErrUnreachable},
		"too much to do":  {lost, nil, store.Unknown, engine.ErrStalled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				var requests, pings atomic.Int64
				h := forward.Handler(&stub{rec: engine.Receipt{ID: aJob().ID}})
				client := forward.NewClient(tripper(func(r *http.Request) (*http.Response, error) {
					count, err := &requests, c.enqueue
					if r.URL.Path == "/internal/v1/ping" {
						count, err = &pings, c.ping
					}
					count.Add(1)
					if down.Load() && err != nil {
						return nil, err
					}
					rec := httptest.NewRecorder()
					h.ServeHTTP(rec, r)
					return rec.Result(), nil
				}))
				ask := func() error { return second(client.Enqueue(t.Context(), "a:80", aJob())) }
				down.Store(true)
				if err := ask(); store.OutcomeOf(err) != c.outcome {
					t.Errorf("%v, outcome %s", err, store.OutcomeOf(err))
				}
				time.Sleep(10 * time.Millisecond) // for the ping
				told := 0
				for range 1000 {
					if err := ask(); errors.Is(err, c.told) && store.OutcomeOf(err) == store.Fail {
						told++
					}
				}
				if n := requests.Load(); n > 1 || pings.Load() > 1 || told < 1000 {
					t.Errorf("%d requests, %d pings, and %d of 1000 were told", n, pings.Load(), told)
				}
				down.Store(false)
				for end := time.Now().Add(10 * time.Second); ask() != nil; time.Sleep(5 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("it is never asked again")
					}
				}
				before := requests.Load()
				for range 5 {
					if err := ask(); err != nil {
						t.Error(err)
					}
				}
				if n := requests.Load() - before; n != 5 {
					t.Errorf("%d requests for 5 enqueues, one after the other", n)
				}
			})
		})
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCallersThatGo are no reason to leave a process alone.
func TestCallersThatGo(t *testing.T) {
	t.Parallel()
	callers, leave := context.WithCancel(t.Context())
	defer leave()
	o := &owner{enqueue: func(ctx context.Context, j job.Job) (engine.Receipt, error) {
		if j.Key == "held" {
			leave()
			<-ctx.Done()
		}
		return engine.Receipt{ID: j.ID}, nil
	}}
	client, addr := serve(t, forward.Handler(o))
	if _, err := client.Enqueue(callers, addr, keyed("held")); store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, outcome %s", err, store.OutcomeOf(err))
	}
	time.Sleep(20 * time.Millisecond)
	if _, err := client.Enqueue(t.Context(), addr, keyed("next")); err != nil {
		t.Error(err)
	}
}
