package engine

import (
	"testing"

	"fencepost/core/job"
	"fencepost/core/store"
)

// TestHasten: what waits for its own time, or for its next attempt, runs now, and goes
// on to do so for a later owner.
func TestHasten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dated, loaded bool
		due           int64
	}{
		"its own time":                    {true, true, 20_000},
		"its own time, beyond the window": {true, false, 900_000},
		"its next attempt":                {false, true, 10_500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			j := r.job(1)
			if c.dated {
				j = r.job(1, at(c.due))
			}
			state, row := r.rowsOf(j, job.Pending, c.due)
			row.Wait = 5000
			r.m.page(r.now)
			if c.loaded {
				r.m.window.read = 30_000
				r.m.cfg.horizon = 30_000
				r.m.loaded([]store.Row{*row}, false, r.now)
			}
			r.command(doHasten, j.ID)
			p := r.next(0)
			if !c.loaded {
				r.m.found(j.ID, r.wantAnswers(""), &lookup{state: state, row: row}, false)
				p = r.next(0)
			}
			r.m.undo(p, p.intents)
			if r.m.waiting.due(r.now) != 0 {
				t.Error("it is due though it was not brought forward")
			}
			p = r.tick(0)
			r.wantAnswers("done ")
			got := jobRow(t, p, j.ID)
			if got.State != string(job.Pending) || got.Due != r.now.wall || got.Attempt != 4 || got.Run != 1<<32|7 {
				t.Errorf("%+v", got)
			}
			if c := p.changes()[0]; c.Kind != StepHasten || c.Due != r.now.wall || c.Attempt != 4 || c.Run != 1<<32|7 {
				t.Errorf("told %+v", c)
			}
			later := newRig(t)
			later.now.wall -= 5000 // another owner, whose clock is behind
			for _, op := range p.batch.Ops {
				if op.Kind == store.Put && op.Row.Kind == store.KindPending {
					later.m.page(later.now)
					later.m.loaded([]store.Row{op.Row}, false, later.now)
				}
			}
			for who, m := range map[string]*machine{"its owner": r.m, "a later owner": later.m} {
				if m.waiting.due(map[bool]moment{true: r.now, false: later.now}[m == r.m]) != 1 {
					t.Errorf("it is not due for %s", who)
				}
			}
			if r.m.bytes != len(r.m.jobs[j.ID].body) {
				t.Errorf("%d bytes are counted, its body has %d", r.m.bytes, len(r.m.jobs[j.ID].body))
			}
			r.command(doHasten, j.ID)
			if r.next(0) != nil {
				t.Error("it was brought forward again")
			}
			if e := r.m.take(); len(e) != 1 || !e[0].duplicate {
				t.Errorf("again: %+v", e)
			}
			r.tick(1)
			r.m.take()
			r.command(doHasten, j.ID)
			r.next(0)
			r.wantAnswers("running ")
		})
	}
}

// TestHastenInPlace: a row that lies where it would be put is written once: of a
// deletion and an insertion of one key in a batch the deletion would win.
func TestHastenInPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.m.window.read = 60_000
	r.enqueue(1, 20_000)
	r.tick(0)
	r.m.take()
	r.command(doHasten, r.job(1).ID)
	p := r.tick(1)
	if len(p.batch.Ops) != 2 || p.batch.Ops[1].Row.At != 60_001 || p.batch.Ops[0].Kind == store.Delete || p.batch.Ops[1].Kind == store.Delete {
		t.Errorf("%+v", p.batch.Ops)
	}
}

// TestCommandsOnWhatCannotBeRead: such a job goes to the dead letter queue first.
func TestCommandsOnWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, kind := range []intentKind{doCancel, doHasten} {
		r := newRig(t)
		j := r.job(1)
		r.command(kind, j.ID)
		_, row := r.rowsOf(j, job.Pending, 20_000)
		row.Body = []byte("{")
		r.m.page(r.now)
		r.m.loaded([]store.Row{*row}, false, r.now)
		p := r.tick(0)
		if got := jobRow(t, p, j.ID); got.State != string(job.DLQ) || len(p.intents) != 1 {
			t.Errorf("%+v", got)
		}
		r.next(0)
		state, dead := r.rowsOf(j, job.DLQ, 20_000)
		r.m.found(j.ID, r.wantAnswers(""), &lookup{state: state, row: dead}, false)
		r.next(0)
		r.wantAnswers("dlq ")
	}
}
