package api_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/service/api"
	"fencepost/core/service/query"
	"fencepost/core/service/query/querytest"
	"fencepost/core/store"
)

// TestDescription: the document is valid, and has the routes that the code has.
func TestDescription(t *testing.T) {
	t.Parallel()
	doc, _ := described()
	if err := doc.Validate(context.Background()); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Error(doc.OpenAPI)
	}
	if a, b := operations(doc), api.Operations(); !slices.Equal(a, b) {
		t.Errorf("described are\n%s\nserved are\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
}

func operations(doc *openapi3.T) (out []string) {
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			out = append(out, fmt.Sprintf("%s %s %s open=%t", method, path, op.OperationID, op.Security != nil && len(*op.Security) == 0))
		}
	}
	slices.Sort(out)
	return out
}

// TestConforms: what the tests hold answers against can refuse them.
func TestConforms(t *testing.T) {
	t.Parallel()
	request := func(method, path, body string) *http.Request {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		return r
	}
	jsonHeader := http.Header{"Content-Type": {"application/json"}}
	const good = `{"id": "a", "queue": "q", "duplicate": false, "inbox": false}`
	for name, c := range map[string]struct {
		request *http.Request
		status  int
		header  http.Header
		text    string
		want    bool
	}{
		"good":             {request("POST", "/jobs", `{"kind": "log", "then": [{"kind": "log"}]}`), 201, jsonHeader, good, true},
		"unknown request":  {request("POST", "/jobs", `{"kind": "log", "x": 1}`), 201, jsonHeader, good, false},
		"unknown in then":  {request("POST", "/jobs", `{"kind": "log", "then": [{"kind": "log", "x": 1}]}`), 201, jsonHeader, good, false},
		"no kind":          {request("POST", "/jobs", `{}`), 201, jsonHeader, good, false},
		"unknown answer":   {request("POST", "/jobs", `{"kind": "log"}`), 201, jsonHeader, `{"id": "a", "queue": "q", "duplicate": false, "inbox": false, "x": 1}`, false},
		"missing answer":   {request("POST", "/jobs", `{"kind": "log"}`), 201, jsonHeader, `{"id": "a"}`, false},
		"other type":       {request("POST", "/jobs", `{"kind": "log"}`), 400, jsonHeader, `{}`, false},
		"no problem":       {request("POST", "/jobs", `{}`), 400, http.Header{"Content-Type": {"application/problem+json"}}, `{"code": "x"}`, false},
		"no such path":     {request("POST", "/nowhere", `{}`), 200, jsonHeader, `{}`, false},
		"unknown in a job": {request("GET", "/jobs/a", ``), 200, jsonHeader, `{"id": "a", "queue": "q", "state": "pending", "inbox": false, "attempts": 0, "x": 1}`, false},
		"a good job":       {request("GET", "/jobs/a", ``), 200, jsonHeader, `{"id": "a", "queue": "q", "state": "pending", "inbox": false, "attempts": 0, "kind": "k"}`, true},
	} {
		if err := conforms(c.request, answer{status: c.status, header: c.header, text: []byte(c.text)}); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

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
func (checks) PutQueue(context.Context, string, int) (store.Queue, bool, error) {
	return store.Queue{}, false, nil
}

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
		h := api.Handler(api.Options{Scheduler: checks{t}, Reader: query.New(query.Options{Queues: querytest.Fixed(queues)}), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		method, path := "PUT", "/api/v1/schedules/s"
		if short {
			method, path = "POST", "/jobs"
		}
		if a := exchange(t, h, method, path, string(body), "Content-Type: application/json"); a.status >= 500 {
			t.Errorf("%s: %d %s", body, a.status, a.text)
		}
	})
}
