package api_test

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/service/api"
	"fencepost/core/service/query"
)

// checks is a scheduler that refuses what an engine refuses before it does anything,
// and does nothing.
type checks struct{ *testing.T }

func (c checks) Submit(_ context.Context, j job.Job) (engine.Receipt, error) {
	if _, err := j.Encode(); err != nil {
		c.Errorf("a job that cannot be written: %v", err)
	}
	return engine.Receipt{ID: j.ID}, j.WithDefaults().Check(queues[0].Shards)
}

func (c checks) Schedule(_ context.Context, cmd engine.ScheduleCommand) (engine.Receipt, error) {
	s, err := schedule.New(*cmd.Definition, queues[0].Shards)
	if err != nil {
		return engine.Receipt{}, err
	}
	if _, err := s.Encode(); err != nil {
		c.Errorf("a schedule that cannot be written: %v", err)
	}
	return engine.Receipt{ID: s.ID()}, nil
}

func (checks) Cancel(context.Context, string, job.ID) error  { return nil }
func (checks) Redrive(context.Context, string, job.ID) error { return nil }
func (checks) Hasten(context.Context, string, job.ID) (engine.Receipt, error) {
	return engine.Receipt{}, nil
}

func (checks) SetPaused(context.Context, string, bool) (bool, error) { return false, nil }

// FuzzBodies: whatever the body, the answer is in the document, and so is the request
// if it was not refused; nothing is an error of the server.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"kind": "log", "payload": {"a": [1e400, "\ud800"]}, "schedule": "2026-03-29T01:00:00Z", "max_duration_seconds": 1.001}`,
		`{"taskId": "log", "params": null, "cron": "0 30 2 * * *", "zone": "Asia/Ho_Chi_Minh", "idempotency_key": "é"}`,
		`{"kind": "log", "schedule": "@every 30s", "retry": {"delays_seconds": [0.5], "jitter": 1}, "then": [{"kind": "log", "on_failure": "go_on"}], "rescue": ""}`,
		`{"timing": {"kind": "cron", "cron": "@daily", "at": "2026-01-01T00:00:00Z", "until": "2027-01-01T00:00:00+01:00"}, "misfire": "all", "overlap": "queue", "job": {"kind": "log", "then": []}}`,
		`{"timing": {"kind": "fixed_delay", "every_seconds": 1.5}, "grace_seconds": 0, "job": {"kind": "log", "priority": -1, "retry": null}}`,
	} {
		f.Add(true, []byte(seed))
		f.Add(false, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, short bool, body []byte) {
		h := api.Handler(api.Options{Scheduler: checks{t}, Reader: query.New(query.Options{Queues: queues}), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		method, path := "PUT", "/api/v1/schedules/s"
		if short {
			method, path = "POST", "/jobs"
		}
		if a := exchange(t, h, method, path, string(body), "Content-Type: application/json"); a.status >= 500 {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	})
}
