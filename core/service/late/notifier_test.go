package late_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"context"

	"go.uber.org/goleak"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/service/late"
	"fencepost/core/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a real HTTP server; answer says what it does with the n-th request, from 1.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	events []late.Event
	bad    []string
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var e late.Event
		body, err := io.ReadAll(req.Body)
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		r.mu.Lock()
		if err != nil || d.Decode(&e) != nil || req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/json" {
			r.bad = append(r.bad, fmt.Sprintf("%s %s", req.Method, body))
		}
		r.events = append(r.events, e)
		n := len(r.events)
		r.mu.Unlock()
		answer(n, w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() []late.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]late.Event(nil), r.events...)
}

func ok(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// counts is a late.Counter.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) LateJob(state string) { c.add("job " + state) }
func (c *counts) Notified(way, result string) {
	c.add(way + " " + result)
}

func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[what]++
}

func (c *counts) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

// log is a buffer that many may write to.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a notifier that runs until the test ends, or stop is called.
type rig struct {
	*late.Notifier
	counts counts
	log    log
	stop   func()
}

func start(t *testing.T, o late.Options) *rig {
	t.Helper()
	r := &rig{}
	o.Worker, o.Counter, o.Logger = "w", &r.counts, slog.New(slog.NewTextHandler(&r.log, nil))
	r.Notifier = late.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	r.stop = func() { cancel(); <-ended }
	t.Cleanup(r.stop)
	return r
}

func lateJob(id string, waiting bool) engine.LateJob {
	return engine.LateJob{Shard: store.ShardID{Queue: "q", Shard: 3}, Job: job.ID(id), Kind: "mail", Key: "k-" + id, Attempt: 2,
		Due: time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), By: 1500 * time.Millisecond, Waiting: waiting}
}

// eventually waits for what other goroutines and a server do.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestEvents: a job is told of once, by the log and by the webhook, and a schedule with
// what it did not do.
func TestEvents(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, ok)
	r := start(t, late.Options{Webhook: hook.URL})
	r.Job(lateJob("3-a", true))
	r.Job(lateJob("3-a", false)) // told of already
	r.Schedule(engine.Lateness{Shard: store.ShardID{Queue: "q", Shard: 1}, Schedule: "nightly", Missed: 4, Skipped: 1, By: time.Minute, Late: []job.Occurrence{{Schedule: "nightly"}}, Err: errors.New("it is broken")})
	eventually(t, "two events", func() bool { return r.counts.of("webhook sent") == 2 && r.counts.of("log sent") == 2 })
	want := []late.Event{
		{Event: "job-late", Worker: "w", Queue: "q", Shard: 3, Job: "3-a", Kind: "mail", Key: "k-3-a", Attempt: 2, Due: "2026-03-29T01:00:00.000Z", State: "waiting", LateMS: 1500},
		{Event: "schedule-late", Worker: "w", Queue: "q", Shard: 1, Schedule: "nightly", Late: 1, LateMS: 60_000, Missed: 4, Skipped: 1, Error: "it is broken"},
	}
	if got := hook.got(); len(got) != 2 || got[0] != want[0] || got[1] != want[1] || len(hook.bad) > 0 {
		t.Errorf("the receiver got %+v, %v", got, hook.bad)
	}
	for _, line := range []string{`msg="job is late"`, "job=3-a", "state=waiting", `msg="schedule is late"`, "missed=4"} {
		if !strings.Contains(r.log.String(), line) {
			t.Errorf("the log lacks %s: %s", line, &r.log)
		}
	}
	if r.counts.of("job waiting") != 1 || r.counts.of("job started") != 0 {
		t.Errorf("%v", r.counts.n)
	}
}

// TestRetries: what may pass is tried again, with the same event; what is refused is not.
func TestRetries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer          func(n int, w http.ResponseWriter, r *http.Request)
		requests        int
		result, because string
	}{
		"down for a while": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, 3, "sent", ""},
		"too many":   {func(n int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader([]int{429, 200}[min(n-1, 1)]) }, 2, "sent", ""},
		"elsewhere":  {func(_ int, w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, 1, "failed", "302 Found"},
		"refused":    {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, 1, "failed", "404 Not Found"},
		"never well": {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, 4, "failed", "tried 4 times: the webhook answers 502"},
		"cut off": {func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				c, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					_ = c.Close()
				}
			}
		}, 2, "sent", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := newReceiver(t, c.answer)
			r := start(t, late.Options{Webhook: hook.URL, Tries: 4, Pause: time.Millisecond})
			r.Job(lateJob("3-a", false))
			eventually(t, c.result, func() bool { return r.counts.of("webhook "+c.result) == 1 })
			got := hook.got()
			if len(got) != c.requests {
				t.Errorf("%d requests, want %d", len(got), c.requests)
			}
			for _, e := range got {
				if e != got[0] || e.State != "started" {
					t.Errorf("sent %+v", e)
				}
			}
			if !strings.Contains(r.log.String(), c.because) {
				t.Errorf("the log does not say %q: %s", c.because, &r.log)
			}
		})
	}
}

