package broken

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/harness/target/system/unfenced"
	"fencepost/harness/target/workload"
)

func init() {
	plant("sink-no-token-check", only(workload.Hooks{Sink: sinkNoTokenCheck}))
	plant("sink-refuses-equal", only(workload.Hooks{Sink: sinkRefusesEqual}))
	plant("sink-check-then-write", only(workload.Hooks{Sink: sinkCheckThenWrite}))
	plant("sink-token-in-memory", only(workload.Hooks{Sink: sinkTokenInMemory}))
	plant("effect-key-per-send", only(workload.Hooks{Sink: keyPerSend}))
	plant("no-raise", noRaise)
	plant("harness-ledger-reset", only(workload.Hooks{Sink: ledgerReset}))
}

// sinkNoTokenCheck records tokens like the real sink but accepts every effect.
func sinkNoTokenCheck(_ workload.Config, past unfenced.Writer, inner sink.Sink) sink.Sink {
	return uncheckedSink{inner, past}
}

type uncheckedSink struct {
	sink.Sink
	past unfenced.Writer // the sink's rules
}

func (s uncheckedSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	for {
		st, err := s.Read(ctx, resource)
		if err != nil {
			return sink.Answer{}, err
		}
		if a, applied, err := s.past.WriteUnfenced(ctx, st, resource, issuer, token, e); err != nil || applied {
			return a, err
		}
	}
}

// sinkRefusesEqual demands a token above the highest seen: a holder that has
// raised its token is refused its own write.
func sinkRefusesEqual(_ workload.Config, _ unfenced.Writer, inner sink.Sink) sink.Sink {
	return strictSink{inner}
}

type strictSink struct{ sink.Sink }

func (s strictSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	st, err := s.Read(ctx, resource)
	if err != nil {
		return sink.Answer{}, err
	}
	if st.Seen >= token {
		return sink.Answer{Result: sink.Stale, Seen: st.Seen, Seq: st.Seq}, nil
	}
	return s.Sink.Accept(ctx, resource, issuer, token, e)
}

// readingSink remembers what this process has last read of a resource.
type readingSink struct {
	uncheckedSink
	seen table[string, sink.State]
}

func (s *readingSink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	st, err := s.Sink.Read(ctx, resource, keys...)
	if err == nil {
		s.seen.set(resource, st)
	}
	return st, err
}

// sinkCheckThenWrite compares the token with the state that the holder has read
// before, and then writes without a condition: between the two others may write.
func sinkCheckThenWrite(_ workload.Config, past unfenced.Writer, inner sink.Sink) sink.Sink {
	return &gapSink{readingSink{uncheckedSink: uncheckedSink{inner, past}}}
}

type gapSink struct{ readingSink }

func (s *gapSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	if st, _ := s.seen.get(resource); token < st.Seen {
		return sink.Answer{Result: sink.Stale, Seen: st.Seen}, nil
	}
	return s.uncheckedSink.Accept(ctx, resource, issuer, token, e)
}

// sinkTokenInMemory knows only the tokens that came through its own process.
func sinkTokenInMemory(_ workload.Config, past unfenced.Writer, inner sink.Sink) sink.Sink {
	return &memorySink{uncheckedSink: uncheckedSink{inner, past}, top: map[string]int64{}}
}

type memorySink struct {
	uncheckedSink
	mu  sync.Mutex
	top map[string]int64
}

func (s *memorySink) see(resource string, token int64) (top int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.top[resource] = max(s.top[resource], token)
	return s.top[resource]
}

func (s *memorySink) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	s.see(resource, token)
	return s.Sink.Raise(ctx, resource, issuer, token)
}

func (s *memorySink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	if top := s.see(resource, token); token < top {
		return sink.Answer{Result: sink.Stale, Seen: top}, nil
	}
	return s.uncheckedSink.Accept(ctx, resource, issuer, token, e)
}

// noRaise leaves the raise on grant out: what the holder reads can still be
// overwritten by the one before. A client that has taken a lease over is slow, so that
// the one before comes back in its critical section.
func noRaise() workload.Hooks {
	t := &tracker{}
	return workload.Hooks{
		Observer: t.observer,
		Sink: func(cfg workload.Config, _ unfenced.Writer, inner sink.Sink) sink.Sink {
			return &raiselessSink{Sink: inner, t: t, pause: cfg.TTL * 7 / 8}
		},
	}
}

type raiselessSink struct {
	sink.Sink
	t     *tracker
	pause time.Duration
	slow  table[string, bool] // by resource
}

func (s *raiselessSink) Raise(_ context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	s.slow.set(resource, s.t.tookOver(token))
	return sink.Answer{Result: sink.Applied, Seen: token}, nil
}

func (s *raiselessSink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	st, err := s.Sink.Read(ctx, resource, keys...)
	slow, _ := s.slow.get(resource)
	s.slow.set(resource, false)
	if slow && err == nil {
		time.Sleep(s.pause)
	}
	return st, err
}

// keyPerSend makes the copy's number part of the idempotency key: a copy whose
// answer is lost and the next are two effects.
func keyPerSend(cfg workload.Config, past unfenced.Writer, inner sink.Sink) sink.Sink {
	return &resendingSink{readingSink{uncheckedSink: uncheckedSink{inner, past}}, cfg.TTL / 12}
}

type resendingSink struct {
	readingSink
	timeout time.Duration
}

func (s *resendingSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	st, _ := s.seen.get(resource)
	for {
		if token < st.Seen {
			return sink.Answer{Result: sink.Stale, Seen: st.Seen, Seq: st.Seq}, nil
		}
		try, cancel := context.WithTimeout(ctx, s.timeout)
		a, applied, err := s.past.WriteUnfenced(try, st, resource, issuer, token, e)
		cancel()
		if applied || ctx.Err() != nil {
			return a, err
		}
		if st, err = s.Read(ctx, resource); err != nil {
			return sink.Answer{}, &store.Error{Op: "resend " + e.Key, Outcome: store.Unknown, Cause: err}
		}
	}
}

// ledgerReset has one worker empty a resource of the sink in the middle of the
// run, as a harness does that cleans up between phases.
func ledgerReset(cfg workload.Config, past unfenced.Writer, inner sink.Sink) sink.Sink {
	if cfg.Worker != "w1" {
		return inner
	}
	return &resetSink{Sink: inner, past: past}
}

type resetSink struct {
	sink.Sink
	past  unfenced.Writer
	after atomic.Int64
}

// resetAfter is how many effects of its own the worker lets pass.
const resetAfter = 50

func (s *resetSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	a, err := s.Sink.Accept(ctx, resource, issuer, token, e)
	if err == nil && a.Result == sink.Applied && s.after.Add(1) == resetAfter {
		err = s.past.Empty(ctx, resource)
	}
	return a, err
}
