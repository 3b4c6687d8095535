package checker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:    "P5",
		title: "every acknowledged job comes to an end",
		by:    "the replay, the clients' calls, the rows that were left",
		of:    "jobs",
		run:   checkJobs,
		whole: true,
		count: (*judgement).countJobs,
		tell:  tellJobs,
		blind: blindToJobs,
		rules: []rule{
			{find: (*inquiry).jobStates},
			{find: (*inquiry).jobRows},
			{find: (*inquiry).stuckJobs},
			{find: (*inquiry).runs},
		},
		mechanisms: []mechanism{
			{id: "attempts-in-memory", accounts: ofJobs,
				statement: "attempts are counted in an owner's memory: the next one begins again"},
			{id: "claim-leaves-row", accounts: ofJobs,
				statement: "a claim leaves the job's pending row, and the job is claimed again"},
			{id: "dlq-move-lost", accounts: ofJobs,
				statement: "a job that moves to the dead letter queue leaves its old place and does not come to the new one"},
			{id: "rows-differ", accounts: ofJobs,
				statement: "rows of jobs are not what the batches that took effect made of them"},
			{id: "rescue-left-out", accounts: []string{"P5"},
				statement: "a takeover leaves runs of the owner before alone: their jobs stay running for ever"},
			{id: "end-ahead-of-next", accounts: ofJobs,
				statement: "a job of a sequence has ended, and the one that follows it is not in its shard: one batch does not do both"},
			{id: "row-behind-the-mark", accounts: []string{"P5"},
				statement: "a job's row lies behind the mark from which its owner reads on: it is never seen"},
			{id: "cut-runs-counted", accounts: []string{"P5"},
				statement: "runs that were cut short or never began count as attempts: a job is given up before it has failed as often " +
					"as it may"},
			{id: "row-not-read", accounts: []string{"P5"},
				statement: "an owner cannot read the row of a job that another has written, and gives the job up"},
			{id: "job-never-ends", accounts: []string{"P5"},
				statement: "a job that was acknowledged does not come to an end"},
			{id: "forgotten-too-early", accounts: ofJobs,
				statement: "a job's id is forgotten before its time: an enqueue that comes again runs it again"},
			{id: "completed-before-finish", accounts: ofJobs,
				statement: "a job is completed before its run has finished"},
			{id: "tried-too-often", accounts: ofJobs,
				statement: "a job is tried more often than it may be"},
			{id: "acknowledged-and-lost", accounts: ofJobs,
				statement: "an enqueue is acknowledged before the job is where it must be"},
			{id: "run-not-settled", accounts: ofJobs,
				statement: "a run starts before its claim is known to have taken effect"},
			{id: "step-left-out", accounts: ofJobs,
				statement: "a job is completed without one of its effects"},
		},
	})
}

// checkJobs is P5: what was acknowledged is in its shard and comes to an end.
func checkJobs(_ context.Context, a *judgement, p *Property) {
	if !a.jobs.any() {
		p.Status, p.Detail = StatusNA, "not judged: the lock workload enqueues no jobs"
		return
	}
	a.jobs.report("P5", p)
	open := a.judgeJobs(p)
	a.open = open.n
	p.Detail = "every job by the replay of its shard's batches"
	if a.jobs.locked > 0 {
		p.Detail = "every acknowledged job by the row that it has at the end" + a.jobs.lockedText()
	}
	p.Detail += a.jobs.n.sequenceText()
	open.tell(p)
}

// judgeJobs judges each job, and returns those that have not come to an end.
func (a *judgement) judgeJobs(p *Property) openJobs {
	open := openJobs{drained: a.drained(), end: a.wallAt(a.endOfWork()), why: map[string]int{}}
	for _, j := range a.jobs.list {
		p.Checked++
		if j.locked() {
			a.checkLockedCalls(j, &open, p)
			j.checkLockedEnds(p)
		} else {
			a.checkCalls(j, p)
		}
		a.checkNext(j, p)
		j.checkDuplicates(p)
		a.checkOpen(j, &open, p)
	}
	return open
}

