package tracing

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"fencepost/core/job"
	"fencepost/core/store"
)

// Options configure a Tracer. Endpoint is needed.
type Options struct {
	// Endpoint is the collector's base URL, such as http://localhost:4318; spans go to
	// /v1/traces below it.
	Endpoint string
	// Service is the resource's service.name, unless the environment has another one;
	// default schedulerd. Instance is its service.instance.id.
	Service, Instance string
	// Timeout bounds the sending of a batch, repetitions included; default
	// OTEL_BSP_EXPORT_TIMEOUT (in ms), or 30 s.
	Timeout time.Duration
	// Logger is warned of a collector that fails; default slog.Default().
	Logger *slog.Logger
}

// CheckEndpoint reports what is no base URL of a collector.
func CheckEndpoint(endpoint string) error {
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return fmt.Errorf("is %q: want http(s)://host:port, where a collector takes OTLP over HTTP", endpoint)
	}
	return nil
}

// Tracer makes spans. Nil, it makes none. Safe for concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	header   propagation.TraceContext

	mu sync.Mutex
	// atWork are the runs here whose outcome is not settled, lost the last fence of each
	// shard that was lost: what runs under it will never be settled here.
	atWork map[runKey]*atWork
	lost   map[store.ShardID]int64
}

// Open makes a tracer. It asks nobody: a collector that is not there is no error.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	if err := CheckEndpoint(o.Endpoint); err != nil {
		return nil, fmt.Errorf("tracing: the endpoint %w", err)
	}
	o.Service, o.Logger = cmp.Or(o.Service, "schedulerd"), cmp.Or(o.Logger, slog.Default())
	target, err := url.JoinPath(o.Endpoint, "v1/traces")
	if err != nil {
		return nil, fmt.Errorf("tracing: the endpoint %w", err)
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(target))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", o.Service), attribute.String("service.instance.id", o.Instance)), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	var batching []sdk.BatchSpanProcessorOption
	if o.Timeout > 0 {
		batching = append(batching, sdk.WithExportTimeout(o.Timeout))
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(&warning{SpanExporter: exporter, o: o}, batching...), sdk.WithResource(about), sdk.WithIDGenerator(ids{}))
	return &Tracer{provider: provider, tracer: provider.Tracer("fencepost/core/service/tracing"), atWork: map[runKey]*atWork{}, lost: map[store.ShardID]int64{}}, nil
}

// Close sends what is queued, as long as ctx allows.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// warning is an exporter whose errors are logged, once a minute at most.
type warning struct {
	sdk.SpanExporter
	o Options

	mu     sync.Mutex
	warned time.Time
	failed int
}

func (w *warning) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := w.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed += len(spans)
	if now := time.Now(); now.Sub(w.warned) >= time.Minute {
		w.o.Logger.Warn("sending traces failed, spans dropped; nothing else is affected", "endpoint", w.o.Endpoint, "spans_dropped", w.failed, "error", err)
		w.warned, w.failed = now, 0
	}
	return nil
}

// TraceID is the trace of a job that carries none: the same in all processes, and for
// all jobs of one occurrence of a schedule.
func TraceID(j job.Job) trace.TraceID {
	of := string(j.ID)
	if !j.Occurrence.IsZero() {
		of = j.Occurrence.Key()
	}
	sum := sha256.Sum256([]byte("fencepost trace\x00" + j.Queue + "\x00" + of))
	return trace.TraceID(sum[:16])
}

type traceKey struct{}

// withTrace makes the next span without a parent one of the job's own trace.
func withTrace(ctx context.Context, j job.Job) context.Context {
	return context.WithValue(ctx, traceKey{}, TraceID(j))
}

// ids are random, but for the traces that withTrace names.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, named := ctx.Value(traceKey{}).(trace.TraceID)
	if !named {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64()|1) // all zeros are no id
	}
	return id, ids{}.NewSpanID(ctx, id)
}

func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
