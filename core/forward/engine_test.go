package forward_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// wires carries requests to handlers by their address, without sockets, which bubbles
// do not know.
type wires map[string]http.Handler

func (w wires) RoundTrip(r *http.Request) (*http.Response, error) {
	h := w[r.URL.Host]
	if h == nil {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// process is an engine at an address.
type process struct {
	eng     *engine.Engine
	session *sim.Session
	stop    func()
}

func start(t *testing.T, s *sim.Store, w wires, name string, h worker.Handler) *process {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	pool := worker.New(worker.Options{Handlers: map[string]worker.Handler{"k": h}, Clock: clock.Go(), Logger: quiet})
	session := s.Connect(name, 1)
	session.SetFaults(sim.Faults{Latency: time.Millisecond})
	eng, err := engine.New(session, engine.Options{Name: name, Addr: name + ":80", Queues: []engine.Queue{{Name: "q", Shards: 1}},
		Executor: pool, Forward: forward.NewClient(w).Enqueue,
		Ownership: engine.Ownership{TTL: 6 * time.Second}, World: engine.World{Clock: clock.Go()}, Reports: engine.Reports{Logger: quiet}})
	if err != nil {
		t.Fatal(err)
	}
	w[name+":80"] = forward.Handler(eng)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- eng.Run(ctx) }()
	time.Sleep(time.Second)
	return &process{eng: eng, session: session, stop: func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}}
}

// TestForwarding: a process that does not own the shard reaches the one that does, for
// enqueues and commands; without it, the inbox.
func TestForwarding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := sim.New(), wires{}
		shard := store.ShardID{Queue: "q"}
		hour := func(ctx context.Context, _ *worker.Task) error { return clock.Go().Sleep(ctx, time.Hour) }
		a, b := start(t, s, w, "a", hour), start(t, s, w, "b", hour)
		if !a.eng.Owns(shard) || a.eng.OwnerAddr(shard) != "" || b.eng.OwnerAddr(shard) != "a:80" {
			t.Fatalf("a owns %v, b sees %q", a.eng.Owns(shard), b.eng.OwnerAddr(shard))
		}
		j := aJob()
		for n := range 2 {
			if rec, err := b.eng.Submit(t.Context(), j); err != nil || rec.ID != j.ID || rec.Duplicate != (n > 0) {
				t.Errorf("Submit %d: %+v, %v", n, rec, err)
			}
		}
		if n := len(s.InboxChanges()); n != 0 {
			t.Errorf("%d rows went through the inbox", n)
		}
		time.Sleep(time.Second)
		client := forward.NewClient(w)
		if err := second(client.Command(t.Context(), "b:80", engine.CancelJob, "q", j.ID)); !errors.Is(err, engine.ErrNotOwner) {
			t.Errorf("cancelled by b: %v", err)
		}
		if err := second(client.Command(t.Context(), b.eng.OwnerAddr(shard), engine.CancelJob, "q", j.ID)); err != nil {
			t.Errorf("cancelled by a: %v", err)
		}
		if err := second(client.Command(t.Context(), "a:80", engine.RedriveJob, "q", j.ID)); stateOf(err) != job.Cancelled {
			t.Errorf("redriven: %v", err)
		}

		d := schedule.Definition{Queue: "q", Key: "s", Timing: schedule.Timing{Kind: schedule.Cron, Cron: "@daily"}, Job: job.Job{Kind: "k"}}
		put := engine.ScheduleCommand{Verb: engine.PutSchedule, Definition: &d}
		if rec, err := client.Schedule(t.Context(), b.eng.OwnerAddr(shard), put); err != nil || rec.ID != job.ScheduleID("q", "s", 1) || rec.Duplicate {
			t.Errorf("put by a: %+v, %v", rec, err)
		}
		if _, err := client.Schedule(t.Context(), "b:80", put); !errors.Is(err, engine.ErrNotOwner) {
			t.Errorf("put by b: %v", err)
		}
		if d, _, err := b.eng.ReadSchedule(t.Context(), "q", "s"); err != nil || d.Key != "s" {
			t.Errorf("read by b: %+v, %v", d, err)
		}

		// The owner is gone, and nobody knows yet.
		a.session.Crash()
		delete(w, "a:80")
		j.Key, j.ID = "b", job.KeyedID("q", "b", 1)
		if rec, err := b.eng.Submit(t.Context(), j); err != nil || rec.Duplicate {
			t.Errorf("Submit: %+v, %v", rec, err)
		}
		if n := len(s.InboxRows(shard)); n != 1 {
			t.Errorf("%d rows are in the inbox", n)
		}
		time.Sleep(20 * time.Second)
		if !b.eng.Owns(shard) || len(s.InboxRows(shard)) != 0 {
			t.Error("b has not taken the shard and its inbox over")
		}
		if _, err := b.eng.Command(t.Context(), engine.CancelJob, "q", j.ID); err != nil {
			t.Errorf("cancelled by b: %v", err)
		}
		a.stop()
		b.stop()
	})
}
