package property

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:             "P5",
		title:          "every acknowledged job comes to an end",
		by:             "the replay, the clients' calls, the rows that were left",
		Of:             "jobs",
		run:            checkJobs,
		completeRecord: true,
		count:          (*Judgement).countJobs,
		summary:        summarizeJobs,
		unexercised:    unexercisedJobs,
		rules: []rule{
			{find: (*Inquiry).jobStates},
			{find: (*Inquiry).jobRows},
			{find: (*Inquiry).stuckJobs},
			{find: (*Inquiry).runs},
			{find: (*Inquiry).commands},
			{find: (*Inquiry).pausesInPart},
			{find: (*Inquiry).idsWithoutQueue},
			{find: (*Inquiry).jobsWithoutKey},
			{find: (*Inquiry).keysWithTwoIDs},
			{find: (*Inquiry).sequences},
		},
		mechanisms: []mechanism{
			{id: "attempts-in-memory", Accounts: ofJobs, Statement: "attempts are counted in an owner's memory: the next one begins again"},
			{id: "claim-leaves-row", Accounts: ofJobs,
				Statement: "a claim leaves the job's pending row, and the job is claimed again",
				Apart:     "a row that was left and is that of an earlier change"},
			{id: "dlq-move-lost", Accounts: ofJobs,
				Statement: "a job that moves to the dead letter queue leaves its old place and does not come to the new one"},
			{id: "rows-differ", Accounts: ofJobs, Statement: "rows of jobs are not what the batches that took effect made of them"},
			{id: "rescue-left-out", Statement: "a takeover leaves runs of the owner before alone: their jobs stay running for ever"},
			{id: "end-ahead-of-next", Accounts: ofJobs,
				Statement: "a job of a sequence has ended, and the one that follows it is not in its shard: one batch does not do both"},
			{id: "failure-policy-ignored", Statement: "a sequence continues after the end of a job that ends it, or ends with a failure after which it continues: " +
				"what the job itself says of that is not looked at"},
			{id: "row-behind-the-mark", Statement: "a job's row lies behind the mark from which its owner reads on: it is never seen"},
			{id: "cut-runs-counted",
				Statement: "runs that were cut short or never began count as attempts: a job is given up before it has failed as often " +
					"as it may"},
			{id: "row-not-read", Statement: "an owner cannot read the row of a job that another has written, and gives the job up"},
			{id: "job-never-ends", Statement: "a job that was acknowledged does not finish"},
			{id: "forgotten-too-early", Accounts: ofJobs,
				Statement: "a job's id is forgotten before its time: an enqueue that comes again runs it again"},
			{id: "completed-before-finish", Accounts: ofJobs, Statement: "a job is completed before its run has finished"},
			{id: "tried-too-often", Accounts: ofJobs, Statement: "a job is tried more often than it may be"},
			{id: "acknowledged-and-lost", Accounts: ofJobs, Statement: "an enqueue is acknowledged before the job is where it must be"},
			{id: "command-not-carried-out", Accounts: append([]string{"P12"}, ofJobs...),
				Statement: "a command on a job, or on a schedule, is acknowledged before a batch that carries it out has taken effect"},
			{id: "queue-paused-in-part", Statement: "a pause of a whole queue is acknowledged, and does not reach all of its shards"},
			{id: "id-without-queue",
				Statement: "jobs are told apart without their queues: what is enqueued in one is taken for a job of another"},
			{id: "key-with-two-ids",
				Statement: "the id of a key's job depends on something else than queue and key, such as how many shards there are now: the key has two jobs"},
			{id: "no-key-is-a-key", Statement: "a job without a key is taken for another one that has none"},
			{id: "cut-run-repeated", Statement: "a run that was cut short is followed by another, though its job may run once at most"},
			{id: "run-not-settled", Accounts: ofJobs, Statement: "a run starts before its claim is known to have taken effect"},
			{id: "step-left-out", Accounts: ofJobs, Statement: "a job is completed without one of its effects"},
		},
	})
}

// checkJobs is P5: what was acknowledged is in its shard and finishes.
func checkJobs(_ context.Context, a *Judgement, p *Property) {
	if !a.Jobs.Any() {
		p.Status, p.Detail = StatusNA, "not judged: the lock workload enqueues no jobs"
		return
	}
	report(&a.Jobs, "P5", p)
	open := a.judgeJobs(p)
	a.checkPauses(p)
	a.checkKeys(p)
	a.open = open.n
	p.Detail = "every job by the replay of its shard's batches"
	if a.Jobs.Locked > 0 {
		p.Detail = "every acknowledged job by the row that it has at the end" + lockedText(&a.Jobs)
	}
	p.Detail += a.Jobs.Counts.SequenceText() + a.Jobs.Commands.Text()
	open.describe(p)
}

