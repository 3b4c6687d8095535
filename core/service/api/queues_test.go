package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fencepost/core/scheduler"
	"fencepost/core/service/api"
)

// TestQueues: what they hold, and that a paused one starts nothing.
func TestQueues(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		depth := func(a answer, at ...any) string {
			n := func(state string) any { return a.at(append(at, "depth", state, "jobs")...) }
			return fmt.Sprint(a.at(append(at, "state")...), n("pending"), n("running"), n("dlq"))
		}
		get := func(want string) answer {
			t.Helper()
			a := w.do("GET", "/api/v1/queues/main", "").want(w.T, 200)
			if got := depth(a); got != want {
				t.Errorf("%s, want %s: %s", got, want, a.text)
			}
			return a
		}
		get("running0 0 0")
		for range 2 {
			w.do("POST", "/jobs", `{"kind": "slow", "max_duration_seconds": 3600}`).want(w.T, 201)
			w.do("POST", "/jobs", `{"kind": "bad", "max_attempts": 1}`).want(w.T, 201)
			w.do("POST", "/jobs", `{"kind": "log", "schedule": "2030-01-01T00:00:00Z"}`).want(w.T, 201)
		}
		time.Sleep(time.Second)
		if a := get("running2 2 2"); a.at("shards", 2, "owner") != "a" || a.at("shards", 0, "paused") != false {
			t.Errorf("%s", a.text)
		}
		for n := range 2 {
			if a := w.do("POST", "/api/v1/queues/main/pause", "").want(w.T, 200); a.body["duplicate"] != (n > 0) || a.body["state"] != "paused" || a.body["queue"] != "main" {
				t.Errorf("%s", a.text)
			}
		}
		id := w.do("POST", "/jobs", `{"kind": "log"}`).want(w.T, 201).text1("id")
		close(w.gate) // what runs goes on
		time.Sleep(time.Minute)
		if a := get("paused3 0 2"); a.text1("shards", 1, "paused_since") == "" {
			t.Errorf("%s", a.text)
		}
		a := w.do("GET", "/api/v1/queues", "").want(w.T, 200)
		if depth(a, "items", 0) != "paused3 0 2" || depth(a, "items", 1) != "running0 0 0" || a.at("items", 2) != nil {
			t.Errorf("%s", a.text)
		}
		w.do("POST", "/jobs/"+id+"/run", "").want(w.T, 200)
		for n := range 2 {
			if a := w.do("POST", "/api/v1/queues/main/resume", "").want(w.T, 200); a.body["duplicate"] != (n > 0) || a.body["state"] != "running" {
				t.Errorf("%s", a.text)
			}
		}
		time.Sleep(time.Second)
		get("running2 0 2")
		if a := w.do("GET", "/jobs/"+id, ""); a.body["state"] != "completed" {
			t.Errorf("%s", a.text)
		}
		w.do("GET", "/api/v1/queues/none", "").want(w.T, 404, "no-queue")
		w.do("POST", "/api/v1/queues/none/pause", "").want(w.T, 404, "no-queue")
		w.do("POST", "/api/v1/queues/main/pause?queue=main", "").want(w.T, 400, "invalid")
	})
}

// halfway is a scheduler that reaches the owners of some shards only.
type halfway struct{ api.Scheduler }

func (halfway) SetPaused(_ context.Context, queue string, _ bool) (bool, error) {
	return false, &scheduler.PartlyError{Queue: queue, Shards: []int{0, 2}, Cause: context.DeadlineExceeded}
}

// TestPausePartly: whoever asks is told which shards to ask for again.
func TestPausePartly(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		a := w.do("POST", "/api/v1/queues/main/pause", "").want(w.T, 503, "partly")
		if fmt.Sprint(a.at("shards")) != "[0 2]" || a.header.Get("Retry-After") == "" {
			t.Errorf("%s %v", a.text, a.header)
		}
		w.stop()
	}, func(o *api.Options) { o.Scheduler = halfway{o.Scheduler} })
	inWorld(t, func(w *world) {
		w.stop()
		if a := w.do("POST", "/api/v1/queues/main/resume", "").want(w.T, 503, "partly"); fmt.Sprint(a.at("shards")) != "[0 1 2]" {
			t.Errorf("%s", a.text)
		}
	})
}
