package engine

import (
	"errors"
	"fmt"
	"testing"

	"fencepost/core/job"
	"fencepost/core/store"
)

// command gives the machine a command, plans, and returns the lookup that it asks for.
func (r *machineRig) command(kind intentKind, id job.ID) *intent {
	i := &intent{kind: kind, e: &entry{job: job.Job{ID: id}}, note: commands[kind].note, wait: newWaiter()}
	r.m.push(i)
	return i
}

// answers returns what callers were told since the last call, and the lookup asked for.
func (r *machineRig) answers() (told string, l *lookup) {
	for _, x := range r.m.take() {
		var se *StateError
		switch {
		case x.kind == effLookup:
			l = x.lookup
		case x.kind == effCancel:
			told += "interrupt "
		case x.kind != effAck:
		case x.err == nil:
			told += "done "
		case errors.As(x.err, &se):
			told += string(se.State) + " "
		default:
			told += x.err.Error() + " "
		}
	}
	return told, l
}

func (r *machineRig) wantAnswers(want string) *lookup {
	r.t.Helper()
	told, l := r.answers()
	if told != want {
		r.t.Errorf("told %q, want %q", told, want)
	}
	return l
}

// jobRow is what the last batch wrote about a job.
func jobRow(t *testing.T, p *plan, id job.ID) store.Row {
	t.Helper()
	for _, op := range p.batch.Ops {
		if op.Row.Key == jobKey(id) && op.Kind != store.Delete {
			return op.Row
		}
	}
	t.Errorf("nothing is written about %s: %v", id, p.batch.Ops)
	return store.Row{}
}

// rowsOf are the rows of a job in some state, as a lookup would show them.
func (r *machineRig) rowsOf(j job.Job, s job.State, due int64) (state, row *store.Row) {
	state = &store.Row{Key: jobKey(j.ID), State: string(s), Due: due, Place: due, Attempt: 4, Run: 1<<32 | 7}
	kind := store.KindPending
	if s == job.DLQ {
		kind = store.KindDLQ
	}
	return state, &store.Row{Key: store.Key{Kind: kind, At: due, ID: string(j.ID)}, Due: due, Attempt: 4, Run: 1<<32 | 7, Body: r.body(j)}
}

func TestCancelPending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.job(1).ID
	r.enqueue(1, r.now.wall+100)
	r.tick(1)
	r.m.take()
	r.command(doCancel, id)
	p := r.next(1)
	if m := r.m; m.waiting.due(moment{r.now.wall + 1000, r.now.mono + 1000}) != 0 {
		t.Error("it can be claimed while its cancellation is on its way")
	}
	if !r.m.rejected(p, nil) { // as if another enqueue of the batch had been a duplicate
		r.m.undo(p, p.parted())
	}
	if r.m.waiting.due(r.now) != 0 || len(r.m.waiting.dated.list) != 1 {
		t.Error("it does not wait any more though its cancellation did not happen")
	}
	p = r.tick(0)
	if row := jobRow(t, p, id); row.State != string(job.Cancelled) || p.changes()[0].Kind != StepCancel {
		t.Errorf("%+v, %+v", row, p.changes())
	}
	r.wantAnswers("done ")
	if len(r.m.jobs) != 0 || len(r.m.waiting.dated.list)+len(r.m.waiting.resting.list) != 0 {
		t.Error("it is still in memory")
	}
}

func TestCancelRunning(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, result error // before: the result is there before the cancellation
		early          bool
		told           string
		state          job.State
	}{
		"fails":                 {nil, errors.New("x"), false, "done ", job.Cancelled},
		"heeds it":              {nil, job.ErrCancelled, false, "done ", job.Cancelled},
		"is interrupted":        {nil, job.ErrInterrupted, false, "done ", job.Cancelled},
		"succeeds":              {nil, nil, false, "completed ", job.Completed},
		"had failed before":     {errors.New("x"), nil, true, "done ", job.Cancelled},
		"had succeeded before":  {nil, nil, true, "completed ", job.Completed},
		"had cancelled it then": {job.Cancel(nil), nil, true, "cancelled ", job.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *machineConfig) { c.horizon = 1e9 })
			id := r.job(1).ID
			r.enqueue(1, 0)
			r.tick(1)
			r.tick(1)
			r.m.take()
			run := r.m.jobs[id].run
			var p *plan
			if c.early {
				// On its way when the cancellation comes.
				r.m.finished(id, run, c.before, r.now, 0)
				p = r.next(0)
				r.command(doCancel, id)
				r.m.settled(p)
				if q := r.next(0); q != nil {
					p = q
					r.m.settled(p)
				}
				told, l := r.answers()
				if l != nil {
					s, _ := r.rowsOf(r.job(1), c.state, 1)
					r.m.found(id, l, &lookup{state: s}, false)
					r.next(0)
					told, _ = r.answers()
				}
				if told != c.told {
					t.Errorf("told %q, want %q", told, c.told)
				}
			} else {
				r.command(doCancel, id)
				if r.next(0) != nil {
					t.Error("something was planned")
				}
				r.wantAnswers("interrupt ")
				r.m.finished(id, run, c.result, r.now, 0)
				p = r.tick(0)
				r.wantAnswers(c.told)
			}
			if row := jobRow(t, p, id); row.State != string(c.state) {
				t.Errorf("it is %s, want %s", row.State, c.state)
			}
			if len(r.m.parked) != 0 {
				t.Error("somebody still waits")
			}
		})
	}
}