// TestNobodyThere: a receiver that cannot be reached fails after the last try.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, ok)
	hook.Close()
	r := start(t, late.Options{Webhook: hook.URL + "/secret", Tries: 2, Pause: time.Millisecond})
	r.Job(lateJob("3-a", false))
	eventually(t, "a failure", func() bool { return r.counts.of("webhook failed") == 1 })
	if !strings.Contains(r.log.String(), "tried 2 times") || strings.Contains(r.log.String(), "secret") {
		t.Error(r.log.String())
	}
}

// TestASlowReceiverDelaysNobody: while it answers nothing the queue fills up, what is more is dropped, counted and said, and neither
// who tells nor the log waits.
func TestASlowReceiverDelaysNobody(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	hook := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-free:
		case <-r.Context().Done():
		}
	})
	const queue, told = 10, 500
	r := start(t, late.Options{Webhook: hook.URL, Queue: queue, Timeout: time.Hour})
	r.Job(lateJob("3-first", false))
	eventually(t, "a request", func() bool { return len(hook.got()) == 1 })
	begun := time.Now()
	for n := range told {
		r.Job(lateJob(fmt.Sprint("3-", n), false))
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("%d events took %s", told, took)
	}
	if n := r.counts.of("webhook dropped"); n != told-queue {
		t.Errorf("%d are dropped, want %d", n, told-queue)
	}
	eventually(t, "the log", func() bool { return r.counts.of("log sent")+r.counts.of("log dropped") == told+1 })
	close(free)
	eventually(t, "the rest", func() bool { return r.counts.of("webhook sent") == queue+1 })
	r.stop()
	if !strings.Contains(r.log.String(), fmt.Sprintf("channel=webhook dropped=%d", told-queue)) {
		t.Errorf("nobody says what was dropped: %s", &r.log)
	}
}

// TestAFloodIsNotLogged: the log has some of many, and says how many it has not.
func TestAFloodIsNotLogged(t *testing.T) {
	t.Parallel()
	r := start(t, late.Options{Queue: 5000})
	for n := range 1000 {
		r.Job(lateJob(fmt.Sprint("3-", n), true))
	}
	eventually(t, "all", func() bool { return r.counts.of("log sent") == 1000 })
	if n := strings.Count(r.log.String(), "job is late"); n < 10 || n > 500 {
		t.Errorf("%d lines for 1000 jobs", n)
	}
	eventually(t, "what is left out", func() bool {
		r.Job(lateJob(fmt.Sprint("3-again", time.Now().UnixNano()), true))
		return strings.Contains(r.log.String(), "not_logged_before=")
	})
}

// TestStop: what waits when the process stops is sent if that can be done in time, else
// dropped; and the stop does not take longer.
func TestStop(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, ok)
	r := start(t, late.Options{Webhook: hook.URL})
	for n := range 50 {
		r.Job(lateJob(fmt.Sprint("3-", n), false))
	}
	r.stop()
	if n := r.counts.of("webhook sent"); n != 50 {
		t.Errorf("%d of 50 were sent", n)
	}
	stuck := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	r = start(t, late.Options{Webhook: stuck.URL, Timeout: 50 * time.Millisecond, Tries: 1000})
	for n := range 5 {
		r.Job(lateJob(fmt.Sprint("3-", n), false))
	}
	eventually(t, "a request", func() bool { return len(stuck.got()) > 0 })
	begun := time.Now()
	r.stop()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it stops after %s", took)
	}
	if failed, dropped := r.counts.of("webhook failed"), r.counts.of("webhook dropped"); failed+dropped != 5 {
		t.Errorf("%d failed, %d were dropped", failed, dropped)
	}
}

// TestRemembered: of many jobs the last ones are known.
func TestRemembered(t *testing.T) {
	t.Parallel()
	r := start(t, late.Options{Queue: 1})
	for n := range late.Remembered + 1 {
		r.Job(lateJob(fmt.Sprint("3-", n), true))
	}
	r.Job(lateJob("3-1", true))
	if n := r.counts.of("job waiting"); n != late.Remembered+1 {
		t.Errorf("told of %d", n)
	}
	r.Job(lateJob("3-0", true)) // forgotten
	if n := r.counts.of("job waiting"); n != late.Remembered+2 {
		t.Errorf("told of %d", n)
	}
}
