package past

import "fencepost/harness/record/history"

// A system with one lock per job has no shard whose batches could be replayed. A job's rows are
// written by plain writes, which no batch orders. Its lock is a fenced row like any other, and its
// runs show the lock's tokens. The job's row after the run says how it ended. Earlier updates are
// counted, and shown with violations.

// Locked says whether the job has a lock of its own.
func (j *Job) Locked() bool { return !IsShard(j.Shard) }

// update files a change of a job's row.
func (x *Jobs) update(o *Op) {
	j := x.of(o.Invoke.Key, o.Invoke.Changes()[0].Job)
	j.Updates = append(j.Updates, o)
}

// settle takes the state of a job with a lock of its own from its row.
func (x *Jobs) settle(j *Job) {
	n := &x.Counts
	for _, o := range j.Updates {
		if o.Outcome != history.OK {
			continue
		}
		switch o.Invoke.Changes()[0].Do {
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
	e := j.Row(history.RowJob)
	if e == nil {
		return
	}
	n.Enqueued++
	j.Now = JobState{Name: e.JobRow().State, Attempt: e.JobRow().Attempt, Run: e.JobRow().Run, Due: e.JobRow().DueMS}
	if Ended(j.Now.Name) {
		j.EndedAs = j.Now.Name
	}
}

// Acknowledged is an enqueue that was, or nil.
func (j *Job) Acknowledged() *Op {
	for _, o := range j.Calls {
		if o.Outcome == history.OK {
			return o
		}
	}
	return nil
}
