package checker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// sequenceStory is a history written by hand: job a, then b, then c, on one shard. Its
// owner runs a and b; it is killed, and the next one runs c. Jobs have no effects.
// Times are in ms.
type sequenceStory struct {
	*recurringStory
	states map[string]history.JobRow
	order  []string
	// failing is the job that fails, "" for none; goOn: its sequence goes on. A job with
	// no attempt left ends in the dead letter queue.
	failing string
	goOn    bool
	// gone are jobs whose rows are not there.
	gone []string
	// each changes what the n-th job is asked for with, from 0; nil: nothing.
	each func(n int, j *history.Job)
}

// sequenceStep is what one batch does.
type sequenceStep struct {
	at      int64
	proc    string
	op      history.Op
	changes []history.Change
}

func (y *sequenceStory) step(s sequenceStep) {
	y.batch(s.at, s.proc, s.op, s.changes...)
	for _, c := range s.changes {
		row, known := y.states[c.Job]
		if !known {
			y.order = append(y.order, c.Job)
		}
		switch c.Do {
		case history.DoEnqueue:
			row = history.JobRow{State: past.StatePending, DueMS: c.DueMS}
		case history.DoClaim:
			row.State, row.Run, row.Attempt = past.StateRunning, c.Run, c.Attempt
			y.note(s.at+10, s.proc+"/r1", history.Event{Op: history.NoteStart, Key: c.Job, Issuer: storyShard, Token: c.Run, DecidedAt: (s.at+9)*1e6 + 1e9, Details: &history.Details{Attempt: c.Attempt, DueMS: row.DueMS, WallMS: storyWall(s.at + 9)}})
			err := ""
			if c.Job == y.failing {
				err = past.CancelPrefix + ": no reason given"
			}
			y.note(s.at+20, s.proc+"/r1", history.Event{Op: history.NoteFinish, Key: c.Job, Issuer: storyShard, Token: c.Run, Error: err})
		case history.DoComplete:
			row.State = past.StateCompleted
		case history.DoDLQ:
			row.State = past.StateDLQ
		case history.DoCancel:
			row.State = past.StateCancelled
		case history.DoAbandon:
			row.State = past.StateAbandoned
		case history.DoRescue:
			row.State, row.DueMS = past.StatePending, c.DueMS
		}
		y.states[c.Job] = row
	}
}

func sequenceRun(fence, seq int64) int64 { return fence<<32 | seq }

func enqueued(id, after string, at int64) history.Change {
	return history.Change{Job: id, Do: history.DoEnqueue, DueMS: storyWall(at), After: after}
}

func claimed(id string, run int64) history.Change {
	return history.Change{Job: id, Do: history.DoClaim, Run: run, Attempt: 1}
}

func completed(id string, run int64) history.Change {
	return history.Change{Job: id, Do: history.DoComplete, Run: run, Attempt: 1}
}

// sequenceSteps are the batches of the story, for a test to change.
func sequenceSteps() []sequenceStep {
	one, two, three := sequenceRun(1, 1), sequenceRun(1, 2), sequenceRun(2, 1)
	return []sequenceStep{
		{at: 1, proc: "w1.1", op: history.OpTake},
		{at: 20, proc: "w1.1", op: history.OpTick, changes: []history.Change{enqueued("0-a", "", 20)}},
		{at: 40, proc: "w1.1", op: history.OpTick, changes: []history.Change{claimed("0-a", one)}},
		{at: 80, proc: "w1.1", op: history.OpTick, changes: []history.Change{completed("0-a", one), enqueued("0-b", "0-a", 80)}},
		{at: 100, proc: "w1.1", op: history.OpTick, changes: []history.Change{claimed("0-b", two)}},
		{at: 140, proc: "w1.1", op: history.OpTick, changes: []history.Change{completed("0-b", two), enqueued("0-c", "0-b", 140)}},
		{at: 3500, proc: "w2.1", op: history.OpTake},
		{at: 3520, proc: "w2.1", op: history.OpTick, changes: []history.Change{claimed("0-c", three)}},
		{at: 3560, proc: "w2.1", op: history.OpTick, changes: []history.Change{completed("0-c", three)}},
		{at: 5600, proc: "w2.1", op: history.OpHandOver},
	}
}

