package workload

import (
	"context"

	"fencepost/core/job"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/system/lockperjob"
)

// lockIssuer is who issues the tokens of a job's runs in a scheduler with a lock for
// each job: that lock.
func lockIssuer(j job.Job) (string, error) { return lockperjob.LockName(j.Queue, j.ID), nil }

// loadJobsByLock are jobs of the workload's own kind on the scheduler with a lock for each job.
func loadJobsByLock(ctx context.Context, p *process) (load, error) {
	w, j := newJobs(p), p.cfg.Jobs
	var err error
	w.scheduler, err = lockperjob.New(lockperjob.Options{
		DB: p.lockDB, Name: p.cfg.Life, Queue: j.Queue, Buckets: j.Shards, TTL: p.cfg.TTL, Slots: j.Slots,
		Clock: p.leases, Wall: p.clock.Wall, Rand: Rand(p.cfg.Seed, p.cfg.Life+"/scheduler"), DrainTimeout: drainTimeout / 2,
		Handlers: map[string]worker.Handler{JobKind: w.handle}, Sink: &laneSink{Sink: p.sink, process: p},
		Observer: &jobLockObserver{
			lockObserver: &lockObserver{ctx: ctx, rec: p.rec, gate: p.gate, lost: func() {}, points: jobLockPoints, answered: jobLockAnswers},
			process:      p, lanes: w.lanes,
		},
		Logger: p.log,
	})
	if err != nil {
		return nil, err
	}
	return w.feedFrom(ctx, lockIssuer, drawEffects), nil
}

// jobLockPoints are those of a job's life: its lock is its claim.
var (
	jobLockPoints  = map[lock.OpKind]control.Point{lock.Acquire: control.ClaimSent}
	jobLockAnswers = map[lock.OpKind]control.Point{lock.Acquire: control.ClaimAnswered}
)

// jobLockObserver records what a scheduler with a lock for each job does, and stops at
// armed points.
type jobLockObserver struct {
	*lockObserver
	*process
	lanes *lanes
}

var _ lockperjob.Observer = (*jobLockObserver)(nil)

var updateNames = map[lockperjob.Do]string{
	lockperjob.DoClaim:    history.DoClaim,
	lockperjob.DoComplete: history.DoComplete,
	lockperjob.DoRetry:    history.DoRetry,
	lockperjob.DoDLQ:      history.DoDLQ,
	lockperjob.DoCancel:   history.DoCancel,
}

// updatePoints are reached before a change is written.
var updatePoints = map[lockperjob.Do]control.Point{
	lockperjob.DoComplete: control.CompleteSent,
	lockperjob.DoRetry:    control.RetrySent,
	lockperjob.DoDLQ:      control.DLQSent,
}

// finishes are the changes that end a run.
func finishes(do lockperjob.Do) bool {
	return do == lockperjob.DoComplete || do == lockperjob.DoRetry || do == lockperjob.DoDLQ
}

// Update implements lockperjob.Observer.
func (o *jobLockObserver) Update(u lockperjob.Update) func(error) {
	e := history.Event{Proc: u.Holder, ID: o.process.rec.NewID(), Type: history.Invoke, Op: history.OpUpdate, Key: u.Lock}
	inv := e
	inv.Details = &history.Details{Changes: []history.Change{
		{Job: string(u.Job), Do: updateNames[u.Do], Run: int64(u.Run), Attempt: u.Attempt, DueMS: u.Due},
	}}
	o.process.rec.Record(inv)
	if p, ok := updatePoints[u.Do]; ok {
		o.reach(p, u.Holder, u.Lock)
	}
	return func(err error) {
		if err == nil && finishes(u.Do) {
			o.reach(control.FinishAnswered, u.Holder, u.Lock)
		}
		e.Type, e.Error = endType(store.OutcomeOf(err)), errText(err)
		o.process.rec.Record(e)
		if err == nil && u.Do == lockperjob.DoComplete {
			o.counts.cycles.Add(1)
			o.reach(control.CompleteSettled, u.Holder, u.Lock)
		}
	}
}

func (o *jobLockObserver) reach(p control.Point, proc, key string) {
	o.process.gate.Reach(o.ctx, p, proc, key)
}

// Step implements lockperjob.Observer.
func (o *jobLockObserver) Step(s lockperjob.Step) {
	k := runKey{s.Lock, s.Run}
	switch s.Kind {
	case lockperjob.StepEnqueue:
		o.reach(control.EnqueueSent, o.cfg.Life, s.Lock)
	case lockperjob.StepEnqueued:
		o.reach(control.EnqueueSettled, o.cfg.Life, s.Lock)
	case lockperjob.StepClaimed:
		o.reach(control.ClaimSettled, s.Holder, s.Lock)
	case lockperjob.StepStart:
		o.reach(control.RunBegin, s.Holder, s.Lock)
		l := o.lanes.enter(k, s.Holder)
		o.look(l)
		o.start(l, k, s.Job, s.Attempt, s.Due)
		o.reach(control.RunStart, s.Holder, s.Lock)
	case lockperjob.StepFinish:
		o.finish(o.lanes, k, s.Job, s.Err)
		o.reach(control.RunEnd, s.Holder, s.Lock)
	}
}