// tell says in P5's detail what became of the jobs that have not come to an end.
func (open *openJobs) tell(p *Property) {
	if open.later > 0 {
		p.Detail += fmt.Sprintf("; %s due after the end of the run", plural(open.later, "job"))
	}
	if open.paused > 0 {
		p.Detail += fmt.Sprintf("; %s in shards that are paused at the end", plural(open.paused, "job"))
	}
	if len(open.why) > 0 {
		var texts []string
		for _, why := range slices.Sorted(maps.Keys(open.why)) {
			texts = append(texts, fmt.Sprintf("%s: %s", plural(open.why[why], "job"), why))
		}
		p.Detail = "not at an end and not judged: " + strings.Join(texts, "; ")
		p.Status = StatusUnknown // if there is no violation
	}
}

// checkCalls holds what clients were told against what is in the shard.
func (a *judgement) checkCalls(j *jobLog, p *Property) {
	first, entered := j.entered()
	applied, possible := 0, false
	for _, o := range j.calls {
		possible = possible || o.outcome != history.Fail
		if o.outcome == history.OK && o.end.Result == resultApplied {
			applied++
		}
	}
	switch l := a.row[j.shard]; {
	case (j.of != nil || j.after != nil) && len(j.calls) == 0:
		return // P12, or checkNext
	case len(j.calls) == 0 && entered > 0:
		p.add(j.id, both(first), "job %s is in %s, but nobody enqueued it", j.id, j.shard)
	case len(j.calls) == 0:
		return
	case entered > 0 && !possible:
		p.add(j.id, both(j.calls[0], first), "the enqueue of job %s was reported as failed (%s), but the job is in %s", j.id, j.calls[0].end.Error, j.shard)
	case entered == 0 && l != nil && !l.whole:
		return // P14
	case applied > entered:
		p.add(j.id, both(j.calls...), "the enqueue of job %s was acknowledged as applied %s, but its shard %s took it %s: an acknowledged job is lost", j.id, times(applied), j.shard, times(entered))
	case entered == 0:
		a.checkInbox(j, p)
	}
}

// checkDuplicates: there must have been something that the call is a duplicate of.
func (j *jobLog) checkDuplicates(p *Property) {
	first, _ := j.entered()
	for _, o := range j.calls {
		if o.outcome == history.OK && o.end.Result == resultDuplicate && !j.before(o, first) {
			p.add(j.id, both(o, first), "the enqueue of job %s was acknowledged as a duplicate, but nothing had been enqueued under its id before", j.id)
		}
	}
}

// entered counts how often the job came into its shard, and gives the first batch.
func (j *jobLog) entered() (first *op, n int) {
	for _, s := range j.steps {
		if s.c.Do == history.DoEnqueue || s.c.Do == history.DoDLQ && s.c.Run == 0 && s.c.Attempt == 0 && n == 0 {
			if n++; n == 1 {
				first = &s.w.main().op
			}
		}
	}
	return first, n
}

// checkInbox: a job that was acknowledged and is in no shard must still be in its inbox.
func (a *judgement) checkInbox(j *jobLog, p *Property) {
	for _, o := range j.calls {
		if o.outcome == history.OK && j.row(history.RowInbox) == nil && (o.end.Result == resultApplied || a.rowsRead(j)) {
			p.add(j.id, both(o), "the enqueue of job %s was acknowledged (%s), but neither its shard %s nor the inbox has it: an acknowledged job is lost", j.id, o.end.Result, j.shard)
			return
		}
	}
}