// judgeJobs judges each job, and returns those that have not finished.
func (a *Judgement) judgeJobs(p *Property) openJobs {
	open := openJobs{drained: a.Drained(), end: a.WallAt(a.EndOfWork()), why: map[string]int{}}
	for _, j := range a.Jobs.List {
		p.Checked++
		if j.Locked() {
			a.checkLockedCalls(j, &open, p)
			checkLockedEnds(j, p)
		} else {
			a.checkCalls(j, p)
		}
		a.checkNext(j, p)
		checkDuplicates(j, p)
		a.checkCommands(j, p)
		a.checkOpen(j, &open, p)
	}
	return open
}

// describe says in P5's detail what became of the jobs that have not finished.
func (open *openJobs) describe(p *Property) {
	if open.later > 0 {
		p.Detail += fmt.Sprintf("; %s due after the end of the run", phrase.Plural(open.later, "job"))
	}
	if open.paused > 0 {
		p.Detail += fmt.Sprintf("; %s in shards that are paused at the end", phrase.Plural(open.paused, "job"))
	}
	if len(open.why) > 0 {
		var texts []string
		for _, why := range slices.Sorted(maps.Keys(open.why)) {
			texts = append(texts, fmt.Sprintf("%s: %s", phrase.Plural(open.why[why], "job"), why))
		}
		p.Detail = "not at an end and not judged: " + strings.Join(texts, "; ")
		p.Status = StatusUnknown // if there is no violation
	}
}

// checkCalls holds what clients were told against what is in the shard.
func (a *Judgement) checkCalls(j *past.Job, p *Property) {
	first, entered := j.Entered()
	applied, possible := 0, false
	for _, o := range j.Calls {
		possible = possible || o.Outcome != history.Fail
		if o.Outcome == history.OK && o.End.Result == past.ResultApplied {
			applied++
		}
	}
	switch l := a.RowOf[j.Shard]; {
	case (j.Schedule != nil || j.After != nil) && len(j.Calls) == 0:
		return // P12, or checkNext
	case len(j.Calls) == 0 && entered > 0:
		p.add(j.ID, past.Events(first), "job %s is in %s, but nobody enqueued it", j.ID, j.Shard)
	case len(j.Calls) == 0:
		return
	case entered > 0 && !possible:
		p.add(j.ID, past.Events(j.Calls[0], first), "the enqueue of job %s was reported as failed (%s), but the job is in %s",
			j.ID, j.Calls[0].End.Error, j.Shard)
	case entered == 0 && l != nil && !l.Complete:
		return // P14
	case applied > entered:
		p.add(j.ID, past.Events(j.Calls...),
			"the enqueue of job %s was acknowledged as applied %s, but its shard %s took it %s: an acknowledged job is lost",
			j.ID, phrase.Times(applied), j.Shard, phrase.Times(entered))
	case entered == 0:
		a.checkInbox(j, p)
	case l == nil || l.Complete:
		a.checkTold(j, p)
	}
}

// checkTold: what a call was told was so by then, also of a job that had been there and was swept.
func (a *Judgement) checkTold(j *past.Job, p *Property) {
	for _, o := range j.Calls {
		switch {
		case o.Outcome != history.OK:
		case o.End.Result == past.ResultApplied && !j.EnteredWithin(o.Invoke.TS, o.End.TS):
			p.add(j.ID, past.Events(o, j.Last()), "the enqueue of job %s was acknowledged as applied, but no batch that can have taken effect during the call takes it",
				j.ID)
		case !j.KeptFrom(o.Invoke.TS) && j.Row(history.RowInbox) == nil && a.RowsRead(j):
			p.add(j.ID, past.Events(o, j.Last()), "the enqueue of job %s was acknowledged (%s) after its id had been forgotten, but neither its shard %s nor the inbox has it: "+
				"an acknowledged job is lost", j.ID, o.End.Result, j.Shard)
		}
	}
}

// checkDuplicates: there must have been something that the call is a duplicate of.
func checkDuplicates(j *past.Job, p *Property) {
	first, _ := j.Entered()
	for _, o := range j.Calls {
		if o.Outcome == history.OK && o.End.Result == past.ResultDuplicate && !enqueuedBefore(j, o, first) {
			p.add(j.ID, past.Events(o, first),
				"the enqueue of job %s was acknowledged as a duplicate, but nothing had been enqueued under its id before", j.ID)
		}
	}
}

