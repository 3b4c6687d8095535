package sinktest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fencepost/core/sink"
)

// T is the part of *testing.T that the suite uses.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Timeout bounds each case.
const Timeout = 2 * time.Minute

// Case is one rule of the suite. The resource is its own.
type Case struct {
	Name string
	Run  func(ctx context.Context, t T, s sink.Sink, resource string)
}

// Run runs the suite on sinks from newSink. prefix makes the resources' names
// unique where sinks share their storage.
func Run(t *testing.T, prefix string, newSink func(t *testing.T) sink.Sink) {
	for i, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), Timeout)
			defer cancel()
			c.Run(ctx, t, newSink(t), fmt.Sprintf("%s-%d", prefix, i))
		})
	}
}

// Cases returns the suite.
func Cases() []Case {
	return []Case{
		{"an unused resource reads as empty", unused},
		{"raise: higher, same, lower", raise},
		{"accept applies the value once and logs it", acceptOnce},
		{"a lower token than the highest seen is stale", stale},
		{"accept with a higher token raises it", acceptRaises},
		{"an applied key answers duplicate, whatever the token", duplicate},
		{"a duplicate with a higher token raises it", duplicateRaises},
		{"one key with two intents is a conflict", conflict},
		{"computed values do not matter for a duplicate", computed},
		{"another issuer is refused", issuers},
		{"read tells which keys are applied", readKeys},
		{"payload is kept", payload},
		{"forget refuses what was seen, then drops keys", forget},
		{"forget trims the ledger", forgetTrims},
		{"forget locks out no grant to come", forgetTwice},
		{"the highest token there is", highestToken},
		{"of many accepts of one key one is applied", sameKey},
		{"many accepts with one token are all applied, in an order", manyKeys},
		{"tokens of accepted effects never fall", tokensNeverFall},
		{"one process's knowledge may be old", twoClients},
		{"the ledger in parts", ledgerParts},
		{"retire removes, and lowers no fence", retire},
		{"retire keeps what may be in use", retireKeeps},
		{"a key that is repeated after a takeover", takenOver},
		{"a key with another body", otherBody},
		{"a key of another issuer", otherIssuer},
		{"a call that is repeated is answered the same", repeated},
		{"one key by two owners at once", bothOwners},
		{"arguments and contexts are checked", arguments},
	}
}

// test bundles what every step needs.
type test struct {
	T
	ctx      context.Context
	s        sink.Sink
	resource string
}

const issuer = "lock-a"

func (t test) raise(token int64, want sink.Result, seen int64) sink.Answer {
	t.Helper()
	a, err := t.s.Raise(t.ctx, t.resource, issuer, token)
	if err != nil || a.Result != want || a.Seen != seen {
		t.Errorf("Raise(%d) = %+v (%s), %v; want %s, seen %d", token, a, a.Result, err, want, seen)
	}
	return a
}

func (t test) accept(token int64, e sink.Effect, want sink.Result, seen int64) sink.Answer {
	t.Helper()
	a, err := t.s.Accept(t.ctx, t.resource, issuer, token, e)
	if err != nil || a.Result != want || a.Seen != seen {
		t.Errorf("Accept(%d, %+v) = %+v (%s), %v; want %s, seen %d", token, e, a, a.Result, err, want, seen)
	}
	return a
}

func (t test) state(keys ...string) sink.State {
	t.Helper()
	st, err := t.s.Read(t.ctx, t.resource, keys...)
	if err != nil {
		t.Errorf("Read: %v", err)
	}
	return st
}

func (t test) value(want int64) {
	t.Helper()
	if st := t.state(); st.Value != want {
		t.Errorf("value %d, want %d", st.Value, want)
	}
}

// ledger reads the ledger and checks what always holds.
func (t test) ledger() []sink.Entry {
	t.Helper()
	entries, err := t.s.Ledger(t.ctx, t.resource)
	if err != nil {
		t.Errorf("Ledger: %v", err)
	}
	var highest, at, last int64
	keys := map[string]bool{}
	for i, e := range entries {
		if i > 0 && e.Seq != last+1 {
			t.Errorf("entry %d follows entry %d", e.Seq, last)
		}
		last = e.Seq
		if e.Issuer != issuer {
			t.Errorf("entry %d: issuer %q", e.Seq, e.Issuer)
		}
		if i > 0 && e.At < at { // of a sink that dates them
			t.Errorf("entry %d was decided before the one that it follows: at %d, before %d", e.Seq, e.At, at)
		}
		at, entries[i].At = e.At, 0
		if e.Token < highest {
			t.Errorf("entry %d: %s with token %d after %d", e.Seq, e.Kind, e.Token, highest)
		}
		if e.Kind == sink.KindRaise && e.Token == highest && entries[i-1].Kind != sink.KindSeal {
			t.Errorf("entry %d raises to %d, which was the highest already", e.Seq, e.Token)
		}
		highest = max(highest, e.Token)
		if e.Kind == sink.KindAccept && keys[e.Key] {
			t.Errorf("entry %d: key %q was accepted twice", e.Seq, e.Key)
		}
		keys[e.Key] = true
	}
	if st := t.state(); st.Seq != last || st.Seen != highest {
		t.Errorf("state: seq %d, seen %d; the ledger ends with entry %d, highest %d", st.Seq, st.Seen, last, highest)
	}
	return entries
}

func effect(key string, value int64) sink.Effect {
	return sink.Effect{Key: key, Intent: "add to " + key, Value: value}
}

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
