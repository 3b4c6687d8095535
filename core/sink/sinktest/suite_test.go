package sinktest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	t.Parallel()
	Run(t, "memory", func(*testing.T) sink.Sink { return NewMemory() })
}

type failures struct{ n atomic.Int64 }

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.n.Add(1) }

// broken changes single calls.
type broken struct {
	sink.Sink
	raise  func(ctx context.Context, s sink.Sink, resource, issuer string, token int64) (sink.Answer, error)
	accept func(ctx context.Context, s sink.Sink, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error)
	forget func(ctx context.Context, s sink.Sink, resource string, before time.Time) (int, error)
}

func (b broken) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	if b.raise != nil {
		return b.raise(ctx, b.Sink, resource, issuer, token)
	}
	return b.Sink.Raise(ctx, resource, issuer, token)
}

func (b broken) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	if b.accept != nil {
		return b.accept(ctx, b.Sink, resource, issuer, token, e)
	}
	return b.Sink.Accept(ctx, resource, issuer, token, e)
}

func (b broken) Forget(ctx context.Context, resource string, before time.Time) (int, error) {
	if b.forget != nil {
		return b.forget(ctx, b.Sink, resource, before)
	}
	return b.Sink.Forget(ctx, resource, before)
}

// TestSuiteFindsBrokenSinks: the suite must fail on each of them.
func TestSuiteFindsBrokenSinks(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]broken{
		"raise does nothing": {raise: func(_ context.Context, _ sink.Sink, _, _ string, token int64) (sink.Answer, error) {
			return sink.Answer{Result: sink.Applied, Seen: token}, nil
		}},
		"tokens are not checked": {accept: func(ctx context.Context, s sink.Sink, r, i string, token int64, e sink.Effect) (sink.Answer, error) {
			st, _ := s.Read(ctx, r)
			return s.Accept(ctx, r, i, max(token, st.Seen), e)
		}},
		"keys are not checked": {accept: func(ctx context.Context, s sink.Sink, r, i string, token int64, e sink.Effect) (sink.Answer, error) {
			e.Key += time.Now().String()
			return s.Accept(ctx, r, i, token, e)
		}},
		"stale before duplicate": {accept: func(ctx context.Context, s sink.Sink, r, i string, token int64, e sink.Effect) (sink.Answer, error) {
			if st, _ := s.Read(ctx, r); token < st.Seen {
				return sink.Answer{Result: sink.Stale, Seen: st.Seen}, nil
			}
			return s.Accept(ctx, r, i, token, e)
		}},
		"values are part of the intent": {accept: func(ctx context.Context, s sink.Sink, r, i string, token int64, e sink.Effect) (sink.Answer, error) {
			e.Intent += string(rune(e.Value))
			return s.Accept(ctx, r, i, token, e)
		}},
		"conflicts pass as duplicates": {accept: func(ctx context.Context, s sink.Sink, r, i string, token int64, e sink.Effect) (sink.Answer, error) {
			e.Intent = ""
			return s.Accept(ctx, r, i, token, e)
		}},
		"the holder's own token is refused": {accept: func(ctx context.Context, s sink.Sink, r, i string, token int64, e sink.Effect) (sink.Answer, error) {
			if st, _ := s.Read(ctx, r, e.Key); token == st.Seen && len(st.Applied) == 0 {
				return sink.Answer{Result: sink.Stale, Seen: st.Seen}, nil
			}
			return s.Accept(ctx, r, i, token, e)
		}},
		"issuers are not checked": {accept: func(ctx context.Context, s sink.Sink, r, _ string, token int64, e sink.Effect) (sink.Answer, error) {
			return s.Accept(ctx, r, issuer, token, e)
		}},
		"forget does not raise": {forget: func(ctx context.Context, s sink.Sink, r string, before time.Time) (int, error) {
			m := s.(*Memory)
			m.mu.Lock()
			defer m.mu.Unlock()
			n := len(m.resources[r].keys)
			clear(m.resources[r].keys)
			return n, nil
		}},
		"forget forgets the highest token": {forget: func(ctx context.Context, s sink.Sink, r string, before time.Time) (int, error) {
			n, err := s.Forget(ctx, r, before)
			m := s.(*Memory)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.resources[r].header.Highest = 0
			return n, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.Sink = NewMemory()
			mustFail(t, b)
		})
	}
}

func mustFail(t *testing.T, s sink.Sink) {
	t.Helper()
	var f failures
	for _, c := range Cases() {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		c.Run(ctx, &f, s, c.Name)
		cancel()
	}
	if f.n.Load() == 0 {
		t.Error("the suite passes")
	}
}

// retiring retires with a mistake.
type retiring struct {
	*Memory
	before, after func(m *Memory, resources []string)
}

