package sinktest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"fencepost/core/sink"
	"fencepost/core/store"
)

func unused(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	if st := t.state("k"); st.Value != 0 || st.Seen != 0 || st.Seq != 0 || st.Issuer != "" || len(st.Applied) != 0 {
		t.Errorf("state %+v", st)
	}
	if l := t.ledger(); len(l) != 0 {
		t.Errorf("ledger %+v", l)
	}
}

func raise(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.raise(5, sink.Applied, 5)
	t.raise(5, sink.Applied, 5)
	t.raise(4, sink.Stale, 5)
	t.raise(7, sink.Applied, 7)
	t.raise(5, sink.Stale, 7)
	if l := t.ledger(); len(l) != 2 || l[0].Token != 5 || l[1].Token != 7 || l[0].Kind != sink.KindRaise {
		t.Errorf("ledger %+v", l)
	}
	t.value(0)
}

func acceptOnce(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	a := t.accept(3, effect("k", 10), sink.Applied, 3)
	if a.FirstToken != 3 || a.Seq != 1 {
		t.Errorf("answer %+v", a)
	}
	t.value(10)
	if l := t.ledger(); len(l) != 1 || l[0] != (sink.Entry{Seq: 1, Kind: sink.KindAccept, Issuer: issuer, Token: 3, Key: "k", Value: 10}) {
		t.Errorf("ledger %+v", l)
	}
	if st := t.state(); st.Issuer != issuer || st.Seen != 3 {
		t.Errorf("state %+v", st)
	}
}

func stale(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.raise(1, sink.Applied, 1)
	t.accept(1, effect("a", 1), sink.Applied, 1)
	t.raise(2, sink.Applied, 2)
	t.accept(1, effect("b", 2), sink.Stale, 2)
	t.value(1)
	t.accept(2, effect("b", 3), sink.Applied, 2)
	t.accept(1, effect("c", 4), sink.Stale, 2)
	t.value(3)
	if l := t.ledger(); len(l) != 4 {
		t.Errorf("%d entries, want 4: what is refused is not logged: %+v", len(l), l)
	}
}

func acceptRaises(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.accept(5, effect("a", 1), sink.Applied, 5)
	t.raise(4, sink.Stale, 5)
	t.accept(9, effect("b", 2), sink.Applied, 9)
	t.accept(5, effect("c", 3), sink.Stale, 9)
	t.value(2)
}

func duplicate(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	first := t.accept(2, effect("k", 10), sink.Applied, 2)
	for _, token := range []int64{2, 3, 1} {
		a := t.accept(token, effect("k", 10), sink.Duplicate, max(token, t.state().Seen))
		if a.FirstToken != 2 || a.Seq != first.Seq {
			t.Errorf("duplicate with token %d: %+v, want first token 2, seq %d", token, a, first.Seq)
		}
	}
	t.value(10)
}

func duplicateRaises(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.accept(2, effect("k", 10), sink.Applied, 2)
	t.accept(6, effect("k", 10), sink.Duplicate, 6)
	t.accept(2, effect("late", 11), sink.Stale, 6)
	if l := t.ledger(); len(l) != 2 || l[1].Kind != sink.KindRaise || l[1].Token != 6 {
		t.Errorf("ledger %+v", l)
	}
	t.value(10)
}

func conflict(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.accept(2, sink.Effect{Key: "k", Intent: "pay 10", Value: 10}, sink.Applied, 2)
	a := t.accept(3, sink.Effect{Key: "k", Intent: "pay 20", Value: 20}, sink.Conflict, 3)
	if a.FirstToken != 2 {
		t.Errorf("conflict: %+v", a)
	}
	t.value(10)
}

func computed(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.accept(2, sink.Effect{Key: "k", Intent: "add 1", Value: 1}, sink.Applied, 2)
	t.raise(3, sink.Applied, 3)
	t.accept(3, sink.Effect{Key: "k", Intent: "add 1", Value: 2}, sink.Duplicate, 3)
	t.value(1)
}

func issuers(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.raise(2, sink.Applied, 2)
	check := func(what string, err error) {
		var e *sink.IssuerError
		if !errors.As(err, &e) || e.Bound != issuer || e.Used != "lock-b" {
			t.Errorf("%s by another issuer: %v", what, err)
		}
		if got := store.OutcomeOf(err); got != store.Fail {
			t.Errorf("%s by another issuer: outcome %s", what, got)
		}
	}
	_, err := s.Raise(ctx, resource, "lock-b", 9)
	check("Raise", err)
	_, err = s.Accept(ctx, resource, "lock-b", 9, effect("k", 1))
	check("Accept", err)
	t.accept(2, effect("k", 1), sink.Applied, 2)
}

func readKeys(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	for i := range 5 {
		t.accept(int64(i+1), effect(fmt.Sprintf("k%d", i), int64(i)), sink.Applied, int64(i+1))
	}
	for n := range 6 {
		keys := []string{"absent"}
		for i := range n {
			keys = append(keys, fmt.Sprintf("k%d", i))
		}
		st := t.state(keys...)
		if len(st.Applied) != n {
			t.Errorf("of %v: %v", keys, st.Applied)
		}
		for i := range n {
			if st.Applied[fmt.Sprintf("k%d", i)] != int64(i+1) {
				t.Errorf("of %v: %v", keys, st.Applied)
			}
		}
	}
}

