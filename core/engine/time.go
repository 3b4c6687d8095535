package engine

import (
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// moment is one reading of an owner's two clocks, in ms. The wall clock (since 1970)
// may be wrong, and may be set while it is read; the monotonic one means nothing to
// anybody else.
type moment struct{ wall, mono int64 }

// timing says when a pending job may run: when its wait is over by the monotonic
// clock and its own time has come by the wall clock.
type timing struct {
	// due is both by the wall clock, as the rows and the run show it.
	due int64
	// wait is what was to be waited for, in ms, from when it was written.
	wait int64
	// ripe is when that is over, by the monotonic clock.
	ripe int64
	// own is the job's own time, 0 if it has none or it has come: what was due stays
	// due when the clock is set back.
	own int64
}

// after is the timing of a job that has to wait from now on.
func (now moment) after(wait, own int64) timing {
	t := timing{due: max(now.wall+wait, own), wait: wait, ripe: now.mono, own: own}
	if wait > 0 {
		t.ripe += wait + 1 // both readings are cut to the ms
	}
	return t
}

// asked is the timing of a job that is enqueued now.
func (now moment) asked(own int64) timing {
	t := now.after(0, own)
	if own > 0 {
		t.due = own // long ago, maybe
	}
	return t
}

// within reports whether the job may run within so many ms.
func (t timing) within(now moment, ms int64) bool {
	return t.ripe <= now.mono+ms && (t.own == 0 || t.own <= now.wall+ms)
}

// ownTime is the instant for which a job was asked, in ms since 1970, rounded up so
// that it is never early; 0: it was asked for at once.
func ownTime(j job.Job) int64 {
	if j.Due.IsZero() {
		return 0
	}
	return max(j.Due.Add(time.Millisecond-1).UnixMilli(), 0)
}

// reckoning is what an owner knows of the clocks by which rows were written before
// it began: when the shard was taken over, or when the owner's own wall clock was set
// back.
type reckoning struct {
	at moment
	// lead is how far the wall clock of some owner was ahead of this one, in ms.
	lead int64
	// before: rows with a lower run id were written before it, but for the failures of
	// runs that were at work then: of these, failed has the latest run by job.
	before job.RunID
	failed map[job.ID]job.RunID
	// offset is the highest wall less mono since.
	offset int64
}

// setBack is by how much, in ms, a wall clock must have been set back to begin a new
// reckoning. What is less may delay a retry that is not in memory by as much.
const setBack = 1000

// see looks whether the wall clock was set back.
func (m *machine) see(now moment) {
	offset := now.wall - now.mono
	if m.past.offset-offset > setBack {
		m.reckon(now, job.NewRunID(m.head.Fence, m.seq+1))
	}
	m.past.offset = max(m.past.offset, offset)
}

func (m *machine) reckon(now moment, before job.RunID) {
	m.past = reckoning{at: now, lead: max(m.head.Wall-now.wall, 0), before: before, offset: now.wall - now.mono}
}

// fails notes that a run fails now: the wait that follows it is counted from here, and not
// from a reckoning before.
func (r *reckoning) fails(id job.ID, run job.RunID) {
	if run >= r.before {
		return
	}
	if r.failed == nil {
		r.failed = map[job.ID]job.RunID{}
	}
	r.failed[id] = run
}

func (r *reckoning) failedSince(id job.ID, run job.RunID) bool {
	failed, ok := r.failed[id]
	return ok && failed == run
}

// resumed is the timing of a pending row. Its due time is by the clock of its
// writer, which may be wrong: a job that was due at once is due now, a retry after
// its wait at the latest, counted from the reckoning. A job with a scheduled time
// keeps that, by this owner's clock.
func (m *machine) resumed(row store.Row, j job.Job, now moment) timing {
	left := row.Due - now.wall
	if run := job.RunID(row.Run); run < m.past.before && !m.past.failedSince(j.ID, run) {
		left = min(left, m.past.at.mono+row.Wait-now.mono)
	}
	left = max(left, 0)
	own := ownTime(j)
	return timing{due: max(min(row.Due, now.wall+left), own), wait: row.Wait, ripe: now.mono + left, own: own}
}
