package engine

import (
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// LateJob is a job that was due a while ago by its owner's wall clock, or has waited for a
// while by its monotonic one. The time for which its shard was paused does not count.
type LateJob struct {
	Shard store.ShardID
	Job   job.ID
	Kind  string
	// Key is what its client calls it, or its schedule's occurrence; "" if it has none.
	Key string
	// Attempt is the number of the one that is late, from 1.
	Attempt int
	Due     time.Time
	// By is how late it is, Waiting that it has not been claimed yet: for want of slots,
	// or as nobody owned its shard.
	By      time.Duration
	Waiting bool
}

func lateJob(j job.Job, attempt int, due, by int64, waiting bool) LateJob {
	return LateJob{Job: j.ID, Kind: j.Kind, Key: j.Key, Attempt: attempt, Due: time.UnixMilli(due).UTC(), By: ms(by), Waiting: waiting}
}

// lateWaiting tells of jobs that are due and have waited for too long. They are looked
// at in the order in which they became due, the first one only as long as it is in time:
// it costs next to nothing however many wait. One that was due long before, as its shard
// had no owner, is reported when those that became due before it are late too.
func (m *machine) lateWaiting(now moment) {
	w := &m.waiting
	for w.watched && len(w.ripened) > 0 {
		e, at := w.ripened[0].e, w.ripened[0].at
		if w.waits(w.ripened[0]) {
			by := max(now.wall-e.due-held(m.head.Pause, e.due), now.mono-at) // the wall clock may have been set back
			if by <= m.cfg.lateAfter {
				return
			}
			if !e.toldLate {
				e.toldLate = true
				m.out = append(m.out, effect{kind: effLateJob, lateJob: lateJob(e.job, e.attempt+1, e.due, by, true)})
			}
		}
		w.ripened[0] = ripened{}
		w.ripened = w.ripened[1:]
	}
}

func (w *waiting) isReady(e *entry) bool {
	return e.place < len(w.ready.list) && w.ready.list[e.place] == e
}

// lateStart reports a run that starts late, unless its job was reported while it waited.
func (o *owner) lateStart(i *intent, run job.Run) {
	e := i.e
	told := e.toldLate
	e.toldLate = false // another attempt may be late again
	by := o.moment().wall - run.Due - held(o.m.head.Pause, run.Due)
	if o.e.o.LateJob == nil || told || by <= millis(o.e.o.LateAfter) {
		return
	}
	l := lateJob(run.Job, run.Attempt, run.Due, by, false)
	l.Shard = o.id
	o.e.o.LateJob(l)
}
