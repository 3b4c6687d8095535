package checker

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// lockedRun is a history of jobs with a lock each, written by hand. Times are in ms.
type lockedRun struct {
	*tiny
	jobs  map[string]*lockedJob
	order []string // of their enqueues
	// unread: the rows of the jobs are not read at the end.
	unread bool
	// drain is for how long the run waits for its jobs.
	drain int64
}

// lockedJob is what the store has of a job.
type lockedJob struct {
	row    history.JobRow
	lock   history.Version
	ledger []history.LedgerEntry
	gone   bool // its row is not there at the end
	bare   bool // nobody touched its lock
}

const lockedBound = 1000 // of the drain

func newLockedRun() *lockedRun {
	y := &lockedRun{tiny: newTiny("w1.1", "w2.1"), jobs: map[string]*lockedJob{}, drain: lockedBound}
	for i := range y.h.Headers {
		h := &y.h.Headers[i]
		h.WallTime, h.TS = "2025-01-02T03:04:05Z", 1e9
		h.System, h.Promises = "lock-per-job", []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P12", "P13"}
	}
	y.expect(history.Expect{MinCycles: map[string]int{"before": 1}, DrainBoundMS: lockedBound})
	y.note(0, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: "before"}})
	y.witness(history.WitnessStatements, "")
	y.sent("w1", history.Statement{CQL: "SELECT id FROM lpj_jobs WHERE id = ?", Consistency: "QUORUM"})
	// A job without trouble, so that the run has done something.
	y.enqueue(1, "ok", history.OK)
	y.whole(10, "w2.1/r9", "ok", 900, 1)
	return y
}

func lockOf(id string) string { return "lock/q/" + id }

func resOf(id string) string { return "job/q/" + id }

func (y *lockedRun) job(id string) *lockedJob {
	j := y.jobs[id]
	if j == nil {
		j = &lockedJob{row: history.JobRow{Kind: history.RowJob, State: past.StatePending, DueMS: y.wall(0)}, lock: history.Version{Absent: true}}
		y.jobs[id] = j
		y.order = append(y.order, id)
	}
	return j
}

// wall is the wall clock at an instant, ms since 1970.
func (y *lockedRun) wall(at int64) int64 { return 1735787045000 + at }

func (y *lockedRun) enqueue(at int64, id string, outcome history.Type) {
	y.job(id)
	end := history.Event{Result: past.ResultApplied}
	if outcome != history.OK {
		end = history.Event{Error: "timeout"}
	}
	y.op(at, at+2, "w1.1/e1", outcome, history.Event{Op: history.OpEnqueue, Key: id, Details: &history.Details{Job: &history.Job{
		Queue: "q", Shard: lockOf(id), Kind: "k", Resource: resOf(id), Steps: []string{"s1"}, MaxAttempts: 3,
	}}}, end)
}

// change makes one compare-and-set on the job's lock, that is done if outcome is not
// fail.
func (y *lockedRun) change(at int64, proc, id string, op history.Op, outcome history.Type, to history.Version) {
	j := y.job(id)
	from := j.lock
	end := history.Event{Sends: []int64{at*1e6 + 1e9}}
	if outcome == history.Fail {
		end.Row = &from
	}
	inv := history.Event{Op: op, Key: lockOf(id), From: &from, To: &to, Takeover: op == history.OpAcquire && from.Holder != ""}
	if outcome == history.Fail && op != history.OpAcquire {
		other := to // a version that its holder believes in, and that is gone
		other.Beat--
		inv.From = &other
	}
	y.op(at, at+2, proc, outcome, inv, end)
	if outcome == history.OK {
		j.lock = to
	}
}

func (y *lockedRun) acquire(at int64, proc, id string, token int64) {
	y.change(at, proc, id, history.OpAcquire, history.OK, history.Version{Fence: token, Beat: y.wall(at) + tinyTTL, Attempt: strconv.FormatInt(token, 10), Holder: proc, TTLMS: tinyTTL})
}

func (y *lockedRun) renew(at int64, proc, id string, outcome history.Type) {
	to := y.job(id).lock
	to.Beat = y.wall(at) + tinyTTL
	y.change(at, proc, id, history.OpRenew, outcome, to)
}

