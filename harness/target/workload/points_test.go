package workload

import (
	"context"
	"errors"
	"slices"
	"testing"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/lock"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/system/lockperjob"
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

// headers is a store of shards that have headers, or cannot be reached.
type headers struct {
	store.Shards
	err error
}

func (h headers) Look(context.Context, store.ShardID, bool) (*store.Header, error) {
	return &store.Header{}, h.err
}

// TestAnsweredJobs: a shard's owner stands at its plan, at the answer that its batch was applied,
// and around each step of a run; at no answer that says otherwise.
func TestAnsweredJobs(t *testing.T) {
	t.Parallel()
	rec, shard, id := &notebook{}, store.ShardID{Queue: "q", Shard: 1}, job.ID("1-ab")
	gate, at := standing(rec, control.LookSent, control.LookSent, control.LookAnswered, control.TakeSent, control.TakeAnswered, control.BatchPlanned,
		control.ClaimSent, control.ClaimAnswered, control.ClaimSettled, control.RunBegin, control.RunStart, control.RunEnd,
		control.FinishAnswered, control.HandOverSent, control.HandOverAnswered)
	p := &process{cfg: Config{Life: "w1.1"}, rec: rec, gate: gate, clock: NewClock(clock.System()), counts: &counters{}}
	o := &shardObserver{ctx: t.Context(), process: p, lanes: newLanes("w1.1")}
	step := func(s engine.Step) {
		s.Shard, s.Job, s.Run = shard, id, 7
		o.Step(s)
	}
	batch := func(kind engine.OpKind, change engine.StepKind) engine.Span {
		op := engine.Op{Kind: kind, Shard: shard}
		if change != "" {
			op.Changes = []engine.Change{{Kind: change, Job: id, Run: 7}}
		}
		span := o.Begin(op)
		span.Sending(0)
		step(engine.Step{Kind: engine.StepAnswer, Err: errors.New("no answer")})
		return span
	}
	ok := engine.Result{Outcome: store.OK}
	applied := engine.Step{Kind: engine.StepAnswer, Applied: true}
	for _, h := range []headers{{}, {err: errors.New("cut")}} {
		_, _ = watchedShards{h, o}.Look(t.Context(), shard, false)
	}
	batch(engine.OpTakeover, "").End(engine.Result{Outcome: store.Fail})
	batch(engine.OpTakeover, "").End(ok)
	batch(engine.OpTick, engine.StepClaim).End(engine.Result{Outcome: store.Fail})
	step(applied) // of a batch that nobody knows
	claim := batch(engine.OpTick, engine.StepClaim)
	step(applied)
	claim.End(ok)
	for _, kind := range []engine.StepKind{engine.StepClaim, engine.StepBegin, engine.StepStart, engine.StepFinish} {
		step(engine.Step{Kind: kind})
	}
	end := batch(engine.OpTick, engine.StepRetry)
	step(applied)
	end.End(ok)
	over := batch(engine.OpHandover, "")
	step(applied)
	over.End(ok)

	const who = " w1.1/q:1 shard/q/1 after "
	want := []string{
		"look-sent" + who + "nothing", "look-answered" + who + "nothing", "look-sent" + who + "nothing",
		"take-sent" + who + "invoke take", "take-answered" + who + "invoke take",
		"batch-planned" + who + "invoke tick", "claim-sent" + who + "invoke tick",
		"claim-answered" + who + "invoke tick", "claim-settled" + who + "ok tick",
		"run-begin" + who + "ok tick", "run-start" + who + "note start", "run-end" + who + "note finish",
		"finish-answered" + who + "invoke tick",
		"hand-over-sent" + who + "invoke hand-over", "hand-over-answered" + who + "invoke hand-over",
	}
	if !slices.Equal(*at, want) {
		t.Errorf("stopped at\n%q, want\n%q", *at, want)
	}
	if len(o.flights) != 0 {
		t.Errorf("batches that have ended are still on their way: %v", o.flights)
	}
}

// TestAnsweredJobLocks: the same of a scheduler with a lock for each job, as far as it has them.
func TestAnsweredJobLocks(t *testing.T) {
	t.Parallel()
	rec := &notebook{}
	gate, at := standing(rec, control.ClaimAnswered, control.RunBegin, control.RunStart, control.RunEnd, control.FinishAnswered)
	p := &process{cfg: Config{Life: "w1.1"}, rec: rec, gate: gate, clock: NewClock(clock.System()), counts: &counters{}}
	o := &jobLockObserver{process: p, lanes: newLanes("w1.1"),
		lockObserver: &lockObserver{ctx: t.Context(), rec: rec, gate: gate, points: jobLockPoints, answered: jobLockAnswers}}
	span := o.Begin(lock.Op{Kind: lock.Acquire, Resource: "l", Holder: "r1"})
	span.Sending(0)
	span.End(lock.Result{Outcome: store.OK})
	for _, kind := range []lockperjob.StepKind{lockperjob.StepStart, lockperjob.StepFinish} {
		o.Step(lockperjob.Step{Kind: kind, Lock: "l", Holder: "r1", Job: "0-a", Run: 7})
	}
	for _, do := range []lockperjob.Do{lockperjob.DoClaim, lockperjob.DoRetry} {
		o.Update(lockperjob.Update{Do: do, Lock: "l", Holder: "r1", Job: "0-a"})(nil)
	}
	want := []string{"claim-answered r1 l after invoke acquire", "run-begin r1 l after ok acquire", "run-start r1 l after note start",
		"run-end r1 l after note finish", "finish-answered r1 l after invoke update"}
	if !slices.Equal(*at, want) {
		t.Errorf("stopped at\n%q, want\n%q", *at, want)
	}
}
