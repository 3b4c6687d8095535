package measure

import (
	"reflect"
	"strings"
	"testing"

	"fencepost/harness/record/history"
)

// arm notes that a fault waited, and at that instant somebody came (proc "": nobody).
func (s *script) arm(ts int64, fault, point, proc, key string) {
	s.note(ts, history.Harness, history.Event{Op: history.NoteArm, Key: key, Details: &history.Details{Point: point,
		Armed: &history.Armed{Fault: "f1", Name: fault, Since: 1, Proc: proc}}})
}

// batch is a shard owner's batch with one change.
func (s *script) batch(from, end int64, typ history.Type, c history.Change) {
	s.op(from, end, typ, history.Event{Proc: "w1.1/q:0", Op: history.OpTick, Key: "shard/q/0", From: ver(1, 1, "n", ""), To: ver(1, 2, "m", ""),
		Details: &history.Details{Changes: []history.Change{c}}})
}

func (s *script) run(ts int64, op history.Op, token int64) {
	s.note(ts, "w1.1/r1", history.Event{Op: op, Key: "job", Issuer: "shard/q/0", Token: token, DecidedAt: ts})
}

func (s *script) lost(ts int64, proc, key string) {
	s.note(ts, proc, history.Event{Op: history.NoteLeaseLost, Key: key, Token: 7})
}

func TestReaches(t *testing.T) {
	t.Parallel()
	c1 := func(op history.Op) history.Event { return history.Event{Proc: "w1.1/c1", Op: op, Key: "a"} }
	effect := history.Event{Proc: "w1.1/c1", Op: history.OpEffect, Key: "res-a", Issuer: "a", Token: 7}
	section := func(s *script, op history.Op, ts int64) {
		s.note(ts, "w1.1/c1", history.Event{Op: op, Key: "a", Token: 7})
	}
	change := func(do string, run int64) history.Change {
		return history.Change{Job: "job", Do: do, Run: run, Attempt: 1}
	}
	const lock, shard = "w1.1/c1 a", "w1.1/q:0 shard/q/0"
	for name, c := range map[string]struct {
		point, who string // at 50
		tell       func(s *script)
		want       Reach
	}{
		"a grant whose client died": {"acquire-answered", lock, func(s *script) { s.op(40, 0, "", c1(history.OpAcquire)) }, Reach{NoEnd: 1}},
		"a renewal that was ok": {"renew-answered", lock, func(s *script) {
			s.op(40, 60, history.OK, c1(history.OpRenew))
		}, Reach{OK: 1}},
		"a renewal known too late": {"renew-answered", lock, func(s *script) {
			s.op(40, 60, history.OK, c1(history.OpRenew))
			s.lost(61, "w1.1/c1", "a")
		}, Reach{OK: 1, LeaseLost: 1}},
		"a grant known too late": {"acquire-answered", lock, func(s *script) {
			s.op(40, 60, history.OK, c1(history.OpAcquire))
			s.lost(61, "w1.1/c1", "a")
		}, Reach{OK: 1, LeaseLost: 1}},
		"the lease that was lost is a later one": {"release-answered", lock, func(s *script) {
			s.op(40, 60, history.OK, c1(history.OpRelease))
			s.op(70, 80, history.OK, c1(history.OpAcquire))
			s.lost(90, "w1.1/c1", "a")
		}, Reach{OK: 1}},
		"the lease that was lost is another client's": {"release-answered", lock, func(s *script) {
			s.op(40, 60, history.OK, c1(history.OpRelease))
			s.lost(61, "w1.1/c2", "a")
		}, Reach{OK: 1}},
		"a release that was never settled": {"release-sent", lock, func(s *script) { s.op(40, 60, history.Unknown, c1(history.OpRelease)) }, Reach{Unknown: 1}},
		"an effect that was refused":       {"effect-sent", lock, func(s *script) { s.op(40, 60, history.Fail, effect) }, Reach{Fail: 1}},
		"what ended before is not it":      {"effect-sent", lock, func(s *script) { s.op(40, 45, history.OK, effect) }, Reach{Unrecorded: 1}},
		"what began later is not it":       {"effect-sent", lock, func(s *script) { s.op(55, 60, history.OK, effect) }, Reach{Unrecorded: 1}},
		"nor is another kind":              {"renew-sent", lock, func(s *script) { s.op(40, 60, history.OK, c1(history.OpRelease)) }, Reach{Unrecorded: 1}},
		"a look is no operation":           {"look-sent", shard, func(*script) {}, Reach{Unrecorded: 1}},
		"a holder that wrote": {"holding", lock, func(s *script) {
			section(s, history.NoteStart, 40)
			s.op(55, 60, history.OK, effect)
		}, Reach{OK: 1}},
		"a holder that did not": {"holding", lock, func(s *script) {
			section(s, history.NoteStart, 40)
			s.lost(58, "w1.1/c1", "a")
			section(s, history.NoteFinish, 60)
		}, Reach{Fail: 1, LeaseLost: 1}},
		"a holder that died": {"holding", lock, func(s *script) { section(s, history.NoteStart, 40) }, Reach{NoEnd: 1}},

		"a batch of a shard":       {"claim-answered", shard, func(s *script) { s.batch(40, 60, history.OK, change("claim", 9)) }, Reach{OK: 1}},
		"a batch before it is due": {"batch-planned", shard, func(s *script) { s.batch(40, 60, history.Fail, change("claim", 9)) }, Reach{Fail: 1}},
		"a shard that was taken": {"take-settled", shard, func(s *script) {
			s.op(40, 45, history.OK, history.Event{Proc: "w1.1/q:0", Op: history.OpTake, Key: "shard/q/0"})
		}, Reach{OK: 1}},
		"a job that was enqueued": {"enqueue-settled", shard, func(s *script) {
			s.op(30, 0, "", history.Event{Proc: "w2.1/e1", Op: history.OpEnqueue, Key: "job"})
			s.batch(40, 45, history.OK, change("enqueue", 0))
		}, Reach{NoEnd: 1}},
		"a run that was completed": {"run-start", shard, func(s *script) {
			s.run(45, history.NoteStart, 9)
			s.run(60, history.NoteFinish, 9)
			s.batch(61, 70, history.OK, change("complete", 9))
		}, Reach{OK: 1}},
		"a run that failed": {"effect-done", "w1.1/r1 job", func(s *script) {
			s.run(45, history.NoteStart, 9)
			s.batch(61, 70, history.OK, change("retry", 9))
		}, Reach{Fail: 1}},
		"a run whose end nobody knows": {"run-end", shard, func(s *script) {
			s.run(40, history.NoteStart, 9)
			s.run(45, history.NoteFinish, 9)
			s.batch(61, 70, history.Unknown, change("complete", 9))
		}, Reach{Unknown: 1}},
		"a run whose shard was lost": {"run-begin", shard, func(s *script) {
			s.batch(40, 45, history.OK, change("claim", 9))
			s.lost(60, "w1.1/q:0", "shard/q/0")
		}, Reach{Fail: 1, LeaseLost: 1}},
		"a run that died": {"run-begin", shard, func(s *script) { s.batch(40, 45, history.OK, change("claim", 9)) }, Reach{NoEnd: 1}},
		"a run that had started before": {"run-begin", shard, func(s *script) {
			s.batch(40, 44, history.OK, change("claim", 9))
			s.run(45, history.NoteStart, 9)
		}, Reach{Unrecorded: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript()
			c.tell(s)
			proc, key, _ := strings.Cut(c.who, " ")
			s.arm(50, "pause-worker", c.point, proc, key)
			c.want.Point, c.want.Fault, c.want.Armed, c.want.Reached = c.point, "pause-worker", 1, 1
			reaches(t, s, c.want)
		})
	}
}