// checkInbox: a job that was acknowledged and is in no shard must still be in its inbox.
func (a *Judgement) checkInbox(j *past.Job, p *Property) {
	for _, o := range j.Calls {
		if o.Outcome == history.OK && j.Row(history.RowInbox) == nil && (o.End.Result == past.ResultApplied || a.RowsRead(j)) {
			p.add(j.ID, past.Events(o),
				"the enqueue of job %s was acknowledged (%s), but neither its shard %s nor the inbox has it: an acknowledged job is lost",
				j.ID, o.End.Result, j.Shard)
			return
		}
	}
}

// enqueuedBefore says whether the job can have been enqueued before o was answered: by the
// shard, by another call, or by an earlier copy of this one.
func enqueuedBefore(j *past.Job, o *past.Op, first *past.Op) bool {
	if first != nil && first.Invoke.TS < o.End.TS || len(o.End.Sends) > 1 {
		return true
	}
	return slices.ContainsFunc(j.Calls, func(other *past.Op) bool {
		return other != o && other.Outcome != history.Fail && other.Invoke.TS < o.End.TS
	})
}

// openJobs are the jobs that have not finished.
type openJobs struct {
	drained  history.Span // From 0: the run had no such phase
	end      int64        // of the work, ms since 1970; 0: not known
	n, later int
	stuck    []*past.Job
	paused   int            // that wait in shards which are paused
	why      map[string]int // why they cannot be judged
}

// checkOpen judges a job that has not finished: it may be due later, or the
// run did not wait; else it is stuck.
func (a *Judgement) checkOpen(j *past.Job, open *openJobs, p *Property) {
	l := a.RowOf[j.Shard]
	inbox := j.Row(history.RowInbox)
	state, due := j.Now.Name, j.Now.Due
	switch {
	case past.Ended(state), state == "" && (len(j.Steps) > 0 || inbox == nil && !j.AcknowledgedByInbox()):
		return
	case j.Locked():
		if j.Acknowledged() == nil {
			return // nobody was promised anything
		}
	case l != nil && !l.Complete:
		open.why["the record of its shard is not whole"]++
		return
	case state == "" && inbox == nil && !a.RowsRead(j):
		open.why["it was acknowledged by the inbox, and the rows of its shard were not read"]++
		return
	case state == "" && inbox == nil:
		return // lost
	case state == "":
		state = "in the inbox"
		if due = inbox.JobRow().DueMS; due == 0 && j.Spec != nil {
			due = j.Spec.DueMS
		}
	}
	open.n++
	asked := int64(0) // when it was due first
	switch n := len(j.Steps); {
	case j.Locked():
		asked = j.ScheduledMS()
	case n > 0:
		asked, due = a.dueBy(j, j.Steps[0].Write, j.Steps[0].Change.DueMS), a.dueBy(j, j.Steps[n-1].Write, due)
	}
	resumed, lasts := a.ResumedAt(j)
	if resumed > 0 {
		asked, due = max(asked, a.WallAt(resumed)), max(due, a.WallAt(resumed))
	}
	bound := a.DrainBound()
	switch {
	case lasts && j.Now.Name == past.StatePending:
		open.paused++
	case open.end > 0 && due > open.end:
		open.later++
	case open.drained.From == 0 || bound == 0:
		open.why["the run has no phase in which it waited for its jobs"]++
	case open.end > 0 && a.tooLate(asked, due, open.drained):
		open.why["it was due too shortly before the end"]++
	default:
		open.stuck = append(open.stuck, j)
		events := past.Events(j.Last())
		for _, o := range j.Calls {
			events = append(events, past.Events(o)...)
		}
		p.add(j.ID, append(events, inbox, j.Row(history.RowJob)),
			"job %s is stuck: it is still %s at the end, %s after the last job was enqueued",
			j.ID, stuckAs(j, state), phrase.MS(open.drained.To-open.drained.From))
	}
}

// dueBy is when a job is due according to its owner, on a correct wall clock: an owner's fast
// clock does not excuse a job that is not run. Its scheduled time is by the clock of the worker
// that runs it.
func (a *Judgement) dueBy(j *past.Job, said *past.Write, due int64) int64 {
	inv := said.Main().Invoke
	return max(due-max(a.OffsetAt(history.Life(inv.Proc), inv.TS), 0), j.ScheduledIn(j.Now))
}