func (r retiring) Retire(ctx context.Context, issuer string, below int64, resources ...string) (int, error) {
	r.before(r.Memory, resources)
	n, err := r.Memory.Retire(ctx, issuer, below, resources...)
	r.after(r.Memory, resources)
	return n, err
}

// TestSuiteFindsMutantsOfRetire: what removes resources, with one mistake each.
func TestSuiteFindsMutantsOfRetire(t *testing.T) {
	t.Parallel()
	nothing := func(*Memory, []string) {}
	for name, r := range map[string]retiring{
		"sink-retire-lowers-fences": {before: nothing, after: func(m *Memory, _ []string) { clear(m.floors) }},
		"sink-retire-takes-all": {before: nothing, after: func(m *Memory, resources []string) {
			for _, name := range resources {
				delete(m.resources, name)
			}
		}},
		"sink-retire-lowers-floors": {before: func(m *Memory, _ []string) { clear(m.floors) }, after: nothing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.Memory = NewMemory()
			mustFail(t, r)
		})
	}
}

// TestSuiteFindsMutantsOfSeal: what Forget does to tokens, with one mistake each.
func TestSuiteFindsMutantsOfSeal(t *testing.T) {
	t.Parallel()
	for name, seal := range map[string]func(sink.Header) sink.Decision{
		"sink-seal-locks-out": func(h sink.Header) sink.Decision {
			h.Sealed = false
			return sink.Seal(h)
		},
		"sink-seal-is-kept": func(h sink.Header) sink.Decision {
			if h.Highest > 5 { // sealed before, whatever has come since
				h.Sealed = true
			}
			return sink.Seal(h)
		},
		"sink-seal-wraps": func(h sink.Header) sink.Decision {
			d := sink.Seal(h)
			if d.Header.Highest > sink.MaxToken {
				d.Header.Highest = 0
			}
			return d
		},
		"sink-seals-nothing": func(h sink.Header) sink.Decision { return sink.Decision{Header: h} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := NewMemory()
			m.seal = seal
			mustFail(t, m)
		})
	}
}

// TestSuiteFindsMutantsOfDecide: the rule itself, with one mistake each.
func TestSuiteFindsMutantsOfDecide(t *testing.T) {
	t.Parallel()
	type key = *sink.Accepted
	for name, rule := range map[string]func(sink.Header, key, sink.Call) sink.Decision{
		"sink-stale-hides-duplicate": func(h sink.Header, k key, c sink.Call) sink.Decision {
			if c.Token < h.Highest {
				k = nil
			}
			return sink.Decide(h, k, c)
		},
		"sink-duplicate-raises-nothing": func(h sink.Header, k key, c sink.Call) sink.Decision {
			if k != nil {
				c.Token = min(c.Token, h.Highest)
			}
			return sink.Decide(h, k, c)
		},
		"sink-conflict-is-duplicate": func(h sink.Header, k key, c sink.Call) sink.Decision {
			if k != nil {
				k.Fingerprint = c.Effect.Fingerprint()
			}
			return sink.Decide(h, k, c)
		},
		"sink-refuses-equal": func(h sink.Header, k key, c sink.Call) sink.Decision {
			if c.Effect != nil && k == nil && c.Token == h.Highest {
				c.Token--
			}
			return sink.Decide(h, k, c)
		},
		"sink-accepts-stale": func(h sink.Header, k key, c sink.Call) sink.Decision {
			if c.Effect != nil {
				c.Token = max(c.Token, h.Highest)
			}
			return sink.Decide(h, k, c)
		},
		"sink-stale-hides-conflict": func(h sink.Header, k key, c sink.Call) sink.Decision {
			d := sink.Decide(h, k, c)
			if d.Answer.Result == sink.Conflict && c.Token < h.Highest {
				d.Answer = sink.Answer{Result: sink.Stale, Seen: h.Highest, Seq: h.Seq}
			}
			return d
		},
		"sink-known-key-of-any-issuer": func(h sink.Header, k key, c sink.Call) sink.Decision {
			if k != nil {
				c.Issuer = h.Issuer
			}
			return sink.Decide(h, k, c)
		},
		"sink-duplicate-of-the-last-owner": func(h sink.Header, k key, c sink.Call) sink.Decision {
			d := sink.Decide(h, k, c)
			if d.Answer.Result == sink.Duplicate {
				d.Answer.FirstToken = min(k.Token, c.Token)
			}
			return d
		},
		"sink-raise-counts-itself": func(h sink.Header, k key, c sink.Call) sink.Decision {
			d := sink.Decide(h, k, c)
			if c.Effect == nil && d.Kind == "" {
				d.Answer.Seq++
			}
			return d
		},
		"sink-issuer-unchecked": func(h sink.Header, k key, c sink.Call) sink.Decision {
			h.Issuer = ""
			return sink.Decide(h, k, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := NewMemory()
			m.rule = rule
			mustFail(t, m)
		})
	}
}