func (y *lockedRun) release(at int64, proc, id string) {
	to := y.job(id).lock
	to.Holder = ""
	y.change(at, proc, id, history.OpRelease, history.OK, to)
}

// update writes the job's row; outcome "" is a process that died before its end.
func (y *lockedRun) update(at int64, proc, id, do string, token int64, attempt int, outcome history.Type) {
	y.op(at, at+2, proc, outcome, history.Event{Op: history.OpUpdate, Key: lockOf(id), Details: &history.Details{Changes: []history.Change{{Job: id, Do: do, Run: token, Attempt: attempt}}}}, history.Event{})
	r := &y.job(id).row
	r.Run, r.Attempt = token, attempt
	r.State = map[string]string{history.DoClaim: past.StateRunning, history.DoComplete: past.StateCompleted, history.DoRetry: past.StatePending, history.DoDLQ: past.StateDLQ}[do]
}

func (y *lockedRun) start(at int64, proc, id string, token int64, attempt int) {
	y.note(at, proc, history.Event{Op: history.NoteStart, Key: id, Issuer: lockOf(id), Token: token, DecidedAt: at*1e6 + 1e9, Details: &history.Details{Attempt: attempt, DueMS: y.wall(0), WallMS: y.wall(at)}})
}

func (y *lockedRun) finish(at int64, proc, id string, token int64, err string) {
	y.note(at, proc, history.Event{Op: history.NoteFinish, Key: id, Issuer: lockOf(id), Token: token, Error: err})
}

// effect is decided and sent at two instants; the sink takes whatever comes.
func (y *lockedRun) effect(decided, sent int64, proc, id string, token, value int64) {
	j := y.job(id)
	seq := int64(len(j.ledger)) + 1
	seen := token
	for _, e := range j.ledger {
		seen = max(seen, e.Token)
	}
	j.ledger = append(j.ledger, history.LedgerEntry{Seq: seq, Kind: history.LedgerAccept, Issuer: lockOf(id), Token: token, EffectKey: "s1", Value: &value})
	y.op(sent, sent+2, proc, history.OK, history.Event{Op: history.OpEffect, Key: resOf(id), Issuer: lockOf(id), Token: token, EffectKey: "s1", Value: &value, DecidedAt: decided*1e6 + 1e9},
		history.Event{Issuer: lockOf(id), Token: token, EffectKey: "s1", Result: past.ResultApplied, Seen: seen, Seq: seq})
}

// whole is a job's run without trouble, of 60 ms.
func (y *lockedRun) whole(at int64, proc, id string, token int64, attempt int) {
	y.acquire(at, proc, id, token)
	y.update(at+10, proc, id, history.DoClaim, token, attempt, history.OK)
	y.start(at+20, proc, id, token, attempt)
	y.effect(at+30, at+31, proc, id, token, int64(len(y.job(id).ledger))+1)
	y.finish(at+40, proc, id, token, "")
	y.update(at+45, proc, id, history.DoComplete, token, attempt, history.OK)
	y.release(at+50, proc, id)
}

// early is a run that is completed at 30 ms, whatever its effect, sent at an instant.
func (y *lockedRun) early(at int64, proc, id string, sent int64) {
	y.enqueue(at, id, history.OK)
	y.acquire(at+4, proc, id, 8)
	y.update(at+10, proc, id, history.DoClaim, 8, 1, history.OK)
	y.start(at+20, proc, id, 8, 1)
	y.effect(at+21, sent, proc, id, 8, 1)
	y.finish(at+30, proc, id, 8, "")
	y.update(at+30, proc+"b", id, history.DoComplete, 8, 1, history.OK)
	y.release(at+50, proc, id)
}

