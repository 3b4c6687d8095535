package checker

import (
	"fmt"

	"fencepost/harness/record/history"
)

// Where each job has a lock of its own there is no shard whose batches could be
// replayed: a job's rows are written by plain writes, which have no order of their own.
// Its lock is a fenced row like any other, its runs show the lock's tokens, and what
// became of it is what its row says when everybody has ended. What was written down
// meanwhile (update) is counted, and shown with violations.

// locked says whether the job has a lock of its own.
func (j *jobLog) locked() bool { return !isShard(j.shard) }

// update files a change of a job's row.
func (x *jobs) update(o *op) {
	j := x.of(o.inv.Key, o.inv.Changes()[0].Job)
	j.updates = append(j.updates, o)
}

// settle takes the state of a job with a lock of its own from its row.
func (x *jobs) settle(j *jobLog) {
	n := &x.n
	for _, o := range j.updates {
		if o.outcome != history.OK {
			continue
		}
		switch o.inv.Changes()[0].Do {
		case history.DoClaim:
			n.Claimed++
		case history.DoComplete:
			n.Completed++
		case history.DoRetry:
			n.Retried++
		case history.DoDLQ:
			n.DLQ++
		case history.DoCancel:
			n.Cancelled++
		}
	}
	e := j.row(history.RowJob)
	if e == nil {
		return
	}
	n.Enqueued++
	j.now = jobState{name: e.JobRow().State, attempt: e.JobRow().Attempt, run: e.JobRow().Run, due: e.JobRow().DueMS}
	if ended(j.now.name) {
		j.end = j.now.name
	}
}

// acknowledged is an enqueue that was, or nil.
func (j *jobLog) acknowledged() *op {
	for _, o := range j.calls {
		if o.outcome == history.OK {
			return o
		}
	}
	return nil
}

// checkLockedCalls holds what clients were told of a job with a lock of its own against
// its row.
func (a *past) checkLockedCalls(j *jobLog, open *openJobs, p *Property) {
	row, told := j.row(history.RowJob), j.acknowledged()
	possible := false
	for _, o := range j.calls {
		possible = possible || o.outcome != history.Fail
	}
	switch {
	case row != nil && len(j.calls) == 0:
		p.add(j.id, []*history.Event{row}, "job %s has a row, but nobody enqueued it", j.id)
	case row != nil && !possible:
		p.add(j.id, append(both(j.calls[0]), row), "the enqueue of job %s was reported as failed (%s), but the job has a row", j.id, j.calls[0].end.Error)
	case row == nil && told != nil && !a.rowsRead(j):
		open.why["the rows of the jobs were not read"]++
	case row == nil && told != nil:
		p.add(j.id, both(told), "the enqueue of job %s was acknowledged (%s), but the job has no row: an acknowledged job is lost", j.id, told.end.Result)
	}
}

// checkLockedEnds holds what was written down about the ends of a job's runs against the
// runs themselves.
func (j *jobLog) checkLockedEnds(p *Property) {
	for _, o := range j.updates {
		c := o.inv.Changes()[0]
		finish := j.finishes[c.Run]
		well := finish != nil && finish.TS <= o.inv.TS && finish.Error == ""
		bad := func(format string, args ...any) {
			p.add(j.id, append(both(o), finish), "job %s: %s "+format, append([]any{j.id, o.inv.Proc}, args...)...)
		}
		switch {
		case o.outcome == history.Fail:
		case c.Do == history.DoComplete && !j.startedBy(c.Run, o.inv.TS):
			bad("completes it although run %d had not started", c.Run)
		case c.Do == history.DoComplete && (finish == nil || finish.TS > o.inv.TS):
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
func (x *jobs) lockedText() string {
	if x.locked == 0 {
		return ""
	}
	return fmt.Sprintf("; %s with a lock each not replayed: their rows are written by plain writes, which have no order to check", plural(x.locked, "job"))
}
