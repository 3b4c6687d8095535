package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"fencepost/core/service/api"
	"fencepost/core/service/query"
	"fencepost/core/service/query/querytest"
	"fencepost/core/store"
)

// looked counts and holds the looks at headers, which probes make.
type looked struct {
	store.Shards
	mu   sync.Mutex
	n    int
	took time.Duration
	err  error
}

func (l *looked) Look(ctx context.Context, _ store.ShardID, _ bool) (*store.Header, error) {
	l.mu.Lock()
	l.n++
	took, err := l.took, l.err
	l.mu.Unlock()
	select {
	case <-time.After(took):
		return &store.Header{}, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *looked) set(took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n, l.took, l.err = 0, took, err
}

// TestProbesDoNotLoad: however many probes come, the database is asked once at a time
// and once a second, an answer is at most a second old, and a failure says why.
func TestProbesDoNotLoad(t *testing.T) {
	t.Parallel()
	l := &looked{}
	inWorld(t, func(w *world) {
		probe := func(path string, want int) {
			t.Helper()
			w.do("GET", path, "").want(t, want)
		}
		l.set(100*time.Millisecond, nil)
		var wg sync.WaitGroup
		for n := range 200 {
			wg.Go(func() { probe([]string{"/healthz", "/readyz"}[n%2], 200) })
		}
		wg.Wait()
		if l.n != 1 {
			t.Errorf("200 probes at once: asked %d times", l.n)
		}
		l.set(0, nil)
		for range 100 { // for ten seconds
			time.Sleep(100 * time.Millisecond)
			probe("/healthz", 200)
		}
		if l.n < 9 || l.n > 11 {
			t.Errorf("100 probes in ten seconds: asked %d times", l.n)
		}
		// It fails: known a second later, with the reason; and is well again as soon.
		time.Sleep(time.Second)
		probe("/healthz", 200)
		l.set(0, errors.New("on purpose at 10.0.0.1"))
		probe("/healthz", 200)
		time.Sleep(time.Second)
		for _, path := range []string{"/healthz", "/readyz"} {
			a := w.do("GET", path, "").want(t, http.StatusServiceUnavailable, "unavailable")
			if !strings.Contains(string(a.text), "the reason") || strings.Contains(string(a.text), "10.0.0.1") || a.header.Get("Retry-After") == "" {
				t.Errorf("%s", a.text)
			}
		}
		if !strings.Contains(w.log.String(), "on purpose at 10.0.0.1") {
			t.Errorf("the log lacks the error: %s", w.log)
		}
		l.set(0, nil)
		time.Sleep(time.Second)
		probe("/readyz", 200)
		// No answer at all is a failure after two seconds, and one request is enough.
		l.set(time.Hour, nil)
		time.Sleep(time.Second)
		began := time.Now()
		for range 50 {
			wg.Go(func() { probe("/healthz", http.StatusServiceUnavailable) })
		}
		wg.Wait()
		if took := time.Since(began); took > 2100*time.Millisecond || l.n != 1 {
			t.Errorf("without answers: %s, asked %d times", took, l.n)
		}
		// A prober that goes away does not fail the others.
		l.set(time.Second, nil)
		ctx, cancel := context.WithCancel(w.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			r, _ := http.NewRequestWithContext(ctx, "GET", "/healthz", nil)
			w.ServeHTTP(discard{}, r)
		}()
		time.Sleep(100 * time.Millisecond)
		cancel()
		<-gone
		probe("/healthz", 200)
		if l.n != 1 {
			t.Errorf("asked %d times", l.n)
		}
	}, func(o *api.Options) {
		o.Reader = query.New(query.Options{Shards: l, Queues: querytest.Fixed(queues)})
		o.Why = func(err error) string { return fmt.Sprintf("the reason of %d bytes", len(err.Error())) }
	})
}

// discard is a client that has gone.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) WriteHeader(int)             {}
func (discard) Write(b []byte) (int, error) { return len(b), nil }