// done ends the run: it drains, is sealed and read.
func (y *lockedRun) done(at int64) *history.History {
	y.note(at, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: past.PhaseDrain}})
	y.note(at+y.drain, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: past.PhaseSettle}})
	at += y.drain + 10
	const top = 100_000
	for _, id := range y.order {
		j := y.jobs[id]
		if !y.unread && !j.gone {
			row := j.row
			y.note(at, history.Harness, history.Event{Op: history.NoteRow, Key: id, Issuer: lockOf(id), Details: &history.Details{JobRow: &row}})
		}
		if j.bare {
			continue
		}
		y.change(at, history.Harness, id, history.OpSeal, history.OK, history.Version{Fence: top, Attempt: "100000", TTLMS: tinyTTL})
		lock := j.lock
		y.op(at+4, at+6, history.Harness, history.OK, history.Event{Op: history.OpRead, Key: lockOf(id)}, history.Event{Row: &lock})
		seq, value := int64(len(j.ledger))+1, int64(0)
		if n := len(j.ledger); n > 0 {
			value = *j.ledger[n-1].Value
		}
		y.op(at+8, at+9, history.Harness, history.OK, history.Event{Op: history.OpRaise, Key: resOf(id), Issuer: lockOf(id), Token: top}, history.Event{Result: past.ResultApplied, Seen: top, Seq: seq})
		y.op(at+10, at+11, history.Harness, history.OK, history.Event{Op: history.OpGet, Key: resOf(id)}, history.Event{Value: &value, Seen: top, Seq: seq})
		for _, e := range append(j.ledger, history.LedgerEntry{Seq: seq, Kind: history.LedgerRaise, Issuer: lockOf(id), Token: top}) {
			y.note(at+12, history.Harness, history.Event{Op: history.NoteLedger, Key: resOf(id), Details: &history.Details{Ledger: &e}})
		}
	}
	y.row = history.Version{Absent: true} // of the other tests' lock
	h := y.tiny.end(at + 20)
	h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool { return e.Key == "a" })
	return h
}

