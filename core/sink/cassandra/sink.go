package cassandrasink

import (
	"context"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store/cassandra"
)

// Options configure a Sink.
type Options struct {
	RequestTimeout time.Duration
}

type Sink struct{}

var _ sink.Sink = (*Sink)(nil)

func New(db *cassandra.DB, o Options) *Sink { return &Sink{} }

func (s *Sink) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	return sink.Answer{}, nil
}
func (s *Sink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	return sink.Answer{}, nil
}
func (s *Sink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	return sink.State{}, nil
}
func (s *Sink) Ledger(ctx context.Context, resource string) ([]sink.Entry, error) { return nil, nil }
func (s *Sink) Forget(ctx context.Context, resource string, before time.Time) (int, error) {
	return 0, nil
}
