//go:build integration

package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestRollingRestart ends and replaces three processes one after the other, under an
// open-loop load through their API: each ends with 0 within its drain time, every job
// that was acknowledged runs once, and 99 of 100 start within 4 s of being asked for.
//
// It takes half a minute: make nightly has it run.
func TestRollingRestart(t *testing.T) {
	if os.Getenv("FENCEPOST_NIGHTLY") == "" {
		t.Skip("FENCEPOST_NIGHTLY=1 runs it")
	}
	const (
		every    = 50 * time.Millisecond
		drain    = 10 * time.Second
		deadline = 4 * time.Second
	)
	_, env := onCluster(t, "WORKER_BUCKETS=6", "WORKER_LEASE_TTL_MS=6000", "WORKER_POLL_INTERVAL_MS=500", "WORKER_HTTP_HOSTS=127.0.0.1",
		fmt.Sprint("WORKER_DRAIN_MS=", drain.Milliseconds()))
	bin := build(t)
	var mu sync.Mutex
	came := map[string][]time.Time{} // runs, by the number in the body
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var n json.Number
		_ = json.NewDecoder(r.Body).Decode(&n)
		mu.Lock()
		defer mu.Unlock()
		came[n.String()] = append(came[n.String()], time.Now())
	}))
	defer target.Close()

	names := []string{"a", "b", "c"}
	var now [3]atomic.Pointer[daemon]
	for n, name := range names {
		now[n].Store(start(t, bin, name, env...))
	}
	owned := func() (bool, any) {
		_, got := now[0].Load().ask("GET", "/api/v1/queues", "")
		text := fmt.Sprint(got)
		return strings.Count(text, "owner:") == 6, text
	}
	for n := range names {
		now[n].Load().must(200, "GET", "/readyz", "")
	}
	eventually(t, "owner of all shards", owned)

	// The load does not wait for answers; a process that does not take a job is left for
	// the next one, with the same key.
	var wg sync.WaitGroup
	asked, taken := map[string]time.Time{}, map[string]bool{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			key := fmt.Sprint(n)
			mu.Lock()
			asked[key] = time.Now()
			mu.Unlock()
			wg.Go(func() {
				for try := range 20 {
					d := now[(n+try)%3].Load()
					status, _ := d.ask("POST", "/jobs", fmt.Sprintf(`{"kind": "http", "payload": {"url": "%s/", "body": %s}}`, target.URL, key), "Idempotency-Key: k"+key)
					if status == 200 || status == 201 || status == 202 {
						mu.Lock()
						taken[key] = true
						mu.Unlock()
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
	}()
	time.Sleep(2 * time.Second)
	for n, name := range names {
		old := now[n].Load()
		began := time.Now()
		if err := old.stop(); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
		if took := time.Since(began); took > drain {
			t.Errorf("%s took %s to end, and its drain time is %s", name, took, drain)
		} else {
			t.Logf("%s ended in %s", name, took)
		}
		next := start(t, bin, name, env...)
		next.must(200, "GET", "/readyz", "")
		now[n].Store(next)
		time.Sleep(time.Second)
	}
	close(stop)
	<-stopped
	wg.Wait()
	eventually(t, "end of all jobs", func() (bool, any) {
		mu.Lock()
		defer mu.Unlock()
		for key := range taken {
			if len(came[key]) == 0 {
				return false, "job " + key
			}
		}
		return true, nil
	})
	time.Sleep(time.Second) // for what would come twice
	mu.Lock()
	defer mu.Unlock()
	var late []time.Duration
	for key := range taken {
		if len(came[key]) != 1 {
			t.Errorf("job %s ran %d times", key, len(came[key]))
			continue
		}
		late = append(late, came[key][0].Sub(asked[key]))
	}
	slices.Sort(late)
	if len(taken) != len(asked) || len(late) < 100 {
		t.Fatalf("%d asked for, %d taken, %d ran once: want all, and 100 at least", len(asked), len(taken), len(late))
	}
	p50, p99 := late[len(late)/2], late[len(late)*99/100]
	t.Logf("%d jobs, each ran once; from request to run p50 %s, p99 %s, max %s", len(late), p50, p99, late[len(late)-1])
	if p99 >= deadline {
		t.Errorf("p99 %s: want below %s", p99, deadline)
	}
	for n, name := range names {
		if err := now[n].Load().stop(); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
	}
}