// TestLockedJobs: each hole of the design with a lock for each job, and beside it what
// is nearly the same and sound.
func TestLockedJobs(t *testing.T) {
	t.Parallel()
	a, b := "w1.1/r1", "w2.1/r1"
	// First runs at a, fails, and runs again at b.
	retried := func(first, second int64) func(*lockedRun) {
		return func(y *lockedRun) {
			y.enqueue(5, "j", history.OK)
			y.acquire(20, a, "j", first)
			y.update(30, a, "j", history.DoClaim, first, 1, history.OK)
			y.start(40, a, "j", first, 1)
			y.finish(50, a, "j", first, "no luck")
			y.update(60, a, "j", history.DoRetry, first, 1, history.OK)
			y.release(70, a, "j")
			y.whole(200, b, "j", second, 2)
		}
	}
	// a's run lasts until its effect at the given instant; its renewals fail from the
	// start or are in time.
	long := func(renewed history.Type, decided int64) func(*lockedRun) {
		return func(y *lockedRun) {
			y.enqueue(5, "j", history.OK)
			y.acquire(20, a, "j", 7)
			y.update(30, a, "j", history.DoClaim, 7, 1, history.OK)
			y.start(40, a, "j", 7, 1)
			for at := int64(350); at < decided-20; at += 330 {
				y.renew(at, a, "j", renewed)
			}
			y.effect(decided, decided+1, a, "j", 7, 1)
			y.finish(decided+10, a, "j", 7, "")
			y.update(decided+20, a, "j", history.DoComplete, 7, 1, history.OK)
			y.release(decided+30, a, "j")
		}
	}
	// a locks and stops; b takes over at the given instant and runs the job; a's effect,
	// decided in time, comes after that.
	late := func(taken, first, second int64, effect bool) func(*lockedRun) {
		return func(y *lockedRun) {
			y.enqueue(5, "j", history.OK)
			y.acquire(20, a, "j", first)
			y.update(30, a, "j", history.DoClaim, first, 1, history.OK)
			y.start(40, a, "j", first, 1)
			y.whole(taken, b, "j", second, 1)
			if effect {
				y.effect(50, taken+200, a, "j", first, 1)
			}
			y.finish(taken+210, a, "j", first, "")
		}
	}
	lost := func(outcome history.Type) func(*lockedRun) {
		return func(y *lockedRun) {
			y.enqueue(5, "j", outcome)
			y.acquire(20, a, "j", 7)
			y.update(30, a, "j", history.DoClaim, 7, 1, history.OK)
			y.start(40, a, "j", 7, 1)
			y.note(50, history.Harness, history.Event{Op: history.NoteCrash})
			y.h.Events[len(y.h.Events)-1].Proc = "w1.1"
		}
	}
	once := func(change func(*lockedRun)) func(*lockedRun) {
		return func(y *lockedRun) {
			y.enqueue(5, "j", history.OK)
			y.whole(100, a, "j", 7, 1)
			change(y)
		}
	}
	for name, c := range map[string]struct {
		do   func(*lockedRun)
		says string
		want []string
	}{
		"a job that runs once":        {once(func(*lockedRun) {}), "", nil},
		"tokens that rise":            {retried(7, 107), "", nil},
		"tokens that fall":            {retried(107, 7), "tokens must rise strictly", []string{"P1"}},
		"a token given twice":         {retried(7, 7), "", []string{"P1", "P5", "P6"}},
		"renewals that fail":          {long(history.Fail, 1500), "after the holder's own deadline", []string{"P7"}},
		"renewals that fail, in time": {long(history.Fail, 900), "", nil},
		"renewals in time":            {long(history.OK, 1500), "", nil},
		"a job lost with its process": {lost(history.OK), "is stuck: it is still running as run 7, attempt 1", []string{"P5"}},
		"the same, not acknowledged":  {lost(history.Unknown), "", nil},
		"a late effect, token above":  {late(1100, 107, 7, true), "was applied 2 times", []string{"P1", "P4"}},
		"a late effect, token below":  {late(1100, 7, 107, true), "the sink accepted token 7", []string{"P3", "P4"}},
		"taken over, no late effect":  {late(1100, 7, 107, false), "", nil},
		"taken over before its time":  {late(500, 7, 107, false), "was entitled until", []string{"P8"}},
		"completed without its effect": {once(func(y *lockedRun) {
			y.enqueue(300, "k", history.OK)
			y.update(310, a, "k", history.DoComplete, 8, 1, history.OK)
		}), "was never applied", []string{"P4", "P5"}},
		"completed before its effect was decided": {once(func(y *lockedRun) { y.early(300, a, "k", 331) }), "before its effect s1", []string{"P4"}},
		"completed while it was decided":          {once(func(y *lockedRun) { y.early(300, a, "k", 329) }), "before its effect s1", []string{"P4"}},
		"completed as it was decided":             {once(func(y *lockedRun) { y.early(300, a, "k", 328) }), "", nil},
		"given up though it finished well": {once(func(y *lockedRun) {
			y.enqueue(300, "k", history.OK)
			y.whole(320, a, "k", 8, 1)
			y.update(400, a, "k", history.DoDLQ, 8, 1, history.OK)
		}), "gives it up although run 8 had finished well", []string{"P5"}},
		"completed though it failed": {once(func(y *lockedRun) {
			y.early(300, a, "k", 325)
			for i := range y.h.Events {
				if e := &y.h.Events[i]; e.Op == history.NoteFinish && e.Key == "k" {
					e.Error = "broken"
				}
			}
		}), "although run 8 failed: broken", []string{"P5"}},
		"acknowledged, no row":        {once(func(y *lockedRun) { y.enqueue(300, "k", history.OK); y.job("k").gone = true }), "the job has no row", []string{"P5"}},
		"not acknowledged, no row":    {once(func(y *lockedRun) { y.enqueue(300, "k", history.Unknown); y.job("k").gone = true }), "", nil},
		"not acknowledged, a row":     {once(func(y *lockedRun) { y.enqueue(300, "k", history.Unknown); y.job("k").bare = true }), "", nil},
		"failed for sure, a row":      {once(func(y *lockedRun) { y.enqueue(300, "k", history.Fail) }), "was reported as failed", []string{"P5"}},
		"a row that nobody asked for": {once(func(y *lockedRun) { y.job("k") }), "nobody enqueued it", []string{"P5"}},
		"rows that were not read":     {once(func(y *lockedRun) { y.unread = true }), "", []string{"P5"}},
		"a job that never ran":        {once(func(y *lockedRun) { y.enqueue(300, "k", history.OK) }), "is still pending", []string{"P5"}},
		"a run that starts early": {func(y *lockedRun) {
			y.enqueue(5, "j", history.OK)
			y.whole(100, a, "j", 7, 1)
			for i := range y.h.Events {
				if e := &y.h.Events[i]; e.Op == history.NoteStart && e.Key == "j" {
					e.OwnDetails().WallMS = e.DueMS() - 1
				}
			}
		}, "started 1 ms before the job was due", []string{"P12"}},
		"due before it was asked for": {func(y *lockedRun) {
			y.enqueue(5, "j", history.OK)
			for i := range y.h.Events {
				if e := &y.h.Events[i]; e.Op == history.OpEnqueue && e.Key == "j" && e.Job() != nil {
					e.Job().DueMS = y.wall(50)
				}
			}
			y.whole(100, a, "j", 7, 1)
		}, "started as due at", []string{"P12"}},
		"a run that is started twice": {once(func(y *lockedRun) { y.start(135, a, "j", 7, 1) }), "was started twice", []string{"P6"}},
		"a run without a lock":        {once(func(y *lockedRun) { y.start(300, b, "j", 8, 2) }), "was never granted", []string{"P6"}},
		"an update without its end":   {once(func(y *lockedRun) { y.update(300, a, "j", history.DoComplete, 7, 1, "") }), "has no end, and the life ended in order", []string{"P14"}},
		"a release when the lock has passed on": {func(y *lockedRun) {
			y.enqueue(5, "j", history.OK)
			y.acquire(20, a, "j", 7)
			old := y.job("j").lock
			y.whole(1100, b, "j", 107, 1)
			free := old
			free.Holder = ""
			y.op(1200, 1202, a, history.OK, history.Event{Op: history.OpRelease, Key: lockOf("j"), From: &old, To: &free}, history.Event{Sends: []int64{2200e6}})
		}, "but the lock had passed to", []string{"P2", "P9"}},
		"a release by somebody else": {func(y *lockedRun) {
			y.enqueue(5, "j", history.OK)
			y.acquire(20, a, "j", 7)
			y.release(30, b, "j")
			y.update(60, a, "j", history.DoDLQ, 7, 1, history.OK)
		}, "released the lease of", []string{"P9"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newLockedRun()
			c.do(y)
			h := y.done(3000)
			r := tinyCheck(t, h, c.says, c.want...)
			if n := r.Counts.Jobs; n == nil || n.Shards != 0 || n.Completed == 0 || r.Counts.Cycles == 0 {
				t.Errorf("counts %+v", n)
			}
			if e := Explain(h, r, Options{}); strings.Contains(c.says, "is stuck") && len(e.Causes) == 0 {
				t.Errorf("not explained: %v", e.Unexplained)
			}
		})
	}
}

