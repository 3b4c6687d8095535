package workload

import (
	"errors"
	"slices"
	"testing"

	"fencepost/core/lock"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// standing is a gate that notes what was recorded when a client stood at one of its points.
func standing(rec *notebook, points ...control.Point) (*control.Gate, *[]string) {
	at := &[]string{}
	var gate *control.Gate
	gate = control.NewGate(func(m control.Message) error {
		last := "nothing"
		if n := len(rec.events); n > 0 {
			last = string(rec.events[n-1].Type) + " " + string(rec.events[n-1].Op)
		}
		*at = append(*at, string(m.Point)+" "+m.Proc+" "+m.Key+" after "+last)
		gate.Go(m)
		return nil
	})
	for n, p := range points {
		gate.Arm(n, p, "")
	}
	return gate, at
}

// TestAnsweredLocks: a client stands at an answer that says "applied" before the answer is
// recorded, and at no other answer.
func TestAnsweredLocks(t *testing.T) {
	t.Parallel()
	rec := &notebook{}
	gate, at := standing(rec, control.AcquireAnswered, control.RenewAnswered, control.ReleaseAnswered)
	o := &lockObserver{ctx: t.Context(), rec: rec, gate: gate, points: sentPoints, answered: answeredPoints}
	end := func(kind lock.OpKind, r lock.Result) {
		span := o.Begin(lock.Op{Kind: kind, Resource: "l", Holder: "c1"})
		span.Sending(0)
		span.End(r)
	}
	for _, kind := range []lock.OpKind{lock.Acquire, lock.Renew, lock.Release, lock.Read} {
		end(kind, lock.Result{Outcome: store.Fail, Row: &store.Version{Fence: 1}})
		end(kind, lock.Result{Outcome: store.Unknown, Err: errors.New("no answer")})
		if len(*at) > 0 {
			t.Fatalf("%s: stopped at %q, and nothing was applied", kind, *at)
		}
		end(kind, lock.Result{Outcome: store.OK})
		want := []string{kind.String() + "-answered c1 l after invoke " + kind.String()}
		if kind == lock.Read {
			want = nil
		}
		if !slices.Equal(*at, want) {
			t.Errorf("stopped at %q, want %q", *at, want)
		}
		if last := rec.events[len(rec.events)-1]; last.Type != history.OK {
			t.Errorf("%s: the answer is not recorded: %+v", kind, last)
		}
		*at = nil
	}
}

// TestAnsweredEffect: a client stands at an accepted effect before that is recorded; at a
// refused one it does not.
func TestAnsweredEffect(t *testing.T) {
	t.Parallel()
	rec, mem := &notebook{}, sinktest.NewMemory()
	gate, at := standing(rec, control.EffectSent, control.EffectAnswered, control.EffectAnswered)
	s := &recordingSink{Sink: mem, rec: rec, proc: "c1"}
	effect := func(token int64, key string) sink.Answer {
		a, err := s.effect("r", "l", token, 1, sink.Effect{Key: key, Intent: key, Value: 1}, func(p control.Point) {
			gate.Reach(t.Context(), p, "c1", "l")
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	effect(5, "a")
	if a := effect(4, "b"); a.Result != sink.Stale {
		t.Fatalf("a lower token: %+v", a)
	}
	if a := effect(5, "a"); a.Result != sink.Duplicate {
		t.Fatalf("the same effect: %+v", a)
	}
	want := []string{"effect-sent c1 l after invoke effect", "effect-answered c1 l after invoke effect"}
	if !slices.Equal(*at, want) {
		t.Errorf("stopped at %q, want %q", *at, want)
	}
}
