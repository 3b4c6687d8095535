package sinktest

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// Memory is a sink in memory: the meaning of the interface in its plainest
// form, for tests of what uses a sink. Safe for concurrent use.
type Memory struct {
	// rule is sink.Decide, or a mutant of it.
	rule func(sink.Header, *sink.Accepted, sink.Call) sink.Decision
	// seal is sink.Seal, or a mutant of it.
	seal func(sink.Header) sink.Decision

	mu        sync.Mutex
	resources map[string]*resource
	floors    map[string]int64 // by issuer
}

type resource struct {
	header  sink.Header
	value   int64
	payload []byte
	keys    map[string]accepted
	ledger  []sink.Entry
	made    []time.Time // the entries of the ledger
}

type accepted struct {
	sink.Accepted
	at time.Time
}

var (
	_ sink.Sink    = (*Memory)(nil)
	_ sink.Pager   = (*Memory)(nil)
	_ sink.Retirer = (*Memory)(nil)
)

// NewMemory returns an empty sink.
func NewMemory() *Memory {
	return &Memory{rule: sink.Decide, seal: sink.Seal, resources: map[string]*resource{}, floors: map[string]int64{}}
}

func failed(op string, cause error) error {
	return &store.Error{Op: op, Outcome: store.Fail, Cause: cause}
}

// decide decides a call and stores the decision.
func (m *Memory) decide(ctx context.Context, c sink.Call) (sink.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return sink.Answer{}, failed(c.String(), context.Cause(ctx))
	}
	if err := c.Check(); err != nil {
		return sink.Answer{}, failed(c.String(), err)
	}
	r := m.resources[c.Resource]
	if r == nil {
		r = &resource{header: sink.Fresh(m.floors[c.Issuer]), keys: map[string]accepted{}}
	}
	var known *sink.Accepted
	if c.Effect != nil {
		if k, ok := r.keys[c.Effect.Key]; ok {
			known = &k.Accepted
		}
	}
	d := m.rule(r.header, known, c)
	switch {
	case d.Err != nil:
		return sink.Answer{}, failed(c.String(), d.Err)
	case d.Kind != "":
		m.resources[c.Resource] = r
		r.store(d, c.Effect)
	}
	return d.Answer, nil
}

// store stores a decision; e is the effect of one that accepts.
func (r *resource) store(d sink.Decision, e *sink.Effect) {
	r.header = d.Header
	entry := sink.Entry{Seq: d.Header.Seq, Kind: d.Kind, Issuer: d.Header.Issuer, Token: d.Header.Highest}
	if d.Kind == sink.KindAccept {
		entry.Key, entry.Value = e.Key, e.Value
		r.value, r.payload = e.Value, append([]byte{}, e.Payload...)
		r.keys[e.Key] = accepted{sink.Accepted{Token: entry.Token, Seq: entry.Seq, Fingerprint: e.Fingerprint()}, time.Now()}
	}
	r.ledger, r.made = append(r.ledger, entry), append(r.made, time.Now())
}

// Raise implements sink.Sink.
func (m *Memory) Raise(ctx context.Context, name, issuer string, token int64) (sink.Answer, error) {
	return m.decide(ctx, sink.Call{Resource: name, Issuer: issuer, Token: token})
}

// Accept implements sink.Sink.
func (m *Memory) Accept(ctx context.Context, name, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	return m.decide(ctx, sink.Call{Resource: name, Issuer: issuer, Token: token, Effect: &e})
}

// Read implements sink.Sink.
func (m *Memory) Read(ctx context.Context, name string, keys ...string) (sink.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := sink.State{Applied: map[string]int64{}}
	if ctx.Err() != nil {
		return st, failed("read "+name, context.Cause(ctx))
	}
	r := m.resources[name]
	if r == nil {
		return st, nil
	}
	st.Value, st.Payload, st.Seen, st.Seq, st.Issuer = r.value, r.payload, r.header.Highest, r.header.Seq, r.header.Issuer
	for _, k := range keys {
		if a, ok := r.keys[k]; ok {
			st.Applied[k] = a.Token
		}
	}
	return st, nil
}

// Ledger implements sink.Sink.
func (m *Memory) Ledger(ctx context.Context, name string) ([]sink.Entry, error) {
	return m.LedgerAfter(ctx, name, 0, math.MaxInt)
}

// LedgerAfter implements sink.Pager.
func (m *Memory) LedgerAfter(_ context.Context, name string, after int64, n int) ([]sink.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.resources[name]
	if r == nil || after >= r.header.Seq {
		return nil, nil
	}
	rest := r.ledger[max(after+1-r.ledger[0].Seq, 0):]
	return slices.Clone(rest[:min(n, len(rest))]), nil
}

// Forget implements sink.Sink.
func (m *Memory) Forget(_ context.Context, name string, before time.Time) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.resources[name]
	if r == nil {
		return 0, nil
	}
	dropped := 0
	for k, a := range r.keys {
		if a.at.Before(before) {
			delete(r.keys, k)
			dropped++
		}
	}
	if dropped > 0 {
		if d := m.seal(r.header); d.Kind != "" {
			r.store(d, nil)
		}
	}
	for len(r.ledger) > 1 && r.made[0].Before(before) {
		r.ledger, r.made = r.ledger[1:], r.made[1:]
	}
	return dropped, nil
}

// Retire implements sink.Retirer.
func (m *Memory) Retire(ctx context.Context, issuer string, below int64, resources ...string) (removed int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return 0, failed("retire", context.Cause(ctx))
	}
	if err := sink.CheckRetire(issuer, below, resources); err != nil {
		return 0, failed("retire", err)
	}
	m.floors[issuer] = max(m.floors[issuer], below)
	for _, name := range resources {
		if r := m.resources[name]; r != nil && r.header.Issuer == issuer && r.header.Highest < below {
			delete(m.resources, name)
			removed++
		}
	}
	return removed, nil
}
