package lockperjob

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// ledger is one resource of the sink: it does what the statements say.
type ledger struct {
	sink.Sink
	st      sink.State
	keys    map[string]int64
	entries []sink.Entry
	lost    int // answers that are lost from now on
	refused int // requests that are refused from now on
	reads   int
}

func (l *ledger) Read(_ context.Context, _ string, keys ...string) (sink.State, error) {
	l.reads++
	st := l.st
	st.Applied = map[string]int64{}
	for _, k := range keys {
		if token, ok := l.keys[k]; ok {
			st.Applied[k] = token
		}
	}
	return st, nil
}

func (l *ledger) CAS(_ context.Context, _ int, stmts ...store.Statement) (bool, []map[string]any, error) {
	if l.refused > 0 {
		l.refused--
		return false, nil, &store.Error{Outcome: store.Fail, Cause: errors.New("refused")}
	}
	head, accept, key := stmts[0], stmts[1].Args, stmts[2].Args
	if head.CQL[:6] == "INSERT" && l.st.Seq > 0 || head.CQL[:6] == "UPDATE" && head.Args[len(head.Args)-1] != l.st.Seq {
		return false, nil, nil
	}
	l.st.Seq++
	e := sink.Entry{Seq: l.st.Seq, Kind: sink.KindAccept, Issuer: accept[2].(string), Token: accept[3].(int64), Value: accept[4].(int64), Key: accept[5].(string)}
	l.entries = append(l.entries, e)
	l.st.Value, l.st.Seen = e.Value, max(l.st.Seen, e.Token)
	l.keys[key[1].(string)] = key[2].(int64)
	if l.lost > 0 {
		l.lost--
		return false, nil, &store.Error{Outcome: store.Unknown, Cause: errors.New("no answer")}
	}
	return true, nil, nil
}

// TestSink: what is refused nowhere, and what one call does once.
func TestSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{keys: map[string]int64{}}
		s := newSink(l, l, time.Second, time.Now)
		accept := func(token int64, key string) sink.Answer {
			t.Helper()
			a, err := s.Accept(t.Context(), "r", "lock/q/j", token, sink.Effect{Key: key, Intent: key, Value: l.st.Value + 1})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		if a := accept(7, "s1"); a.Result != sink.Applied || a.Seq != 1 || l.reads != 0 {
			t.Errorf("the first effect: %+v, %d reads", a, l.reads)
		}
		if a := accept(7, "s2"); a.Seq != 2 || l.reads != 0 {
			t.Errorf("the second: %+v, %d reads", a, l.reads)
		}
		if a := accept(3, "s3"); a.Result != sink.Applied || a.Seen != 7 {
			t.Errorf("a lower token: %+v", a)
		}
		if a := accept(3, "s1"); a.Result != sink.Applied || len(l.entries) != 4 {
			t.Errorf("what another token has done: %+v", a)
		}
		l.lost, l.refused = 1, 1
		if a := accept(9, "s4"); a.Result != sink.Duplicate || len(l.entries) != 5 {
			t.Errorf("refused, and then done without an answer: %+v, %d entries", a, len(l.entries))
		}
		other := newSink(l, l, time.Second, time.Now)
		s = other
		if a := accept(2, "s5"); a.Seq != 6 || len(l.entries) != 6 {
			t.Errorf("by another process: %+v", a)
		}
		l.refused = 1000
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Accept(ctx, "r", "lock/q/j", 2, sink.Effect{Key: "s6"}); store.OutcomeOf(err) != store.Fail {
			t.Errorf("never done: %v", err)
		}
		if _, err := s.Accept(t.Context(), "r", "lock/q/j", 0, sink.Effect{Key: "s6"}); store.OutcomeOf(err) != store.Fail {
			t.Errorf("without a token: %v", err)
		}
	})
}

func TestHand(t *testing.T) {
	t.Parallel()
	h := newHand()
	p, retry := Pending{Due: 1, ID: "a"}, Pending{Due: 2, ID: "a"}
	if !h.take(p, 10) || h.take(p, 10) || h.take(retry, 10) {
		t.Error("a job is taken up once")
	}
	h.leave(p, 20)
	h.drop(p)
	if h.take(p, 19) || !h.take(retry, 19) {
		t.Error("a row is left alone until its lock expires, a retry is another row")
	}
	h.drop(retry)
	if !h.take(p, 20) {
		t.Error("the lock has expired")
	}
	h.drop(p)
	h.leave(p, 20)
	h.leave(retry, 30)
	if h.forget(20); len(h.held) != 1 || h.held[retry] != 30 {
		t.Errorf("left after 20: %v", h.held)
	}
}
