package engine

import (
	"errors"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

const minutes = int64(60_000)

// waitingRow is a pending row that an earlier owner wrote, whose wall clock was ahead
// of the rig's by so much.
func waitingRow(r *machineRig, n int, ahead, wait int64, own int64) store.Row {
	j := r.job(n, at(own))
	due := max(r.now.wall+ahead+wait, own)
	row := store.Row{Key: store.Key{Kind: store.KindPending, At: due, ID: string(j.ID)}, Due: due, Wait: wait, Body: r.body(j)}
	if wait > 0 {
		row.Attempt, row.Run = 1, int64(job.NewRunID(2, uint32(n)))
	}
	return row
}

// runsAfter lets time pass until the only job is claimed, at most so many ms, by steps.
func (r *machineRig) runsAfter(most, step int64) int64 {
	for passed := int64(0); passed <= most; passed += step {
		if _, ok := r.m.page(r.now); ok {
			r.m.loaded(nil, false, r.now) // nothing else is there
		}
		if p := r.next(1); p != nil && p.slots == 1 {
			return passed
		}
		r.pass(step)
	}
	return -1
}

// TestClocksOfEarlierOwners: what an earlier owner's wall clock said does not decide
// when a job runs under this one; a job's own time does, by this one's clock.
func TestClocksOfEarlierOwners(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ahead, wait, own int64 // own: from now on by the rig's clock, 0 for none
		want             int64
	}{
		"at once, right clock":               {ahead: 0, want: 0},
		"at once, ahead":                     {ahead: 10 * minutes, want: 0},
		"at once, behind":                    {ahead: -10 * minutes, want: 0},
		"a retry, right clock":               {wait: 500, want: 500},
		"a retry, ahead":                     {ahead: 10 * minutes, wait: 500, want: 500},
		"a retry, a little ahead":            {ahead: 20, wait: 500, want: 500},
		"a retry, behind by less than it is": {ahead: -200, wait: 500, want: 300},
		"a retry, behind":                    {ahead: -10 * minutes, wait: 500, want: 0},
		"its own time, right clock":          {own: 700, want: 700},
		"its own time, ahead":                {ahead: 10 * minutes, own: 700, want: 700},
		"its own time, behind":               {ahead: -10 * minutes, own: 700, want: 700},
		"a retry before its own time":        {ahead: 10 * minutes, wait: 100, own: 700, want: 700},
		"a retry after its own time":         {ahead: 10 * minutes, wait: 900, own: 700, want: 900},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.m.head.Wall = r.now.wall + max(c.ahead, 0)
			r.m.reckon(r.now, job.FirstRunID(r.m.head.Fence))
			if c.own > 0 {
				c.own += r.now.wall
			}
			if rg, ok := r.m.page(r.now); !ok || rg.UpTo < 0 {
				t.Fatalf("the first page is %+v, %v", rg, ok)
			}
			row := waitingRow(r, 1, c.ahead, c.wait, c.own)
			r.m.loaded([]store.Row{row}, false, r.now)
			begun := r.now.wall
			if got := r.runsAfter(2000, 10); got < c.want || got > c.want+10 {
				t.Errorf("claimed after %d ms, want %d", got, c.want)
			}
			e := r.m.jobs[r.job(1).ID]
			if e.due > r.now.wall || e.due < c.own || c.ahead >= 0 && e.due < begun && c.wait+c.own > 0 {
				t.Errorf("said to be due at %d, %d ms from the claim", e.due, e.due-r.now.wall)
			}
		})
	}
}

