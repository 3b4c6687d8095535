package tracing

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/service/api"
	"fencepost/core/store"
	"fencepost/core/worker"
)

// traceparent is the header of W3C Trace Context.
const traceparent = "traceparent"

// Requests takes the trace context of requests to h from their headers.
func (t *Tracer) Requests(h http.Handler) http.Handler {
	if t == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(traceparent) != "" {
			r = r.WithContext(t.header.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
		}
		h.ServeHTTP(w, r)
	})
}

// Scheduler makes a span of each enqueue by s, and has the job carry it.
func (t *Tracer) Scheduler(s api.Scheduler) api.Scheduler {
	if t == nil {
		return s
	}
	return &submitter{s, t}
}

type submitter struct {
	api.Scheduler
	t *Tracer
}

func (s *submitter) Submit(ctx context.Context, j job.Job) (engine.Receipt, error) {
	ctx, span := s.t.tracer.Start(ctx, "enqueue", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(ofJob(j)...))
	defer span.End()
	carried := propagation.MapCarrier{}
	s.t.header.Inject(ctx, carried)
	j.Trace = carried[traceparent]
	rec, err := s.Scheduler.Submit(ctx, j)
	if err != nil {
		fail(span, err)
		return rec, err
	}
	span.SetAttributes(attribute.Bool("job.duplicate", rec.Duplicate), attribute.Bool("job.inbox", rec.Inbox))
	return rec, nil
}

// ofJob are the attributes of all of a job's spans.
func ofJob(j job.Job) []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.String("job.id", string(j.ID)), attribute.String("job.queue", j.Queue), attribute.String("job.kind", j.Kind)}
	if shard, err := j.ID.Shard(); err == nil {
		out = append(out, attribute.Int("job.shard", shard))
	}
	return out
}

func ofRun(r job.Run) []attribute.KeyValue {
	return append(ofJob(r.Job), attribute.Int("job.attempt", r.Attempt), attribute.String("job.token", r.ID.String()))
}

func fail(span trace.Span, err error) {
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}

// runKey is a run anywhere: run ids are of a shard.
type runKey struct {
	shard store.ShardID
	run   job.RunID
}

// atWork is a run here; ended is when its handler returned.
type atWork struct {
	span  trace.Span
	about []attribute.KeyValue
	ended time.Time
}

// Handlers makes spans of the runs of handlers, by kind.
func (t *Tracer) Handlers(by map[string]worker.Handler) map[string]worker.Handler {
	if t == nil {
		return by
	}
	out := map[string]worker.Handler{}
	for kind, h := range by {
		out[kind] = func(ctx context.Context, task *worker.Task) error { return t.run(ctx, task, h) }
	}
	return out
}

func (t *Tracer) run(ctx context.Context, task *worker.Task, h worker.Handler) error {
	r := task.Run
	about, began := ofRun(r), time.Now()
	parent := t.header.Extract(ctx, propagation.MapCarrier{traceparent: r.Job.Trace})
	known := trace.SpanContextFromContext(parent).IsValid()
	if !known {
		parent = withTrace(parent, r.Job)
	}
	due := time.UnixMilli(r.Due)
	if due.After(began) { // by another clock
		due = began
	}
	after, wait := t.tracer.Start(parent, "wait", trace.WithTimestamp(due), trace.WithAttributes(about...))
	wait.End(trace.WithTimestamp(began))
	if !known {
		parent = after
	}
	ctx, span := t.tracer.Start(parent, "run", trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(about...))
	if span.IsRecording() {
		key := keyOf(r)
		t.begin(key, &atWork{span: span, about: about})
		defer t.end(key) // a handler may panic: the run has ended then, too
	}
	defer span.End()
	err := h(ctx, task)
	if err != nil {
		fail(span, err)
	}
	return err
}

func keyOf(r job.Run) runKey {
	shard, _ := r.Job.ID.Shard()
	return runKey{store.ShardID{Queue: r.Job.Queue, Shard: shard}, r.ID}
}

func (t *Tracer) begin(key runKey, w *atWork) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if key.run.Fence() > t.lost[key.shard] {
		t.atWork[key] = w
	}
}

func (t *Tracer) end(key runKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.atWork[key]; w != nil {
		w.ended = time.Now()
	}
}

// settled are the steps that say what became of a run.
var settled = map[engine.StepKind]bool{engine.StepComplete: true, engine.StepRetry: true, engine.StepDLQ: true,
	engine.StepCancel: true, engine.StepAbandon: true, engine.StepRescue: true}

// Observer makes spans of how runs are settled, and tells o, which may be nil.
func (t *Tracer) Observer(o engine.Observer) engine.Observer {
	if t == nil {
		return o
	}
	return engine.Watch(o, t.step)
}

func (t *Tracer) step(s engine.Step) {
	switch {
	case s.Kind == engine.StepLost:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.lost[s.Shard] = max(t.lost[s.Shard], s.Fence)
		for key := range t.atWork {
			if key.shard == s.Shard && key.run.Fence() <= s.Fence {
				delete(t.atWork, key)
			}
		}
	case settled[s.Kind]:
		key := runKey{s.Shard, s.Run}
		t.mu.Lock()
		w := t.atWork[key]
		delete(t.atWork, key)
		t.mu.Unlock()
		if w == nil {
			return
		}
		// A cancellation may be settled while the handler is still at work.
		ended := w.ended
		if ended.IsZero() {
			ended = time.Now()
		}
		ctx := trace.ContextWithSpan(context.Background(), w.span)
		_, span := t.tracer.Start(ctx, "settle", trace.WithTimestamp(ended), trace.WithAttributes(w.about...),
			trace.WithAttributes(attribute.String("job.outcome", string(s.Kind)), attribute.Int64("job.tick", s.Tick)))
		span.End()
	}
}

// Transport makes a span of each request by rt, and has the request carry it.
func (t *Tracer) Transport(rt http.RoundTripper) http.RoundTripper {
	if t == nil {
		return rt
	}
	return &effects{rt, t}
}

type effects struct {
	http.RoundTripper
	t *Tracer
}

func (e *effects) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := e.t.tracer.Start(r.Context(), "effect", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Hostname()), attribute.String("url.path", r.URL.Path)))
	defer span.End()
	r = r.Clone(ctx)
	if r.Header.Get(traceparent) == "" { // a job may bring its own
		e.t.header.Inject(ctx, propagation.HeaderCarrier(r.Header))
	}
	res, err := e.RoundTripper.RoundTrip(r)
	if err != nil {
		fail(span, err)
		return res, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	if res.StatusCode >= http.StatusBadRequest {
		fail(span, errors.New(res.Status))
	}
	return res, nil
}