// TestLockedJobsUnread: rows that were not read are no rows that are not there.
func TestLockedJobsUnread(t *testing.T) {
	t.Parallel()
	y := newLockedRun()
	y.unread = true
	if r := Check(context.Background(), y.done(3000), Options{}); r.Verdict != Unknown || !strings.Contains(r.Summary, "the rows of the jobs were not read") {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
}

// TestLockedJobsSay: what cannot be checked about such jobs is said, not passed over.
func TestLockedJobsSay(t *testing.T) {
	t.Parallel()
	y := newLockedRun()
	y.fault("f1", "kill-worker", 300, 310, "w1")
	y.enqueue(320, "k", history.OK)
	y.whole(400, "w1.1/r1", "k", 7, 1)
	r := Check(context.Background(), y.done(3000), Options{})
	if r.Verdict != Pass {
		t.Fatal(r.Summary)
	}
	for _, p := range r.Properties {
		switch p.ID {
		case "P10", "P11":
			if p.Status != StatusNA {
				t.Errorf("%s: %s %s", p.ID, p.Status, p.Detail)
			}
		case "P2", "P5":
			if !strings.Contains(p.Detail, "2 jobs with a lock each not replayed") || strings.Contains(p.Detail, "compared with the rows") {
				t.Errorf("%s: %s", p.ID, p.Detail)
			}
		case "P12":
			if p.Checked != 2 || r.Counts.Jobs.Lateness == nil {
				t.Errorf("%s: %d checked", p.ID, p.Checked)
			}
		}
	}
	if text := r.Recovery.Text(); !strings.Contains(text, "orphaned leases not looked for; first completed job within 137 ms of a heal") || strings.Contains(text, "shard") {
		t.Errorf("recovery: %q", text)
	}
	if n := r.Counts; n.Jobs.Enqueued != 2 || n.Jobs.Claimed != 2 || n.Jobs.Completed != 2 || n.Cycles != 2 || n.Locks != 2 {
		t.Errorf("counts %+v", n)
	}
}
