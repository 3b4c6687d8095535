package sinktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
)

func forget(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	for i := range 3 {
		t.accept(4, effect(fmt.Sprintf("k%d", i), int64(i)), sink.Applied, 4)
	}
	drop := func(before time.Time, want int) {
		if n, err := s.Forget(ctx, resource, before); err != nil || n != want {
			t.Errorf("Forget = %d, %v; want %d", n, err, want)
		}
	}
	drop(time.Now().Add(-time.Hour), 0)
	if st := t.state(); st.Seen != 4 {
		t.Errorf("nothing was dropped, but the highest token is %d", st.Seen)
	}
	drop(time.Now().Add(time.Hour), 3)
	if st := t.state("k0", "k1", "k2"); st.Seen != 5 || len(st.Applied) != 0 || st.Value != 2 {
		t.Errorf("state %+v", st)
	}
	t.accept(4, effect("k0", 9), sink.Stale, 5)
	t.accept(5, effect("new", 9), sink.Applied, 5)
	drop(time.Now().Add(-time.Hour), 0)
	if l := t.ledger(); len(l) != 2 || l[0].Seq != 4 || l[0].Kind != sink.KindSeal || l[0].Token != 5 {
		t.Errorf("ledger %+v", l)
	}
}

// forgetTrims: the ledger of a resource that is only raised does not grow for ever either,
// and goes on where it was.
func forgetTrims(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	t.raise(1, sink.Applied, 1)
	t.accept(1, effect("k", 1), sink.Applied, 1)
	t.raise(2, sink.Applied, 2)
	time.Sleep(keyAge)
	cut := time.Now()
	time.Sleep(keyAge)
	t.raise(3, sink.Applied, 3)
	t.raise(4, sink.Applied, 4)
	if n, err := s.Forget(ctx, resource, cut); err != nil || n != 1 {
		t.Errorf("Forget = %d, %v", n, err)
	}
	if l := t.ledger(); len(l) != 3 || l[0].Seq != 4 || l[0].Token != 3 || l[2].Kind != sink.KindSeal {
		t.Errorf("ledger %+v", l)
	}
	if n, err := s.Forget(ctx, resource, time.Now().Add(time.Hour)); err != nil || n != 0 {
		t.Errorf("Forget = %d, %v", n, err)
	}
	if l := t.ledger(); len(l) != 1 || l[0].Seq != 6 {
		t.Errorf("the last entry stays: %+v", l)
	}
	if part, err := sink.LedgerAfter(ctx, s, resource, 2, 5); err != nil || len(part) != 1 || part[0].Seq != 6 {
		t.Errorf("from before what was dropped: %+v, %v", part, err)
	}
	t.accept(5, effect("k", 2), sink.Applied, 5)
	if l := t.ledger(); len(l) != 2 || l[1].Seq != 7 {
		t.Errorf("ledger %+v", l)
	}
}

// keyAge is more than what the times that sinks store are rounded to.
const keyAge = 3 * time.Millisecond

// forgetTwice forgets the keys of one grant one by one: the next grant has the next token.
func forgetTwice(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	var cuts []time.Time
	for i := range 3 {
		t.accept(5, effect(fmt.Sprintf("k%d", i), int64(i)), sink.Applied, 5)
		time.Sleep(keyAge)
		cuts = append(cuts, time.Now())
		time.Sleep(keyAge)
	}
	for _, cut := range cuts {
		if n, err := s.Forget(ctx, resource, cut); err != nil || n != 1 {
			t.Errorf("Forget = %d, %v; want 1", n, err)
		}
		t.accept(5, effect("k0", 9), sink.Stale, 6)
	}
	t.raise(6, sink.Applied, 6)
	t.accept(6, effect("new", 9), sink.Applied, 6)
	// A call has come with 6, so the next one must refuse it.
	if n, err := s.Forget(ctx, resource, time.Now().Add(time.Hour)); err != nil || n != 1 {
		t.Errorf("Forget = %d, %v; want 1", n, err)
	}
	t.accept(6, effect("new", 9), sink.Stale, 7)
	t.accept(7, effect("newer", 9), sink.Applied, 7)
	t.ledger()
}

// highestToken: keys can be forgotten under the highest token too, and a higher one than
// that is no token.
func highestToken(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	if _, err := s.Raise(ctx, resource, issuer, sink.MaxToken+1); err == nil || store.OutcomeOf(err) != store.Fail {
		t.Errorf("Raise to %d: %v", int64(sink.MaxToken+1), err)
	}
	t.accept(sink.MaxToken, effect("k", 1), sink.Applied, sink.MaxToken)
	if n, err := s.Forget(ctx, resource, time.Now().Add(time.Hour)); err != nil || n != 1 {
		t.Errorf("Forget = %d, %v; want 1", n, err)
	}
	t.accept(sink.MaxToken, effect("k", 1), sink.Stale, sink.MaxToken+1)
}