// tooLate says whether the run cannot be expected to have ended a job that was first
// due at asked and now is at due. A drain that ended before its time had found
// nothing left; one that lasted gave its whole time to what was due when it began.
func (a *Judgement) tooLate(asked, due int64, drained history.Span) bool {
	bound, end := a.DrainBound(), a.WallAt(drained.To)
	if drained.To-drained.From < bound*1e6 {
		return due > end
	}
	return asked > a.WallAt(drained.From) && due+bound > end
}

func stuckAs(j *past.Job, state string) string {
	if j.Now.Name != "" {
		return j.Now.String()
	}
	return state
}

// replayText says in P2's detail what was done about jobs, "" without jobs.
func replayText(x *past.Jobs) string {
	if !x.Any() {
		return ""
	}
	if x.Locked == len(x.List) {
		return lockedText(x)
	}
	out := fmt.Sprintf("; the lives of %s replayed", phrase.Plural(len(x.List), "job"))
	if n := len(x.Unread); n > 0 {
		return out + fmt.Sprintf(", not compared with the rows of %s, which were not read", strings.Join(x.Unread[:min(n, 3)], ", "))
	}
	return out + " and compared with the rows that were left"
}

// checkNext: a job that was enqueued to follow another exists.
func (a *Judgement) checkNext(j *past.Job, p *Property) {
	if l := a.RowOf[j.Shard]; j.After != nil && l != nil && l.Complete && j.RowMissing(a.Past) {
		p.add(j.ID, append(past.Events(j.Last()), j.Rows...),
			"job %s ended by a batch that took effect, and the job that was to follow it, %s, is not in %s: the rest of its sequence is lost",
			j.After.ID, j.ID, j.Shard)
	}
}

// checkLockedCalls compares the answers about a job that has its own lock with the job's row.
func (a *Judgement) checkLockedCalls(j *past.Job, open *openJobs, p *Property) {
	row, told := j.Row(history.RowJob), j.Acknowledged()
	possible := false
	for _, o := range j.Calls {
		possible = possible || o.Outcome != history.Fail
	}
	switch {
	case row != nil && len(j.Calls) == 0:
		p.add(j.ID, []*history.Event{row}, "job %s has a row, but nobody enqueued it", j.ID)
	case row != nil && !possible:
		p.add(j.ID, append(past.Events(j.Calls[0]), row), "the enqueue of job %s was reported as failed (%s), but the job has a row",
			j.ID, j.Calls[0].End.Error)
	case row == nil && told != nil && !a.RowsRead(j):
		open.why["the rows of the jobs were not read"]++
	case row == nil && told != nil:
		p.add(j.ID, past.Events(told), "the enqueue of job %s was acknowledged (%s), but the job has no row: an acknowledged job is lost",
			j.ID, told.End.Result)
	}
}

// checkLockedEnds holds what was written down about the ends of a job's runs against the
// runs themselves.
func checkLockedEnds(j *past.Job, p *Property) {
	for _, o := range j.Updates {
		c := o.Invoke.Changes()[0]
		finish := j.Finishes[c.Run]
		well := finish != nil && finish.TS <= o.Invoke.TS && finish.Error == ""
		bad := func(format string, args ...any) {
			p.add(j.ID, append(past.Events(o), finish), "job %s: %s "+format, append([]any{j.ID, o.Invoke.Proc}, args...)...)
		}
		switch {
		case o.Outcome == history.Fail:
		case c.Do == history.DoComplete && !j.StartedBy(c.Run, o.Invoke.TS):
			bad("completes it although run %d had not started", c.Run)
		case c.Do == history.DoComplete && (finish == nil || finish.TS > o.Invoke.TS):
			bad("completes it although run %d had not finished", c.Run)
		case c.Do == history.DoComplete && !well:
			bad("completes it although run %d failed: %s", c.Run, finish.Error)
		case c.Do == history.DoDLQ && well:
			bad("gives it up although run %d had finished well", c.Run)
		}
	}
}

// lockedText says in P2's and P5's details what could not be done about jobs that have
// locks of their own, "" if there are none.
func lockedText(x *past.Jobs) string {
	if x.Locked == 0 {
		return ""
	}
	return fmt.Sprintf("; %s with a lock each not replayed: their rows are written by plain writes, which have no order to check",
		phrase.Plural(x.Locked, "job"))
}
