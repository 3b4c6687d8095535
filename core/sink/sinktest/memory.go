package sinktest

import (
	"context"
	"sort"
	"sync"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// Memory is a sink in memory: the meaning of the interface in its plainest
// form, for tests of what uses a sink. Safe for concurrent use.
type Memory struct {
	mu        sync.Mutex
	resources map[string]*resource
}

type resource struct {
	issuer  string
	highest int64
	value   int64
	payload []byte
	keys    map[string]accepted
	ledger  []sink.Entry
}

type accepted struct {
	token, seq int64
	intent     string
	at         time.Time
}

var _ sink.Sink = (*Memory)(nil)

// NewMemory returns an empty sink.
func NewMemory() *Memory { return &Memory{resources: map[string]*resource{}} }

// enter returns a resource with the token raised. The caller has the mutex.
func (m *Memory) enter(ctx context.Context, name, issuer string, token int64) (*resource, error) {
	if ctx.Err() != nil {
		return nil, &store.Error{Op: "sink", Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	r := m.resources[name]
	if r == nil {
		r = &resource{issuer: issuer, keys: map[string]accepted{}}
		m.resources[name] = r
	}
	if r.issuer != issuer {
		return nil, &store.Error{Op: "sink", Outcome: store.Fail, Cause: &sink.IssuerError{Resource: name, Bound: r.issuer, Used: issuer}}
	}
	return r, nil
}

func (r *resource) log(e sink.Entry) int64 {
	e.Seq, e.Issuer = int64(len(r.ledger))+1, r.issuer
	r.ledger = append(r.ledger, e)
	return e.Seq
}

func (r *resource) raise(token int64) {
	if token > r.highest {
		r.highest = token
		r.log(sink.Entry{Kind: sink.KindRaise, Token: token})
	}
}

// Raise implements sink.Sink.
func (m *Memory) Raise(ctx context.Context, name, issuer string, token int64) (sink.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.enter(ctx, name, issuer, token)
	if err != nil {
		return sink.Answer{}, err
	}
	r.raise(token)
	a := sink.Answer{Result: sink.Applied, Seen: r.highest, Seq: int64(len(r.ledger))}
	if token < r.highest {
		a.Result = sink.Stale
	}
	return a, nil
}

// Accept implements sink.Sink.
func (m *Memory) Accept(ctx context.Context, name, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.enter(ctx, name, issuer, token)
	if err != nil {
		return sink.Answer{}, err
	}
	k, known := r.keys[e.Key]
	if known {
		r.raise(token)
	}
	switch {
	case known && k.intent == e.Intent:
		return sink.Answer{Result: sink.Duplicate, FirstToken: k.token, Seen: r.highest, Seq: k.seq}, nil
	case known:
		return sink.Answer{Result: sink.Conflict, FirstToken: k.token, Seen: r.highest, Seq: int64(len(r.ledger))}, nil
	case token < r.highest:
		return sink.Answer{Result: sink.Stale, Seen: r.highest, Seq: int64(len(r.ledger))}, nil
	}
	r.highest = token
	seq := r.log(sink.Entry{Kind: sink.KindAccept, Token: token, Key: e.Key, Value: e.Value})
	r.value, r.payload = e.Value, append([]byte{}, e.Payload...)
	r.keys[e.Key] = accepted{token: token, seq: seq, intent: e.Intent, at: time.Now()}
	return sink.Answer{Result: sink.Applied, FirstToken: token, Seen: token, Seq: seq}, nil
}

// Read implements sink.Sink.
func (m *Memory) Read(ctx context.Context, name string, keys ...string) (sink.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := sink.State{Applied: map[string]int64{}}
	if ctx.Err() != nil {
		return st, &store.Error{Op: "sink", Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	r := m.resources[name]
	if r == nil {
		return st, nil
	}
	st.Value, st.Payload, st.Seen, st.Seq, st.Issuer = r.value, r.payload, r.highest, int64(len(r.ledger)), r.issuer
	for _, k := range keys {
		if a, ok := r.keys[k]; ok {
			st.Applied[k] = a.token
		}
	}
	return st, nil
}

// Ledger implements sink.Sink.
func (m *Memory) Ledger(_ context.Context, name string) ([]sink.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.resources[name]
	if r == nil {
		return nil, nil
	}
	return append([]sink.Entry(nil), r.ledger...), nil
}

// Forget implements sink.Sink.
func (m *Memory) Forget(_ context.Context, name string, before time.Time) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.resources[name]
	if r == nil {
		return 0, nil
	}
	var old []string
	for k, a := range r.keys {
		if a.at.Before(before) {
			old = append(old, k)
		}
	}
	sort.Strings(old)
	if len(old) > 0 {
		r.raise(r.highest + 1)
	}
	for _, k := range old {
		delete(r.keys, k)
	}
	return len(old), nil
}