func reaches(t *testing.T, s *script, want ...Reach) {
	t.Helper()
	h, err := history.Merge(&s.h)
	must(t, err)
	if got := Reaches(h, h.Operations()); !reflect.DeepEqual(got, want) {
		t.Errorf("reached:\n%+v, want\n%+v", got, want)
	}
}

// A point that was armed and never reached is counted with its arming.
func TestReachesOfNobody(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.arm(50, "kill-worker", "take-answered", "", "")
	s.arm(60, "kill-worker", "take-answered", "", "")
	s.arm(70, "pause-worker", "take-answered", "", "")
	reaches(t, s, Reach{Point: "take-answered", Fault: "kill-worker", Armed: 2}, Reach{Point: "take-answered", Fault: "pause-worker", Armed: 1})
}

// Without arm notes the injections tell what was reached; with one an arming counts once.
func TestReachesByInjection(t *testing.T) {
	t.Parallel()
	s := newScript()
	inject := func(ts int64, id, trigger string) {
		s.note(ts, history.Harness, history.Event{Op: history.NoteFault, Details: &history.Details{Fault: &history.Fault{
			ID: id, Name: "kill-worker", Action: history.ActionInject, Trigger: trigger}}})
	}
	s.op(40, 0, "", history.Event{Proc: "w1.1/c1", Op: history.OpRenew, Key: "a"})
	inject(50, "f2", "w1.1/c1 at point renew-answered of a")
	inject(51, "f3", "at 2s")
	reaches(t, s, Reach{Point: "renew-answered", Fault: "kill-worker", Armed: 1, Reached: 1, NoEnd: 1, Inferred: 1})
	s.arm(49, "kill-worker", "renew-answered", "w1.1/c1", "a") // f1
	inject(50, "f1", "w1.1/c1 at point renew-answered of a")
	reaches(t, s, Reach{Point: "renew-answered", Fault: "kill-worker", Armed: 2, Reached: 2, NoEnd: 2, Inferred: 1})
}

// A point that ends a fault is a row of its own.
func TestReachesOfTheEnd(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.note(50, history.Harness, history.Event{Op: history.NoteArm, Key: "shard/q/0", Details: &history.Details{Point: "look-answered",
		Armed: &history.Armed{Fault: "f1", Name: "pause-worker", Since: 1, Proc: "w2.1/q:0", Ends: true}}})
	reaches(t, s, Reach{Point: "look-answered", Fault: "end of pause-worker", Armed: 1, Reached: 1, Unrecorded: 1})
}