func (y *sequenceStory) tell(steps []sequenceStep) *history.History {
	spec := history.Job{Queue: "jobs", Shard: storyShard, Kind: "k", Resource: "job/jobs/", MaxAttempts: 1, GoOn: y.goOn}
	first := spec
	first.Resource, first.Then = "job/jobs/0-a", []history.Job{spec, spec}
	if y.each != nil {
		y.each(0, &first)
		y.each(1, &first.Then[0])
		y.each(2, &first.Then[1])
	}
	y.op(10, 30, "w2.1/e1", history.OK, history.Event{Op: history.OpEnqueue, Key: "0-a", Details: &history.Details{Job: &first}}, history.Event{Result: past.ResultApplied})
	return y.play(steps)
}

// play does the steps, kills w1.1 and ends the run.
func (y *sequenceStory) play(steps []sequenceStep) *history.History {
	for _, s := range steps {
		y.step(s)
	}
	y.note(2500, history.Harness, history.Event{Op: history.NoteCrash, Error: "SIGKILL"})
	y.h.Events[len(y.h.Events)-1].Proc = "w1.1"
	y.note(5700, "w2.1", history.Event{Op: history.NoteExit})
	from, to := y.head, history.Version{Fence: y.head.Fence + 1, Beat: y.head.Beat + 1, Attempt: "seal"}
	y.op(5800, 5810, history.Harness, history.OK, history.Event{Op: history.OpSeal, Key: storyShard, From: &from, To: &to}, history.Event{})
	y.op(5820, 5830, history.Harness, history.OK, history.Event{Op: history.OpRead, Key: storyShard}, history.Event{Row: &to})
	for _, id := range y.order {
		if slices.Contains(y.gone, id) {
			continue
		}
		row := y.states[id]
		place := row
		row.Kind, place.Kind, place.State = history.RowJob, past.RowKindOf(row.State), ""
		for _, r := range []history.JobRow{row, place} {
			y.note(5840, history.Harness, history.Event{Op: history.NoteRow, Key: id, Issuer: storyShard, Details: &history.Details{JobRow: &r}})
		}
	}
	slices.SortStableFunc(y.h.Events, func(a, b history.Event) int { return int(a.TS - b.TS) })
	for i := range y.h.Events {
		y.h.Events[i].File, y.h.Events[i].Line = "tiny.jsonl", i+2
	}
	return y.h
}

func newSequence() *sequenceStory {
	return &sequenceStory{recurringStory: newStory(), states: map[string]history.JobRow{}}
}

// failsAtB: b fails with its last attempt, and c comes or not.
func failsAtB(follow bool) func(y *sequenceStory, s []sequenceStep) []sequenceStep {
	return func(y *sequenceStory, s []sequenceStep) []sequenceStep {
		y.failing = "0-b"
		s[5].changes[0].Do = history.DoDLQ
		if !follow {
			s[5].changes = s[5].changes[:1]
			s = slices.Delete(s, 7, 9)
		}
		return s
	}
}

// cancelsB: b cancels itself, and c comes or not.
func cancelsB(follow bool) func(y *sequenceStory, s []sequenceStep) []sequenceStep {
	return func(y *sequenceStory, s []sequenceStep) []sequenceStep {
		s = failsAtB(follow)(y, s)
		s[5].changes[0].Do = history.DoCancel
		return s
	}
}

