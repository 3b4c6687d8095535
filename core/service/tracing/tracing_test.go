package tracing_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/service/api"
	"fencepost/core/service/handlers"
	"fencepost/core/service/query"
	"fencepost/core/service/query/querytest"
	"fencepost/core/service/tracing"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a collector.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []*v1.Span
	resource string
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodPost || q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s %v", q.Method, q.URL, q.Header)
		}
		in := io.Reader(q.Body)
		if q.Header.Get("Content-Encoding") == "gzip" {
			in, _ = gzip.NewReader(q.Body)
		}
		body, err := io.ReadAll(in)
		var got collector.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(body, &got)); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, of := range got.ResourceSpans {
			r.resource = fmt.Sprint(of.Resource.Attributes)
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

// named are the spans of a name and a job, in the order of their starts.
func (r *receiver) named(name, id string) (out []*v1.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.Name == name && (id == "" || attribute(s, "job.id") == id) {
			out = append(out, s)
		}
	}
	return out
}

func attribute(s *v1.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if v := a.Value.GetStringValue(); v != "" {
				return v
			}
			return fmt.Sprint(a.Value.GetIntValue())
		}
	}
	return ""
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// start runs a scheduler on a store in memory, all of it traced, and returns its API.
func start(t *testing.T, tr *tracing.Tracer) (h http.Handler, stop func()) {
	t.Helper()
	session := sim.New().Connect("a", 1)
	queues := []engine.Queue{{Name: "q", Shards: 1}}
	kinds := handlers.New(&handlers.HTTP{Hosts: []string{handlers.AnyHost}, Client: handlers.NewClient(tr.Transport)}, quiet())
	s, err := scheduler.New(scheduler.Options{Shards: session, Runs: session, Handlers: tr.Handlers(kinds.Handlers()),
		Engine: engine.Options{Name: "a", Queues: queues, Ownership: engine.Ownership{TTL: 2 * time.Second},
			World: engine.World{Clock: clock.Go()}, Reports: engine.Reports{Observer: tr.Observer(nil), Logger: quiet()}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- s.Run(ctx) }()
	for !s.Owns(store.ShardID{Queue: "q"}) {
		time.Sleep(time.Millisecond)
	}
	h = tr.Requests(api.Handler(api.Options{Scheduler: tr.Scheduler(s), Logger: quiet(),
		Reader: query.New(query.Options{Shards: session, Runs: session, Queues: querytest.Fixed(queues)})}))
	return h, sync.OnceFunc(func() {
		cancel()
		if err := <-end; err != nil {
			t.Error(err)
		}
	})
}

func ask(t *testing.T, h http.Handler, method, path, body, parent string) string {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if parent != "" {
		r.Header.Set("traceparent", parent)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code > 299 {
		t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// between is what lies between two marks.
func between(s, a, b string) string {
	_, s, _ = strings.Cut(s, a)
	s, _, _ = strings.Cut(s, b)
	return s
}

const client = "0af7651916cd43dd8448eb211c80319c"

// TestOneTrace: a job that fails once, and the one that follows it, are one trace with
// the client's request, and so are the requests that they make.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	tr, err := tracing.Open(t.Context(), tracing.Options{Endpoint: r.URL, Instance: "a", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if seen = append(seen, q.Header.Get("traceparent")); len(seen) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer target.Close()
	h, stop := start(t, tr)
	defer stop()
	payload := fmt.Sprintf(`"kind": "http", "payload": {"url": "%s/x"}`, target.URL)
	id := between(ask(t, h, "POST", "/jobs", fmt.Sprintf(`{%s, "retry": {"delays_seconds": [0.01]}, "then": [{%s}]}`, payload, payload), "00-"+client+"-b7ad6b7169203331-01"), `"id":"`, `"`)
	ask(t, h, "PUT", "/api/v1/schedules/s", `{"timing": {"kind": "at", "at": "2001-01-01T00:00:00Z"}, "misfire": "once", "job": {"kind": "log"}}`, "")
	scheduled := tracing.TraceID(job.Job{Queue: "q", Occurrence: job.Occurrence{Schedule: "s", Nominal: 978307200000}})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		runs := ask(t, h, "GET", "/api/v1/jobs?state=completed", "", "")
		if strings.Count(runs, `"completed"`) == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s", runs)
		}
	}
	stop()
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	enqueue := r.named("enqueue", "")
	if len(enqueue) != 1 || attribute(enqueue[0], "job.id") != id || hex.EncodeToString(enqueue[0].TraceId) != client || hex.EncodeToString(enqueue[0].ParentSpanId) != "b7ad6b7169203331" {
		t.Fatalf("enqueue: %v", enqueue)
	}
	runs, waits, settles := r.named("run", id), r.named("wait", id), r.named("settle", id)
	if len(runs) != 2 || len(waits) != 2 || len(settles) != 2 {
		t.Fatalf("%d runs, %d waits, %d settles", len(runs), len(waits), len(settles))
	}
	for n, run := range runs {
		if string(run.ParentSpanId) != string(enqueue[0].SpanId) || attribute(run, "job.attempt") != fmt.Sprint(n+1) || attribute(run, "job.token") == "" ||
			attribute(run, "job.queue") != "q" || attribute(run, "job.shard") != "0" || string(settles[n].ParentSpanId) != string(run.SpanId) ||
			waits[n].EndTimeUnixNano != run.StartTimeUnixNano || settles[n].StartTimeUnixNano < run.StartTimeUnixNano {
			t.Errorf("run %d: %v, %v", n, run, settles[n])
		}
	}
	if a, b := attribute(settles[0], "job.outcome"), attribute(settles[1], "job.outcome"); a != "retry" || b != "complete" || runs[0].Status.Code != v1.Status_STATUS_CODE_ERROR || runs[1].Status.GetCode() == v1.Status_STATUS_CODE_ERROR {
		t.Errorf("outcomes %s, %s; %v, %v", a, b, runs[0].Status, runs[1].Status)
	}
	if attribute(runs[0], "job.token") == attribute(runs[1], "job.token") {
		t.Errorf("one token for two runs")
	}
	effects := r.named("effect", "")
	if len(effects) != 3 || len(seen) != 3 {
		t.Fatalf("%d effects, %q", len(effects), seen)
	}
	for n, e := range effects {
		if want := fmt.Sprintf("00-%s-%x-01", client, e.SpanId); seen[n] != want || n < 2 && string(e.ParentSpanId) != string(runs[n].SpanId) {
			t.Errorf("effect %d: the target saw %s, want %s", n, seen[n], want)
		}
	}
	// The schedule's job is in no client's trace, but in one that everybody can name.
	for _, s := range r.spans {
		if trace := hex.EncodeToString(s.TraceId); trace != client && trace != scheduled.String() {
			t.Errorf("%s of %s is in trace %s", s.Name, attribute(s, "job.id"), trace)
		}
	}
	if n := len(r.spans); n != 1+3*3+3+3 {
		t.Errorf("%d spans", n)
	}
	if !strings.Contains(r.resource, "schedulerd") || !strings.Contains(r.resource, "service.instance.id") {
		t.Errorf("%s", r.resource)
	}
}

// TestCollectorHangs: one that does not answer, or is not there, holds nothing up, is
// warned of, and does not keep the process from ending.
func TestCollectorHangs(t *testing.T) {
	t.Parallel()
	defer sent(t)
	release := make(chan struct{})
	var asked atomic.Int64
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-release
	}))
	defer hanging.Close()
	defer close(release)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, url := range map[string]string{"hangs": hanging.URL, "is not there": gone.URL} {
		var log lines
		tr, err := tracing.Open(t.Context(), tracing.Options{Endpoint: url, Timeout: 300 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		handler := tr.Handlers(map[string]worker.Handler{"k": func(context.Context, *worker.Task) error { return nil }})["k"]
		watch := tr.Observer(nil)
		began, calls := time.Now(), 5_000
		for n := range calls {
			run := job.Run{Job: job.Job{ID: job.UniqueID([16]byte{byte(n), byte(n >> 8)}, 1), Queue: "q", Kind: "k"}, ID: job.NewRunID(1, uint32(n)), Attempt: 1, Due: began.UnixMilli()}
			if err := handler(t.Context(), &worker.Task{Run: run}); err != nil {
				t.Fatal(err)
			}
			watch.Step(engine.Step{Kind: engine.StepComplete, Shard: store.ShardID{Queue: "q"}, Run: run.ID, Job: run.Job.ID})
			if a := asked.Load(); a > 10 && a > int64(n/10) { // who waits for the collector asks once a run
				t.Fatalf("%s: it was asked %d times in %d runs", name, a, n+1)
			}
		}
		t.Logf("%s: %s a run", name, time.Since(began)/time.Duration(calls))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		closing := time.Now()
		err = tr.Close(ctx)
		cancel()
		if took := time.Since(closing); took > 5*time.Second {
			t.Errorf("%s: Close took %s (%v)", name, took, err)
		}
		for deadline := time.Now().Add(10 * time.Second); !strings.Contains(log.String(), "sending traces failed") && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		if n := strings.Count(log.String(), "sending traces failed"); n != 1 {
			t.Errorf("%s: warned %d times: %s", name, n, log.String())
		}
		_ = tr.Close(t.Context())
	}
}

// sent waits until nobody sends traces any more: who is closed in less time than that takes goes on.
func sent(t *testing.T) {
	t.Helper()
	all := make([]byte, 1<<20)
	for end := time.Now().Add(20 * time.Second); bytes.Contains(all[:runtime.Stack(all, true)], []byte("(*batchSpanProcessor)")); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("traces are still being sent")
		}
	}
}

