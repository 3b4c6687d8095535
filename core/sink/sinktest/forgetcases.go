package sinktest

import (
	"context"
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
