package sinktest

import (
	"context"
	"errors"
	"sync"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// Here one key comes from several owners: those of one grant after the other, and those of
// another issuer.

// takenOver: who takes a job over repeats its effect under the same key.
func takenOver(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	first := t.accept(5, effect("k", 10), sink.Applied, 5)
	t.raise(6, sink.Applied, 6)
	for _, token := range []int64{6, 5, 6} { // the next owner, the one before, which has woken up, and again
		if a := t.accept(token, effect("k", 11), sink.Duplicate, 6); a.FirstToken != 5 || a.Seq != first.Seq {
			t.Errorf("token %d: %+v, want what was answered to the first, %+v", token, a, first)
		}
	}
	t.accept(5, effect("new", 12), sink.Stale, 6)
	t.accept(6, effect("new", 13), sink.Applied, 6)
	if a := t.accept(5, effect("new", 12), sink.Duplicate, 6); a.FirstToken != 6 {
		t.Errorf("a key that the next owner has used first: %+v", a)
	}
	t.value(13)
	if l := t.ledger(); len(l) != 3 {
		t.Errorf("%d entries, want 3: %+v", len(l), l)
	}
}

// otherBody: what makes an effect the same is its intent, also by another owner; what it wrote is what
// the first one wrote.
func otherBody(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.accept(5, sink.Effect{Key: "k", Intent: "pay", Value: 1, Payload: []byte("first")}, sink.Applied, 5)
	t.accept(7, sink.Effect{Key: "k", Intent: "pay", Value: 2, Payload: []byte("second")}, sink.Duplicate, 7)
	for _, token := range []int64{7, 5, 8} {
		a := t.accept(token, sink.Effect{Key: "k", Intent: "pay twice", Value: 3, Payload: []byte("third")}, sink.Conflict, max(token, 7))
		if a.FirstToken != 5 {
			t.Errorf("token %d: %+v, want the token of the first, 5", token, a)
		}
	}
	if st := t.state("k"); st.Value != 1 || string(st.Payload) != "first" || st.Applied["k"] != 5 {
		t.Errorf("state %+v", st)
	}
	t.ledger()
}

// otherIssuer: tokens of another issuer say nothing, also where the key is known; on a resource
// of its own it may use the same key.
func otherIssuer(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.accept(5, effect("k", 10), sink.Applied, 5)
	for _, token := range []int64{4, 5, 6} {
		_, err := s.Accept(ctx, resource, "lock-b", token, effect("k", 11))
		var e *sink.IssuerError
		if !errors.As(err, &e) || e.Bound != issuer || store.OutcomeOf(err) != store.Fail {
			t.Errorf("a key of another issuer with token %d: %v", token, err)
		}
	}
	own := resource + "-b"
	if a, err := s.Accept(ctx, own, "lock-b", 2, effect("k", 12)); err != nil || a.Result != sink.Applied || a.FirstToken != 2 || a.Seq != 1 {
		t.Errorf("the same key of another resource: %+v, %v", a, err)
	}
	if st, err := s.Read(ctx, own, "k"); err != nil || st.Value != 12 || st.Issuer != "lock-b" || st.Applied["k"] != 2 {
		t.Errorf("the other resource: %+v, %v", st, err)
	}
	if a := t.accept(5, effect("k", 13), sink.Duplicate, 5); a.FirstToken != 5 || a.Seq != 1 {
		t.Errorf("answer %+v", a)
	}
	t.value(10)
	t.ledger()
}

// repeated: the same call has the same answer as long as nothing else was decided. The first of
// an effect says applied, all others that it is a duplicate of just that one.
func repeated(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.raise(3, sink.Applied, 3)
	first := t.accept(4, effect("k", 1), sink.Applied, 4)
	t.raise(6, sink.Applied, 6)
	again := first
	again.Result, again.Seen = sink.Duplicate, 6
	for _, c := range []struct {
		what string
		call func() (sink.Answer, error)
		want sink.Answer
	}{
		{"the effect", func() (sink.Answer, error) { return s.Accept(ctx, resource, issuer, 4, effect("k", 1)) }, again},
		{"the raise", func() (sink.Answer, error) { return s.Raise(ctx, resource, issuer, 6) }, sink.Answer{Result: sink.Applied, Seen: 6, Seq: 3}},
		{"a late raise", func() (sink.Answer, error) { return s.Raise(ctx, resource, issuer, 3) }, sink.Answer{Result: sink.Stale, Seen: 6, Seq: 3}},
		{"a late effect", func() (sink.Answer, error) { return s.Accept(ctx, resource, issuer, 5, effect("l", 1)) }, sink.Answer{Result: sink.Stale, Seen: 6, Seq: 3}},
		{"a conflict", func() (sink.Answer, error) {
			return s.Accept(ctx, resource, issuer, 6, sink.Effect{Key: "k", Intent: "another"})
		}, sink.Answer{Result: sink.Conflict, FirstToken: 4, Seen: 6, Seq: 3}},
	} {
		for range 3 {
			if a, err := c.call(); err != nil || a != c.want {
				t.Errorf("%s: %+v, %v; want %+v", c.what, a, err, c.want)
			}
		}
	}
	t.value(1)
	if l := t.ledger(); len(l) != 3 {
		t.Errorf("%d entries, want 3: %+v", len(l), l)
	}
}

// bothOwners: the owner that was taken over and the next one send one key at the same time.
func bothOwners(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	for round := range int64(5) {
		old, key := 2*round+1, string(rune('a'+round))
		t.raise(old, sink.Applied, old)
		var late, next sink.Answer
		var errs [3]error
		var wg sync.WaitGroup
		wg.Go(func() { late, errs[0] = s.Accept(ctx, resource, issuer, old, effect(key, old)) })
		wg.Go(func() {
			_, errs[1] = s.Raise(ctx, resource, issuer, old+1)
			next, errs[2] = s.Accept(ctx, resource, issuer, old+1, effect(key, old+1))
		})
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Errorf("round %d: %v", round, err)
			return
		}
		winner := next
		switch {
		case next.Result == sink.Duplicate && late.Result == sink.Applied:
			winner = late
		case next.Result == sink.Applied && (late.Result == sink.Stale || late.Result == sink.Duplicate):
		default:
			t.Errorf("round %d: the late owner was answered %+v, the next one %+v", round, late, next)
		}
		for _, a := range []sink.Answer{late, next} {
			if a.Result == sink.Duplicate && (a.FirstToken != winner.FirstToken || a.Seq != winner.Seq) {
				t.Errorf("round %d: a duplicate of another effect: %+v, accepted was %+v", round, a, winner)
			}
		}
		if st := t.state(key); st.Value != winner.FirstToken || st.Applied[key] != winner.FirstToken {
			t.Errorf("round %d: state %+v, accepted was %+v", round, st, winner)
		}
	}
	t.ledger()
}