// retire runs on sinks that can. Names of issuers are the case's own, as floors are theirs.
func retire(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	r, ok := s.(sink.Retirer)
	if !ok {
		return
	}
	issuer := resource + "-issuer"
	name := func(i int) string { return fmt.Sprintf("%s-%d", resource, i) }
	accept := func(i int, token int64, key string, want sink.Result, seen int64) {
		t.Helper()
		a, err := s.Accept(ctx, name(i), issuer, token, effect(key, 1))
		if err != nil || a.Result != want || a.Seen != seen {
			t.Errorf("Accept(%d, %s) on %d = %+v (%s), %v; want %s, seen %d", token, key, i, a, a.Result, err, want, seen)
		}
	}
	retire := func(below int64, want int, of ...int) {
		t.Helper()
		var names []string
		for _, i := range of {
			names = append(names, name(i))
		}
		if n, err := r.Retire(ctx, issuer, below, names...); err != nil || n != want {
			t.Errorf("Retire(%d, %v) = %d, %v; want %d", below, of, n, err, want)
		}
	}
	accept(0, 5, "k", sink.Applied, 5)
	accept(1, 6, "k", sink.Applied, 6)
	accept(2, 7, "k", sink.Applied, 7)
	retire(7, 2, 0, 1, 2, 3) // 2 has seen what may still be at work, 3 was never used
	retire(7, 0, 0, 1, 2)
	for i := range 2 {
		st, err := s.Read(ctx, name(i), "k")
		if err != nil || st.Issuer != "" || st.Seen != 0 || st.Seq != 0 || st.Value != 0 || len(st.Applied) != 0 {
			t.Errorf("what is left of %d: %+v, %v", i, st, err)
		}
		if l, err := s.Ledger(ctx, name(i)); err != nil || len(l) != 0 {
			t.Errorf("what is left of the ledger of %d: %+v, %v", i, l, err)
		}
	}
	accept(2, 7, "k", sink.Duplicate, 7)
	accept(0, 5, "k", sink.Stale, 7) // a late copy
	accept(3, 6, "k", sink.Stale, 7) // what was never used takes none that is over either
	if a, err := s.Raise(ctx, name(0), issuer, 6); err != nil || a.Result != sink.Stale {
		t.Errorf("Raise(6): %+v, %v", a, err)
	}
	accept(0, 7, "k", sink.Applied, 7)
	if a, err := s.Raise(ctx, name(1), issuer, 7); err != nil || a.Result != sink.Applied || a.Seen != 7 || a.Seq != 1 {
		t.Errorf("Raise(7): %+v, %v", a, err)
	}
	retire(3, 0, 0, 1, 2) // a floor does not fall
	accept(4, 6, "k", sink.Stale, 7)
	retire(8, 0)
	retire(7, 0, 0, 1, 2) // a late one: they were used since
	retire(8, 3, 0, 1, 2)
	accept(0, 7, "k", sink.Stale, 8)
	accept(0, 9, "k", sink.Applied, 9)
	if l, err := s.Ledger(ctx, name(0)); err != nil || len(l) != 1 || l[0].Seq != 1 || l[0].Token != 9 {
		t.Errorf("the ledger starts over: %+v, %v", l, err)
	}
}

// retireKeeps: an issuer retires its own resources only, and no call can be about a floor.
func retireKeeps(ctx context.Context, tt T, s sink.Sink, resource string) {
	t := test{tt, ctx, s, resource}
	r, ok := s.(sink.Retirer)
	if !ok {
		return
	}
	t.accept(5, effect("k", 10), sink.Applied, 5)
	other := resource + "-other"
	if n, err := r.Retire(ctx, other, 100, resource); err != nil || n != 0 {
		t.Errorf("of another issuer: %d, %v", n, err)
	}
	t.accept(5, effect("k", 10), sink.Duplicate, 5)
	if _, err := s.Raise(ctx, resource+"-fresh", issuer, 5); err != nil {
		t.Errorf("a floor is that of its issuer alone: %v", err)
	}
	for name, err := range map[string]error{
		"no issuer":   second(r.Retire(ctx, "", 1, resource)),
		"no token":    second(r.Retire(ctx, other, 0, resource)),
		"no resource": second(r.Retire(ctx, other, 1, "")),
		"a floor":     second(r.Retire(ctx, other, 1, sink.FloorOf(other))),
	} {
		if err == nil || store.OutcomeOf(err) != store.Fail {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Raise(ctx, sink.FloorOf(other), other, 7); err == nil || errors.As(err, new(*sink.IssuerError)) || store.OutcomeOf(err) != store.Fail {
		t.Errorf("a call about a floor: %v", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := r.Retire(over, other, 200, resource); err == nil {
		t.Errorf("Retire with a context that is over succeeded")
	}
}

func second(_ int, err error) error { return err }