func payload(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.accept(1, sink.Effect{Key: "a", Intent: "x", Value: -7, Payload: []byte("p\x00q")}, sink.Applied, 1)
	if st := t.state(); st.Value != -7 || string(st.Payload) != "p\x00q" {
		t.Errorf("state %+v", st)
	}
	t.raise(2, sink.Applied, 2)
	if st := t.state(); st.Value != -7 || string(st.Payload) != "p\x00q" {
		t.Errorf("state after a raise %+v", st)
	}
	t.accept(2, sink.Effect{Key: "b", Intent: "x", Value: 1}, sink.Applied, 2)
	if st := t.state(); len(st.Payload) != 0 {
		t.Errorf("payload %q", st.Payload)
	}
}

func sameKey(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	const n = 10
	var mu sync.Mutex
	got := map[sink.Result]int{}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			a, err := s.Accept(ctx, resource, issuer, 1, effect("k", 1))
			if err != nil {
				t.Errorf("Accept: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[a.Result]++
		})
	}
	wg.Wait()
	if got[sink.Applied] != 1 || got[sink.Duplicate] != n-1 {
		t.Errorf("results %v", got)
	}
	t.ledger()
}

func manyKeys(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	const n = 10
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { t.accept(1, effect(fmt.Sprintf("k%d", i), int64(i)), sink.Applied, 1) })
	}
	wg.Wait()
	l := t.ledger()
	if len(l) != n {
		t.Errorf("%d entries, want %d", len(l), n)
		return
	}
	t.value(l[n-1].Value)
}

func tokensNeverFall(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	const n = 10
	var wg sync.WaitGroup
	for i := range int64(n) {
		wg.Go(func() {
			// A sink that sends copies may not know whether a higher token came before the first of them.
			overtaken := func(err error) bool { return i+1 < n && errors.Is(err, sink.ErrStaleAfterUnknown) }
			if _, err := s.Raise(ctx, resource, issuer, i+1); err != nil && !overtaken(err) {
				t.Errorf("Raise: %v", err)
			}
			a, err := s.Accept(ctx, resource, issuer, i+1, effect(fmt.Sprintf("k%d", i), i))
			switch {
			case overtaken(err):
			case err != nil:
				t.Errorf("Accept: %v", err)
			case a.Result == sink.Stale && a.Seen <= i+1:
				t.Errorf("token %d was refused as stale, having seen %d", i+1, a.Seen)
			case a.Result != sink.Stale && a.Result != sink.Applied:
				t.Errorf("token %d: %s", i+1, a.Result)
			}
		})
	}
	wg.Wait()
	t.ledger() // checks the order
}

// twoClients lets the sink's own memory of a resource grow old: another client
// would do the same, and here the resource is used by two of its callers.
func twoClients(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	for i := range int64(5) {
		t.raise(i+1, sink.Applied, i+1)
		var wg sync.WaitGroup
		for c := range 2 {
			wg.Go(func() { t.accept(i+1, effect(fmt.Sprintf("k%d-%d", i, c), i), sink.Applied, i+1) })
		}
		wg.Wait()
	}
	if l := t.ledger(); len(l) != 15 {
		t.Errorf("%d entries", len(l))
	}
}

func ledgerParts(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	for token := range int64(5) {
		t.raise(token+1, sink.Applied, token+1)
	}
	for after := range int64(7) {
		for n := 1; n < 7; n++ {
			part, err := sink.LedgerAfter(ctx, s, resource, after, n)
			if want := min(n, int(max(5-after, 0))); err != nil || len(part) != want || want > 0 && (part[0].Seq != after+1 || part[want-1].Seq != after+int64(want)) {
				t.Errorf("%d entries after %d: %+v, %v; want %d", n, after, part, err, want)
			}
		}
	}
	if part, err := sink.LedgerAfter(ctx, s, resource+"-unused", 0, 1); err != nil || len(part) != 0 {
		t.Errorf("of an unused resource: %+v, %v", part, err)
	}
}

func arguments(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	for _, c := range []sink.Call{
		{Issuer: issuer, Token: 1},
		{Resource: resource, Token: 1},
		{Resource: resource, Issuer: issuer},
		{Resource: resource, Issuer: issuer, Token: -1},
	} {
		if _, err := s.Raise(ctx, c.Resource, c.Issuer, c.Token); err == nil || store.OutcomeOf(err) != store.Fail {
			t.Errorf("Raise of %+v: %v", c, err)
		}
		if _, err := s.Accept(ctx, c.Resource, c.Issuer, c.Token, effect("k", 1)); err == nil || store.OutcomeOf(err) != store.Fail {
			t.Errorf("Accept of %+v: %v", c, err)
		}
	}
	if _, err := s.Accept(ctx, resource, issuer, 1, effect("", 1)); err == nil || store.OutcomeOf(err) != store.Fail {
		t.Errorf("Accept without a key: %v", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Raise(over, resource, issuer, 1); store.OutcomeOf(err) != store.Fail {
		t.Errorf("Raise with a context that is over: %v (%s)", err, store.OutcomeOf(err))
	}
	if _, err := s.Accept(over, resource, issuer, 1, effect("k", 1)); store.OutcomeOf(err) != store.Fail {
		t.Errorf("Accept with a context that is over: %v (%s)", err, store.OutcomeOf(err))
	}
	if _, err := s.Read(over, resource); err == nil {
		t.Errorf("Read with a context that is over succeeded")
	}
	if st := t.state(); st.Seq != 0 {
		t.Errorf("something was done: %+v", st)
	}
}
