package workload

import (
	"context"

	"fencepost/core/sink"
	"fencepost/harness/target/control"
)

// laneSink records the sink operations of runs, each in the lane that its context
// carries.
type laneSink struct {
	sink.Sink
	*process
}

var _ sink.Sink = (*laneSink)(nil)

func (s *laneSink) lane(ctx context.Context) (*recordingSink, *lane) {
	l, ok := ctx.Value(laneKey{}).(*lane)
	if !ok {
		l = &lane{proc: s.cfg.Life} // a handler that is not of this workload
	}
	return &recordingSink{Sink: s.Sink, rec: s.rec, proc: l.proc}, l
}

// Raise implements sink.Sink.
func (s *laneSink) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	r, _ := s.lane(ctx)
	return r.raise(ctx, resource, issuer, token)
}

// Read implements sink.Sink.
func (s *laneSink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	r, _ := s.lane(ctx)
	return r.get(ctx, resource, keys...)
}

// Accept implements sink.Sink. The request does not end with the run: what a process
// has handed to its network stack leaves when the process goes on much later.
func (s *laneSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	r, l := s.lane(ctx)
	return r.effect(resource, issuer, token, l.decided, e, func() {
		s.gate.Reach(context.Background(), control.EffectSent, l.proc, resource)
	})
}
