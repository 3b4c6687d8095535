package sinktest

import (
	"context"
	"errors"
	"fmt"

	"fencepost/core/sink"
	"fencepost/core/store"
)

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