// before says whether the job can have been enqueued before o was answered: by the
// shard, by another call, or by an earlier copy of this one.
func (j *jobLog) before(o *op, first *op) bool {
	if first != nil && first.inv.TS < o.end.TS || len(o.end.Sends) > 1 {
		return true
	}
	for _, other := range j.calls {
		if other != o && other.outcome != history.Fail && other.inv.TS < o.end.TS {
			return true
		}
	}
	return false
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// openJobs are the jobs that have not come to an end.
type openJobs struct {
	drained  history.Span // From 0: the run had no such phase
	end      int64        // of the work, ms since 1970; 0: not known
	n, later int
	stuck    []*jobLog
	paused   int            // that wait in shards which are paused
	why      map[string]int // why they cannot be judged
}

// checkOpen judges a job that has not come to an end: it may be due later, or the
// run did not wait; else it is stuck.
func (a *judgement) checkOpen(j *jobLog, open *openJobs, p *Property) {
	l := a.row[j.shard]
	inbox := j.row(history.RowInbox)
	state, due := j.now.name, j.now.due
	switch {
	case ended(state), state == "" && (len(j.steps) > 0 || inbox == nil && !j.waits()):
		return
	case j.locked():
		if j.acknowledged() == nil {
			return // nobody was promised anything
		}
	case l != nil && !l.whole:
		open.why["the record of its shard is not whole"]++
		return
	case state == "" && inbox == nil && !a.rowsRead(j):
		open.why["it was acknowledged by the inbox, and the rows of its shard were not read"]++
		return
	case state == "" && inbox == nil:
		return // lost
	case state == "":
		state = "in the inbox"
		if due = inbox.JobRow().DueMS; due == 0 && j.spec != nil {
			due = j.spec.DueMS
		}
	}
	open.n++
	asked := int64(0) // when it was due first
	switch n := len(j.steps); {
	case j.locked():
		asked = j.ownMS()
	case n > 0:
		asked, due = a.dueBy(j, j.steps[0].w, j.steps[0].c.DueMS), a.dueBy(j, j.steps[n-1].w, due)
	}
	resumed, lasts := a.resumedAt(j)
	if resumed > 0 {
		asked, due = max(asked, a.wallAt(resumed)), max(due, a.wallAt(resumed))
	}
	bound := a.drainBound()
	switch {
	case lasts && j.now.name == statePending:
		open.paused++
	case open.end > 0 && due > open.end:
		open.later++
	case open.drained.From == 0 || bound == 0:
		open.why["the run has no phase in which it waited for its jobs"]++
	case open.end > 0 && a.tooLate(asked, due, open.drained):
		open.why["it was due too shortly before the end"]++
	default:
		open.stuck = append(open.stuck, j)
		events := both(j.last())
		for _, o := range j.calls {
			events = append(events, both(o)...)
		}
		p.add(j.id, append(events, inbox, j.row(history.RowJob)), "job %s is stuck: it is still %s at the end, %s after the last job was enqueued", j.id, stuckAs(j, state), ms(open.drained.To-open.drained.From))
	}
}

// dueBy is when a job is due as its owner said, by a right wall clock: that an owner's
// was ahead is no excuse for a job that is not run. Its own time is by the clock of
// whoever runs it.
func (a *judgement) dueBy(j *jobLog, said *write, due int64) int64 {
	inv := said.main().inv
	return max(due-max(a.offsetAt(history.Life(inv.Proc), inv.TS), 0), j.ownIn(j.now))
}

// tooLate says whether the run cannot be expected to have ended a job that was first
// due at asked and now is at due. A drain that ended before its time had found
// nothing left; one that lasted gave its whole time to what was due when it began.
func (a *judgement) tooLate(asked, due int64, drained history.Span) bool {
	bound, end := a.drainBound(), a.wallAt(drained.To)
	if drained.To-drained.From < bound*1e6 {
		return due > end
	}
	return asked > a.wallAt(drained.From) && due+bound > end
}

func stuckAs(j *jobLog, state string) string {
	if j.now.name != "" {
		return j.now.String()
	}
	return state
}

// waits: a client was told that the job is in the inbox.
func (j *jobLog) waits() bool {
	for _, o := range j.calls {
		if o.outcome == history.OK && o.end.Result == resultInbox {
			return true
		}
	}
	return false
}

// drained is the phase in which the run waited for its jobs; it counts if it
// lasted for the bound, or ended before as there was nothing left to wait for.
func (a *past) drained() history.Span {
	phases := a.h.Phases()
	for i, ph := range phases {
		if ph.Name == phaseDrain && (i+1 < len(phases) || ph.To-ph.From >= a.drainBound()*1e6) {
			return ph
		}
	}
	return history.Span{}
}

// drainBound is in ms.
func (a *past) drainBound() int64 {
	bound := int64(0)
	for _, e := range a.expects {
		bound = max(bound, e.Expect().DrainBoundMS)
	}
	return bound
}

// endOfWork is when nothing was run any more.
func (a *past) endOfWork() int64 {
	if t := a.stopped; t != history.Forever {
		return t
	}
	if n := len(a.h.Events); n > 0 {
		return a.h.Events[n-1].TS
	}
	return 0
}

// wallAt dates an instant by a header's pair of clocks: ms since 1970, 0 if no
// header has one.
func (a *past) wallAt(ts int64) int64 {
	for _, name := range []string{history.Harness, ""} {
		for _, head := range a.h.Headers {
			if name != "" && head.Proc != name {
				continue
			}
			if t, err := time.Parse(time.RFC3339Nano, head.WallTime); err == nil && head.TS > 0 {
				return t.UnixMilli() + (ts-head.TS)/1e6
			}
		}
	}
	return 0
}