// TestReachesAsFarAsClocksWereAhead: a retry lies where it was due by its owner's
// clock, and must be found in time by another's.
func TestReachesAsFarAsClocksWereAhead(t *testing.T) {
	t.Parallel()
	head := store.Header{Stamp: store.Stamp{Fence: 3}, Read: 5000}
	for name, c := range map[string]struct{ ahead, after, want int64 }{
		"right clocks":       {0, 0, 0},
		"behind":             {-10 * minutes, 0, 0},
		"ahead":              {10 * minutes, 0, 10 * minutes},
		"ahead, later":       {10 * minutes, 50 * minutes, 10 * minutes},
		"ahead, much later":  {10 * minutes, 61 * minutes, 0},
		"clock set back now": {10 * minutes, -1, 11 * minutes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			h := head
			h.Wall = r.now.wall + c.ahead
			r.m = newMachine(r.m.cfg, h, r.now)
			if c.after < 0 {
				r.now.wall -= minutes
				r.m.see(r.now)
			} else {
				r.pass(c.after)
			}
			if got := r.m.reach(r.now) - r.now.wall - r.m.cfg.horizon; got != c.want {
				t.Errorf("reaches %d ms beyond the horizon, want %d", got, c.want)
			}
		})
	}
	r := newRig(t)
	r.m.head.Wall = r.now.wall + 5
	if p := r.m.next(tickInput{now: r.now, beat: true, nonce: "x"}); p.batch.To.Wall != r.now.wall+5 {
		t.Errorf("the header's highest clock fell to %d", p.batch.To.Wall)
	}
	r.pass(6)
	if p := r.m.next(tickInput{now: r.now, beat: true, nonce: "x"}); p.batch.To.Wall != r.now.wall {
		t.Errorf("the header's highest clock is %d, now it is %d", p.batch.To.Wall, r.now.wall)
	}
}

// TestSetBack: what was due stays due when the owner's wall clock is set back, and a
// retry waits as long as it was to; a job's own time is by the new clock.
func TestSetBack(t *testing.T) {
	t.Parallel()
	newOne := func(t *testing.T) *machineRig {
		r := newRig(t, func(c *machineConfig) { c.horizon = 1e9 })
		r.m.page(r.now)
		r.m.loaded(nil, false, r.now)
		return r
	}
	back := func(r *machineRig) {
		r.now.wall -= 10 * minutes
		r.m.see(r.now)
	}
	t.Run("at once, on its way", func(t *testing.T) {
		t.Parallel()
		r := newOne(t)
		r.enqueue(1, 0)
		p := r.next(0)
		back(r)
		r.m.settled(p)
		if got := r.runsAfter(0, 1); got != 0 {
			t.Errorf("claimed after %d ms", got)
		}
	})
	t.Run("its own time had come", func(t *testing.T) {
		t.Parallel()
		r := newOne(t)
		r.enqueue(1, r.now.wall+100)
		r.tick(0)
		r.pass(100)
		r.next(0) // no slot is free
		back(r)
		if got := r.runsAfter(0, 1); got != 0 {
			t.Errorf("claimed after %d ms", got)
		}
	})
	t.Run("its own time had not come", func(t *testing.T) {
		t.Parallel()
		r := newOne(t)
		r.enqueue(1, r.now.wall+100)
		r.tick(0)
		back(r)
		if got := r.runsAfter(11*minutes, 100); got != 10*minutes+100 {
			t.Errorf("claimed after %d ms", got)
		}
	})
	for name, when := range map[string]string{"a retry that waits": "waits", "a retry on its way": "rides", "a run": "runs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newOne(t)
			j := r.job(1, func(j *job.Job) { j.Retry = job.Exponential(time.Second, 2, time.Hour) })
			r.m.enqueue(j, r.body(j), r.now, nil, nil)
			r.tick(1)
			r.tick(1)
			if when == "runs" {
				back(r)
			}
			r.m.finished(j.ID, r.m.jobs[j.ID].run, errors.New("x"), r.now, 0.5)
			p := r.next(0)
			if when == "rides" {
				back(r)
			}
			r.m.settled(p)
			if when == "waits" {
				back(r)
			}
			if got := r.runsAfter(2000, 1); got < 1000 || got > 1001 {
				t.Errorf("claimed after %d ms", got)
			}
		})
	}
	t.Run("a run that fails later, and waits beyond the window", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.m.page(r.now)
		r.m.loaded(nil, false, r.now)
		j := r.job(1, func(j *job.Job) { j.Retry = job.Exponential(5*time.Second, 2, time.Hour) })
		r.m.enqueue(j, r.body(j), r.now, nil, nil)
		r.tick(1)
		r.tick(1)
		r.now.wall -= 2000
		r.m.see(r.now)
		r.pass(3000)
		r.m.finished(j.ID, r.m.jobs[j.ID].run, errors.New("x"), r.now, 0.5)
		p := r.next(0)
		r.m.settled(p)
		row := p.batch.Ops[1].Row
		if r.m.jobs[j.ID] != nil || row.Kind != store.KindPending {
			t.Fatalf("in memory, or not to be found: %+v", row)
		}
		r.pass(4200)
		if rg, ok := r.m.page(r.now); !ok || rg.UpTo < row.At {
			t.Fatalf("a page up to %d is wanted, not %d", row.At, rg.UpTo)
		}
		r.m.loaded([]store.Row{row}, false, r.now)
		if got := r.runsAfter(2000, 1); got < 800 || got > 801 {
			t.Errorf("claimed after another %d ms, want 800", got)
		}
	})
	t.Run("a retry beyond the window", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.m.page(r.now)
		r.m.loaded(nil, false, r.now)
		row := waitingRow(r, 1, 0, 5000, 0)
		row.Run = int64(job.NewRunID(3, 1)) // of this ownership
		r.m.seq = 1
		r.tickBeat()
		back(r)
		rg, ok := r.m.page(r.now)
		if ok && rg.UpTo >= row.At {
			t.Fatalf("a page up to %d is wanted", rg.UpTo)
		}
		r.pass(4200)
		rg, ok = r.m.page(r.now)
		if !ok || rg.UpTo < row.At {
			t.Fatalf("a page up to %d is wanted, not %d", row.At, rg.UpTo)
		}
		r.m.loaded([]store.Row{row}, false, r.now)
		if got := r.runsAfter(2000, 1); got != 800 {
			t.Errorf("claimed after another %d ms", got)
		}
	})
}

