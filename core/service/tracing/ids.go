package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"

	"fencepost/core/job"
)

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
