package handlers_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/service/handlers"
	"fencepost/core/worker"
)

// run runs a job by a pool, as the engine would.
func run(t *testing.T, s *handlers.Set, j job.Job, valid bool) error {
	t.Helper()
	p := worker.New(worker.Options{Handlers: s.Handlers(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	done := make(chan error, 1)
	p.Reserve(1)
	p.Start(t.Context(), engine.Execution{Run: job.Run{Job: j.WithDefaults(), ID: 77, Attempt: 2}, Issuer: "q/0",
		Begin: func() error { return nil }, Valid: func() bool { return valid }}, func(err error) { done <- err })
	return <-done
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	got := make(chan *http.Request, 1)
	body := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r
		body <- string(b)
		if status.Load() == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, "why not")
	}))
	t.Cleanup(srv.Close)
	u, _ := url.Parse(srv.URL)
	s := handlers.New(&handlers.HTTP{Target: srv.URL + "/target", Hosts: []string{u.Hostname()}, Client: &http.Client{
		Transport: srv.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, slog.Default())
	j := job.Job{ID: "0-aa", Queue: "q", Kind: "http", Payload: []byte(`{"body": {"n": 1}}`), Occurrence: job.Occurrence{Schedule: "a b", Nominal: 1774746000000}}

	status.Store(204)
	if err := run(t, s, j, true); err != nil {
		t.Fatal(err)
	}
	r := <-got
	for name, want := range map[string]string{"Idempotency-Key": "0-aa", "Fencing-Token": "77", "Fencing-Resource": "job/q/0-aa", "Job-Kind": "http", "Job-Queue": "q",
		"Job-Attempt": "2", "Schedule-Key": "a+b", "Schedule-Time": "2026-03-29T01:00:00Z", "Content-Type": "application/json"} {
		if r.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, r.Header.Get(name), want)
		}
	}
	if b := <-body; r.Method != "POST" || r.URL.Path != "/target" || b != `{"n": 1}` {
		t.Errorf("%s %s %s", r.Method, r.URL, b)
	}

	j.Payload = fmt.Appendf(nil, `{"url": "%s/own", "method": "PUT", "headers": {"X-A": "b"}}`, srv.URL)
	if err := run(t, s, j, true); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r.Method != "PUT" || r.URL.Path != "/own" || r.Header.Get("X-A") != "b" {
		t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	<-body

	for _, n := range []int{302, 404, 409, 500, 503} {
		status.Store(int64(n))
		err := run(t, s, j, true)
		if err == nil || job.IsCancel(err) || !strings.Contains(err.Error(), fmt.Sprint(n)) || !strings.Contains(err.Error(), "why not") {
			t.Errorf("%d: %v", n, err)
		}
		<-got
		<-body
	}
	if err := run(t, s, j, false); err == nil || len(got) > 0 {
		t.Errorf("a run without trust: %v", err)
	}
	srv.Close()
	if err := run(t, s, j, true); err == nil || job.IsCancel(err) {
		t.Errorf("nobody there: %v", err)
	}
	j.Payload = []byte(`{"url": "http://elsewhere/"}`)
	if err := run(t, s, j, true); !job.IsNotHere(err) {
		t.Errorf("a host that is not allowed: %v", err)
	}
	j.Payload = nil
	if err := run(t, handlers.New(&handlers.HTTP{}, slog.Default()), j, true); !job.IsNotHere(err) {
		t.Errorf("no address: %v", err)
	}
	for _, payload := range []string{`5`, `{"url": "x"}`, `{"method": "BREW"}`} {
		j.Payload = []byte(payload)
		if err := run(t, s, j, true); !job.IsPermanent(err) {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	narrow := handlers.New(&handlers.HTTP{Hosts: []string{"good", "some:8080"}}, slog.Default())
	wide := handlers.New(&handlers.HTTP{Target: "http://target/", Hosts: []string{handlers.AnyHost}}, slog.Default())
	for _, c := range []struct {
		set           *handlers.Set
		kind, payload string
		field         string
	}{
		{narrow, "log", `whatever`, ""}, {narrow, "none", ``, "kind"},
		{narrow, "http", ``, "payload.url"}, {wide, "http", ``, ""}, {wide, "http", `{}`, ""},
		{narrow, "http", `{"url": "http://good/x"}`, ""}, {narrow, "http", `{"url": "https://GOOD:99/x"}`, ""}, {narrow, "http", `{"url": "http://some:8080"}`, ""},
		{narrow, "http", `{"url": "http://some:81"}`, "payload.url"}, {narrow, "http", `{"url": "http://good.evil/"}`, "payload.url"},
		{narrow, "http", `{"url": "http://good@evil/"}`, "payload.url"}, {wide, "http", `{"url": "http://a:b@evil/"}`, "payload.url"},
		{wide, "http", `{"url": "file:///etc/passwd"}`, "payload.url"}, {wide, "http", `{"url": "x"}`, "payload.url"},
		{wide, "http", `{"method": "BREW"}`, "payload.method"}, {wide, "http", `{"headers": {"fencing-token": "1"}}`, "payload.headers"},
		{wide, "http", `{"headers": {"a": "b\r\nc: d"}}`, "payload.headers"}, {wide, "http", `{"colour": 1}`, "payload"}, {wide, "http", `5`, "payload"},
	} {
		err := c.set.Check(c.kind, []byte(c.payload))
		var invalid *job.InvalidError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &invalid) || invalid.Field != c.field) {
			t.Errorf("%s %s: %v, want field %q", c.kind, c.payload, err, c.field)
		}
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := handlers.New(&handlers.HTTP{}, slog.New(slog.NewJSONHandler(&out, nil)))
	if err := run(t, s, job.Job{ID: "0-aa", Queue: "q", Kind: "log", Payload: []byte(`{"a":1}`)}, true); err != nil || !strings.Contains(out.String(), `"payload":"{\"a\":1}"`) {
		t.Errorf("%s, %v", out.String(), err)
	}
}