// tickBeat settles an empty batch.
func (r *machineRig) tickBeat() {
	r.m.settled(r.m.next(tickInput{now: r.now, beat: true, owner: "w", nonce: "beat"}))
}

// TestRowsAreLeft: rows that are not due soon by this owner's clock do not fill its
// memory, so that what is due behind them is found; they are read when they are due.
func TestRowsAreLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *machineConfig) { c.maxLoaded, c.page = 2, 3 })
	head := r.m.head
	head.Read = r.now.wall + 10*minutes
	head.Wall = head.Read - 1000
	r.m = newMachine(r.m.cfg, head, r.now)
	rg, ok := r.m.page(r.now)
	if !ok || rg.UpTo != head.Read+1 {
		t.Fatalf("the first page is %+v, %v", rg, ok)
	}
	var rows []store.Row
	for n := range 3 {
		rows = append(rows, waitingRow(r, n, 10*minutes, 0, r.now.wall+5*minutes+int64(n)))
		rows[n].At = rows[n].Due // where it was placed before the clock was ahead
	}
	r.m.loaded(rows, false, r.now)
	rg, ok = r.m.page(r.now)
	if !ok || rg.AfterAt != rows[2].At || len(r.m.jobs) != 0 {
		t.Fatalf("the second page is %+v, %v; %d jobs are in memory", rg, ok, len(r.m.jobs))
	}
	atOnce := waitingRow(r, 7, 10*minutes, 0, 0)
	atOnce.At = head.Read + 1
	r.m.loaded([]store.Row{atOnce}, false, r.now)
	if p := r.tick(1); p.slots != 1 || p.batch.To.LowPending != rows[0].At-1 {
		t.Errorf("%d claims, low mark %d", p.slots, p.batch.To.LowPending)
	}
	if _, ok := r.m.page(r.now); ok {
		t.Error("a page is wanted before anything is due")
	}
	r.pass(5*minutes - 400)
	rg, ok = r.m.page(r.now)
	if !ok || rg.AfterAt != rows[0].At-1 {
		t.Fatalf("what was left is read by %+v, %v", rg, ok)
	}
	r.m.loaded(rows, false, r.now)
	r.pass(399)
	if p := r.next(9); p != nil && p.slots > 0 {
		t.Errorf("%d claims before the time", p.slots)
	}
	r.pass(3)
	if p := r.tick(9); p.slots != 3 {
		t.Errorf("%d claims", p.slots)
	}
}

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
			r.m.undo(p, p.parted())
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

// TestAWaitIsNeverShort: both readings of the clock are cut to the ms, so one more has to pass.
func TestAWaitIsNeverShort(t *testing.T) {
	t.Parallel()
	now := moment{wall: 5000, mono: 100}
	for wait, rests := range map[int64]int64{0: 0, 1: 2, 500: 501} {
		w := now.after(wait, 0)
		for passed, over := range map[int64]bool{rests - 1: false, rests: true} {
			then := moment{now.wall + passed, now.mono + passed}
			if got := w.within(then, 0); got != over {
				t.Errorf("a wait of %d ms is over after %d: %v", wait, passed, got)
			}
		}
	}
}