// TestCommandsByTheRows: of jobs that are not in memory.
func TestCommandsByTheRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind  intentKind
		state job.State
		told  string
	}{
		"cancel pending":    {doCancel, job.Pending, "done "},
		"cancel completed":  {doCancel, job.Completed, "completed "},
		"cancel dead":       {doCancel, job.DLQ, "dlq "},
		"cancel unknown":    {doCancel, "", ErrUnknownJob.Error() + " "},
		"redrive dead":      {doRedrive, job.DLQ, "done "},
		"redrive pending":   {doRedrive, job.Pending, "pending "},
		"redrive cancelled": {doRedrive, job.Cancelled, "cancelled "},
		"redrive unknown":   {doRedrive, "", ErrUnknownJob.Error() + " "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			j := r.job(1)
			r.command(c.kind, j.ID)
			r.next(0)
			l := r.wantAnswers("")
			if l == nil {
				t.Fatal("the rows are not asked for")
			}
			state, row := r.rowsOf(j, c.state, r.now.wall+50_000)
			if c.state == "" {
				state, row = nil, nil
			}
			r.m.found(j.ID, l, &lookup{state: state, row: row}, false)
			p := r.next(0)
			if p != nil {
				r.m.settled(p)
			}
			r.wantAnswers(c.told)
			if (p != nil) != (c.told == "done ") || len(r.m.lookups) != 0 {
				t.Errorf("planned %v, lookups %v", p, r.m.lookups)
			}
		})
	}
}

// TestRedriveStartsAnew: attempts from 0, run ids above all earlier ones.
func TestRedriveStartsAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := r.job(1, func(j *job.Job) { j.MaxAttempts = 4 })
	r.command(doRedrive, j.ID)
	r.next(0)
	l := r.wantAnswers("")
	state, row := r.rowsOf(j, job.DLQ, 500)
	r.m.found(j.ID, l, &lookup{state: state, row: row}, false)
	r.command(doRedrive, j.ID) // a second one at the same time
	p := r.tick(0)
	if c := p.changes(); len(c) != 1 || c[0] != (Change{Kind: StepRedrive, Job: j.ID, Due: r.now.wall}) {
		t.Errorf("changes %+v", c)
	}
	if got := jobRow(t, p, j.ID); got.Attempt != 0 || got.Run != row.Run || got.State != string(job.Pending) {
		t.Errorf("the job's row is %+v", got)
	}
	p = r.tick(1)
	r.wantAnswers("done pending ")
	if got := jobRow(t, p, j.ID); got.Attempt != 1 || got.Run <= row.Run {
		t.Errorf("claimed as %+v", got)
	}
	// The body was not kept: the store had refused it.
	j = r.job(2)
	r.command(doRedrive, j.ID)
	r.next(0)
	_, l = r.answers()
	state, row = r.rowsOf(j, job.DLQ, 500)
	row.Body = nil
	r.m.found(j.ID, l, &lookup{state: state, row: row}, false)
	r.next(0)
	if out := r.m.take(); len(out) != 1 || !errors.As(out[0].err, new(*job.InvalidError)) {
		t.Errorf("%+v", out)
	}
}