// TestSequences: P5 passes a sequence that is right, and says what is wrong with another.
func TestSequences(t *testing.T) {
	t.Parallel()
	type steps = []sequenceStep
	for name, c := range map[string]struct {
		change func(y *sequenceStory, s steps) steps
		says   string // "": all is well
	}{
		"as it should be":                  {func(_ *sequenceStory, s steps) steps { return s }, ""},
		"a failure ends it":                {failsAtB(false), ""},
		"it goes on after a failure":       {func(y *sequenceStory, s steps) steps { y.goOn = true; return failsAtB(true)(y, s) }, ""},
		"it ends, and should go on":        {func(y *sequenceStory, s steps) steps { y.goOn = true; return failsAtB(false)(y, s) }, "ends it as dlq and does not enqueue the job that follows it"},
		"it goes on, and should end":       {failsAtB(true), "its sequence ends there"},
		"nothing follows a cancelled one":  {func(y *sequenceStory, s steps) steps { y.goOn = true; return cancelsB(false)(y, s) }, ""},
		"it goes on after a cancelled one": {func(y *sequenceStory, s steps) steps { y.goOn = true; return cancelsB(true)(y, s) }, "its sequence ends there"},
		"only its last job says go on": {func(y *sequenceStory, s steps) steps {
			y.each = func(n int, j *history.Job) { j.GoOn = n == 2 }
			return failsAtB(true)(y, s)
		}, "its sequence ends there"},
		"only the job that fails says go on": {func(y *sequenceStory, s steps) steps {
			y.each = func(n int, j *history.Job) { j.GoOn = n == 1 }
			return failsAtB(true)(y, s)
		}, ""},
		"the next one is left out": {func(_ *sequenceStory, s steps) steps { s[5].changes = s[5].changes[:1]; return slices.Delete(s, 7, 9) }, "ends it as completed and does not enqueue"},
		"the next one never came":  {func(y *sequenceStory, s steps) steps { y.gone = []string{"0-c"}; return s }, "the job that was to follow it, 0-c, is not in"},
		"the next one comes too soon": {func(_ *sequenceStory, s steps) steps {
			s[4].changes = append(s[4].changes, s[5].changes[1])
			s[5].changes = s[5].changes[:1]
			return s
		}, "which does not end by that batch"},
		"the next one comes too late": {func(_ *sequenceStory, s steps) steps {
			late := sequenceStep{at: 200, proc: "w1.1", op: history.OpTick, changes: s[5].changes[1:]}
			s[5].changes = s[5].changes[:1]
			return slices.Insert(s, 6, late)
		}, "which does not end by that batch"},
		"two of them": {func(_ *sequenceStory, s steps) steps {
			s[5].changes = append(s[5].changes, enqueued("0-d", "0-b", 140))
			return s
		}, "which job 0-c follows already"},
		"one too many": {func(_ *sequenceStory, s steps) steps {
			s[8].changes = append(s[8].changes, enqueued("0-d", "0-c", 3560))
			return s
		}, "which nothing follows"},
		"after a job of nobody": {func(_ *sequenceStory, s steps) steps {
			s[8].changes = append(s[8].changes, enqueued("0-d", "0-x", 3560))
			return s
		}, "which nothing follows"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newSequence()
			h := y.tell(c.change(y, sequenceSteps()))
			r := Check(context.Background(), h, Options{})
			p := propertyOf(r, "P5")
			said := c.says == ""
			for _, v := range p.Violations {
				said = said || strings.Contains(v.Message, c.says)
			}
			if !said || (p.Status == StatusFail) != (c.says != "") {
				t.Errorf("P5 is %s, want it to say %q: %s %+v", p.Status, c.says, p.Detail, p.Violations)
			}
			if c.says == "" && len(failing(r)) > 0 {
				t.Errorf("%v fail: %s", failing(r), r.Summary)
			}
		})
	}
}

// TestSequenceCounts: what was seen of sequences is counted, and a point of the run.
func TestSequenceCounts(t *testing.T) {
	t.Parallel()
	y := newSequence()
	r := Check(context.Background(), y.tell(failsAtB(false)(y, sequenceSteps())), Options{})
	if n := r.Counts.Jobs; n.Followed != 1 || n.Stopped != 1 || r.Counts.Points["follow"] != 1 || r.Counts.Points["stop"] != 1 {
		t.Errorf("%+v, %v", n, r.Counts.Points)
	}
	if d := propertyOf(r, "P5").Detail; !strings.Contains(d, "1 job that follows another, 1 sequence that ended") {
		t.Error(d)
	}
}

// TestFailurePolicyIgnoredIsExplained: a sequence continues after a failure that ends it, or the reverse.
func TestFailurePolicyIgnoredIsExplained(t *testing.T) {
	t.Parallel()
	for _, goOn := range []bool{false, true} {
		y := newSequence()
		y.goOn = goOn
		h := y.tell(failsAtB(!goOn)(y, sequenceSteps()))
		r := Check(context.Background(), h, Options{})
		e := Explain(h, r, Options{})
		if r.Verdict != Fail || !slices.Contains(e.Best(), "failure-policy-ignored") {
			t.Errorf("go on %t, %s: %v", goOn, r.Verdict, e.Best())
		}
		checkChains(t, h, e)
	}
}

// TestEndAheadOfNextIsExplained: a job has ended, and the next of its sequence is not there.
func TestEndAheadOfNextIsExplained(t *testing.T) {
	t.Parallel()
	y := newSequence()
	y.gone = []string{"0-c"}
	h := y.tell(slices.Delete(sequenceSteps(), 7, 9))
	r := Check(context.Background(), h, Options{})
	e := Explain(h, r, Options{})
	if r.Verdict != Fail || !slices.Contains(e.Best(), "end-ahead-of-next") {
		t.Errorf("%s: %v", r.Verdict, fmt.Sprint(e.Best()))
	}
	checkChains(t, h, e)
}
