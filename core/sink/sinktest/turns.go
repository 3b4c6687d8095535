package sinktest

import (
	"context"
	"sync/atomic"
	"time"

	"fencepost/core/sink"
)

// Turns returns a sink that sends each call to the next of several on one storage, as
// several processes do: what each remembers of a resource is always old.
func Turns(sinks ...sink.Sink) sink.Sink { return &turns{sinks: sinks} }

type turns struct {
	sinks []sink.Sink
	n     atomic.Int64
}

func (s *turns) next() sink.Sink { return s.sinks[int(s.n.Add(1))%len(s.sinks)] }

func (s *turns) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	return s.next().Raise(ctx, resource, issuer, token)
}

func (s *turns) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	return s.next().Accept(ctx, resource, issuer, token, e)
}

func (s *turns) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	return s.next().Read(ctx, resource, keys...)
}

func (s *turns) Ledger(ctx context.Context, resource string) ([]sink.Entry, error) {
	return s.next().Ledger(ctx, resource)
}

func (s *turns) Forget(ctx context.Context, resource string, before time.Time) (int, error) {
	return s.next().Forget(ctx, resource, before)
}