// TestRowsThatWereReadBeforeAChangeAreVoid: the job has been loaded, run and completed
// since; a cancellation by the old rows would take that back.
func TestRowsThatWereReadBeforeAChangeAreVoid(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before the answer", "after the answer"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *machineConfig) { c.page = 1 })
			j := r.job(1)
			state, row := r.rowsOf(j, job.Pending, r.now.wall)
			row.Attempt = 0
			r.command(doCancel, j.ID)
			r.next(0)
			l := r.wantAnswers("")
			if when == "after the answer" {
				r.m.found(j.ID, l, &lookup{state: state, row: row}, false)
			}
			mine := r.m.queue
			r.m.queue = lines{} // a group of a refused batch, say, is ahead
			if _, ok := r.m.page(r.now); !ok {
				t.Fatal("no page is wanted")
			}
			r.m.loaded([]store.Row{*row}, false, r.now)
			r.tick(1)
			r.m.finished(j.ID, r.m.jobs[j.ID].run, nil, r.now, 0)
			r.tick(0)
			r.m.take()
			r.m.queue = mine
			if when == "before the answer" {
				r.m.found(j.ID, l, &lookup{state: state, row: row}, false)
			}
			if p := r.next(0); p != nil {
				t.Fatalf("planned by rows that were void: %v", p.batch.Ops)
			}
			again := r.wantAnswers("")
			if again == nil || again == l {
				t.Fatal("the rows were not asked for again")
			}
			state.State = string(job.Completed)
			r.m.found(j.ID, again, &lookup{state: state}, false)
			r.next(0)
			r.wantAnswers("completed ")
		})
	}
}

// TestInconclusiveRowsAreReadAgain, and nobody's rows are kept.
func TestInconclusiveRowsAreReadAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := r.job(1)
	i := r.command(doCancel, j.ID)
	for n := range 4 {
		if r.next(0) != nil {
			t.Fatal("something was planned")
		}
		l := r.wantAnswers("")
		if l == nil {
			t.Fatalf("round %d: the rows are not asked for", n)
		}
		state, row := r.rowsOf(j, []job.State{job.Running, job.Pending, job.DLQ, job.Pending}[n], 5)
		if n < 3 {
			row = nil
		}
		r.m.found(j.ID, l, &lookup{state: state, row: row}, n == 3)
	}
	r.next(0)
	_, l := r.answers()
	if !i.wait.goes() {
		t.Error("not dropped")
	}
	r.m.left(i)
	r.m.found(j.ID, l, &lookup{}, false)
	if len(r.m.lookups) != 0 || r.m.queue.len() != 0 {
		t.Error("something is left of a command that nobody waits for")
	}
	// Nor of one whose answer has come.
	i = r.command(doCancel, j.ID)
	r.next(0)
	_, l = r.answers()
	r.m.found(j.ID, l, &lookup{}, false)
	if !i.wait.goes() {
		t.Error("not dropped")
	}
	if r.m.left(i); len(r.m.lookups) != 0 {
		t.Error("what was read for a command is left when nobody waits for that any more")
	}
}

// TestACommandTakesItsJobFromTheInbox, and the job is there before the command is.
func TestACommandTakesItsJobFromTheInbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	j := r.job(1)
	row := &store.InboxRow{ID: string(j.ID), Nonce: "n", Body: r.body(j)}
	r.command(doCancel, j.ID)
	r.next(0)
	l := r.wantAnswers("")
	r.m.found(j.ID, l, &lookup{inbox: row}, false)
	if p := r.next(0); p != nil {
		t.Fatalf("planned %v", p.batch.Ops)
	}
	out := r.m.take()
	if len(out) != 1 || out[0].kind != effCopy || out[0].inbox != row {
		t.Fatalf("consequences %+v", out)
	}
	r.m.enqueue(j, row.Body, r.now, nil, row)
	p := r.tick(0)
	if got := jobRow(t, p, j.ID); got.State != string(job.Pending) || len(p.intents) != 1 {
		t.Errorf("%+v, %d changes", got, len(p.intents))
	}
	p = r.tick(0)
	if got := jobRow(t, p, j.ID); got.State != string(job.Cancelled) {
		t.Errorf("%+v", got)
	}
	r.wantAnswers("done ")
}

// TestCommandsThatTheStoreRefuses: the job stays as it was.
func TestCommandsThatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(1, 0)
	r.tick(0)
	r.m.take()
	r.command(doCancel, r.job(1).ID)
	told := ""
	for n := range 20 {
		p := r.m.next(tickInput{now: r.now, owner: "w", nonce: fmt.Sprint("x", n), beat: true})
		if len(p.intents) > 0 {
			r.m.refused(p, errors.New("no"))
		} else {
			r.m.settled(p)
		}
		more, _ := r.answers()
		told += more
	}
	if told != "no " || r.m.waiting.due(r.now) != 1 {
		t.Errorf("told %q, %d wait", told, r.m.waiting.due(r.now))
	}
}