// TestForgotten: runs whose shard is lost here are remembered no more, nor are those
// that begin after that.
func TestForgotten(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	tr, err := tracing.Open(t.Context(), tracing.Options{Endpoint: r.URL, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	handler := tr.Handlers(map[string]worker.Handler{"k": func(context.Context, *worker.Task) error { return nil }})["k"]
	watch, shard := tr.Observer(nil), store.ShardID{Queue: "q"}
	run := func(fence int64) {
		x := job.Run{Job: job.Job{ID: job.UniqueID([16]byte{}, 1), Queue: "q", Kind: "k"}, ID: job.NewRunID(fence, 1), Attempt: 1}
		if err := handler(t.Context(), &worker.Task{Run: x}); err != nil {
			t.Fatal(err)
		}
	}
	complete := func(fence int64) {
		watch.Step(engine.Step{Kind: engine.StepComplete, Shard: shard, Run: job.NewRunID(fence, 1)})
	}
	run(4)
	watch.Step(engine.Step{Kind: engine.StepLost, Shard: shard, Fence: 4})
	run(3)
	complete(3)
	complete(4)
	run(5)
	if n := tr.AtWork(); n != 1 {
		t.Errorf("%d runs are remembered, want the last one", n)
	}
	complete(5)
	if err := tr.Close(t.Context()); err != nil || tr.AtWork() != 0 {
		t.Errorf("%v, %d", err, tr.AtWork())
	}
	if n, m := len(r.named("run", "")), len(r.named("settle", "")); n != 3 || m != 1 {
		t.Errorf("%d runs and %d settles", n, m)
	}
}

// TestOff: without an endpoint everything is what it was.
func TestOff(t *testing.T) {

	var tr *tracing.Tracer
	rt, mux := http.DefaultTransport, http.NewServeMux()
	by := map[string]worker.Handler{}
	if tr.Transport(rt) != rt || tr.Requests(mux) != http.Handler(mux) || tr.Observer(nil) != nil || tr.Scheduler(nil) != nil || tr.Close(t.Context()) != nil || len(tr.Handlers(by)) != 0 {
		t.Error("a tracer that is nil does something")
	}
	if n := testing.AllocsPerRun(100, func() { tr.Handlers(by); tr.Transport(rt) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	for _, bad := range []string{"", "localhost:4318", "ftp://x", "http://", "http://x?y=z", "::"} {
		if _, err := tracing.Open(t.Context(), tracing.Options{Endpoint: bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// lines is a log that many write and one reads.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
