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
		if a, applied, err := s.write(ctx, st, resource, issuer, token, e); err != nil || applied {
			return a, err
		}
	}
}

// write accepts an effect if the ledger has not grown since st.
func (s uncheckedSink) write(ctx context.Context, st sink.State, resource, issuer string, token int64, e sink.Effect) (a sink.Answer, applied bool, err error) {
	return s.past.WriteUnfenced(ctx, st, resource, issuer, token, e)
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

// sinkCheckThenWrite compares the token with the state that the holder has read
// before, and then writes without a condition: between the two others may write.
func sinkCheckThenWrite(_ workload.Config, past unfenced.Writer, inner sink.Sink) sink.Sink {
	return &gapSink{uncheckedSink: uncheckedSink{inner, past}, seen: map[string]int64{}}
}

type gapSink struct {
	uncheckedSink
	mu   sync.Mutex
	seen map[string]int64 // by resource, as last read by this process
}

func (s *gapSink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	st, err := s.Sink.Read(ctx, resource, keys...)
	if err == nil {
		s.mu.Lock()
		s.seen[resource] = st.Seen
		s.mu.Unlock()
	}
	return st, err
}

func (s *gapSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	s.mu.Lock()
	seen := s.seen[resource]
	s.mu.Unlock()
	if token < seen {
		return sink.Answer{Result: sink.Stale, Seen: seen}, nil
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
	t := newTracker()
	return workload.Hooks{
		Observer: t.observer,
		Sink: func(cfg workload.Config, _ unfenced.Writer, inner sink.Sink) sink.Sink {
			return &raiselessSink{Sink: inner, t: t, pause: cfg.TTL * 7 / 8, slow: map[string]bool{}}
		},
	}
}

type raiselessSink struct {
	sink.Sink
	t     *tracker
	pause time.Duration
	mu    sync.Mutex
	slow  map[string]bool // by resource
}

func (s *raiselessSink) Raise(_ context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	s.t.mu.Lock()
	var tookOver bool
	for _, h := range s.t.held {
		tookOver = tookOver || h.takeover && h.version.Fence == token
	}
	s.t.mu.Unlock()
	s.mu.Lock()
	s.slow[resource] = tookOver
	s.mu.Unlock()
	return sink.Answer{Result: sink.Applied, Seen: token}, nil
}

func (s *raiselessSink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	st, err := s.Sink.Read(ctx, resource, keys...)
	s.mu.Lock()
	slow := s.slow[resource]
	s.slow[resource] = false
	s.mu.Unlock()
	if slow && err == nil {
		time.Sleep(s.pause)
	}
	return st, err
}

// keyPerSend makes the copy's number part of the idempotency key: a copy whose
// answer is lost and the next are two effects.
func keyPerSend(cfg workload.Config, past unfenced.Writer, inner sink.Sink) sink.Sink {
	return &resendingSink{uncheckedSink: uncheckedSink{inner, past}, timeout: cfg.TTL / 12, seen: map[string]sink.State{}}
}

type resendingSink struct {
	uncheckedSink
	timeout time.Duration
	mu      sync.Mutex
	seen    map[string]sink.State // by resource, as its holder read it
}

func (s *resendingSink) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	st, err := s.Sink.Read(ctx, resource, keys...)
	if err == nil {
		s.mu.Lock()
		s.seen[resource] = st
		s.mu.Unlock()
	}
	return st, err
}

func (s *resendingSink) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	s.mu.Lock()
	st := s.seen[resource]
	s.mu.Unlock()
	for {
		if token < st.Seen {
			return sink.Answer{Result: sink.Stale, Seen: st.Seen, Seq: st.Seq}, nil
		}
		try, cancel := context.WithTimeout(ctx, s.timeout)
		a, applied, err := s.write(try, st, resource, issuer, token, e)
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
