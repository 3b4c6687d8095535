package property

import (
	"fmt"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

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
		p.add(j.ID, append(past.Events(j.Calls[0]), row), "the enqueue of job %s was reported as failed (%s), but the job has a row", j.ID, j.Calls[0].End.Error)
	case row == nil && told != nil && !a.RowsRead(j):
		open.why["the rows of the jobs were not read"]++
	case row == nil && told != nil:
		p.add(j.ID, past.Events(told), "the enqueue of job %s was acknowledged (%s), but the job has no row: an acknowledged job is lost", j.ID, told.End.Result)
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
	return fmt.Sprintf("; %s with a lock each not replayed: their rows are written by plain writes, which have no order to check", phrase.Plural(x.Locked, "job"))
}
