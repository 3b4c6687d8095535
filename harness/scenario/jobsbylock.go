package scenario

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/record/history"
	"fencepost/harness/system/lockperjob"
)

// jobsByLock is a queue of the scheduler with a lock for each job.
type jobsByLock struct{ *runner }

// schemaTimeout bounds the making of its tables.
const schemaTimeout = 90 * time.Second

func (r jobsByLock) make(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	return lockperjob.CreateTables(ctx, r.db)
}

func (r jobsByLock) rows() *lockperjob.Rows { return lockperjob.NewRows(r.db, r.plan.Queue) }

// coordinator: jobs have locks all over the ring, so any name will do.
func (r jobsByLock) coordinator(ctx context.Context) (string, error) {
	return r.db.Coordinator(ctx, r.plan.Queue)
}

// open reports whether a job is pending or running, if only by its row.
func (r jobsByLock) open(ctx context.Context) (bool, error) {
	for bucket := range r.plan.Spec.Workload.Shards() {
		waiting, err := r.rows().Pending(ctx, bucket)
		if err != nil || len(waiting) > 0 {
			return true, err
		}
	}
	jobs, err := r.rows().Jobs(ctx)
	if err != nil {
		return true, err
	}
	for _, j := range jobs {
		if !j.State.Ended() {
			return true, nil
		}
	}
	return false, nil
}

// seal writes all rows into the history, and then seals each job's lock and the sink's
// resource of its effects. Tokens do not rise here: the seal's is above all of them.
func (r jobsByLock) seal(ctx context.Context, fenced sink.Sink) {
	top, err := lockperjob.TopToken(ctx, r.db)
	if err != nil {
		r.troubles.add("jobs", fmt.Errorf("read the counter of tokens: %w", err))
		return
	}
	jobs, err := r.noteRows(ctx)
	if err != nil {
		r.troubles.add("jobs", fmt.Errorf("read their rows: %w", err))
		return
	}
	r.progress.at("sealing %d jobs", len(jobs))
	ttl := r.plan.Spec.Workload.TTL.D()
	locks := lockperjob.NewLocks(r.db, ttl)
	next := func(*store.Version) store.Version { return lockperjob.Version("", top, time.UnixMilli(0), ttl) }
	var g errgroup.Group
	g.SetLimit(sealsAtOnce)
	for _, j := range jobs {
		g.Go(func() error {
			name, res := lockperjob.LockName(r.plan.Queue, j.ID), worker.Resource(job.Job{Queue: r.plan.Queue, ID: j.ID})
			if _, err := r.sealLock(ctx, locks, name, next); err != nil {
				r.troubles.add("locks", fmt.Errorf("seal %s: %w", name, err))
			}
			r.sealResource(ctx, fenced, res, name, top)
			return nil
		})
	}
	_ = g.Wait() // none has an error
}

// noteRows writes the rows of all jobs into the history, when all of them are read: the
// absence of one means something.
func (r jobsByLock) noteRows(ctx context.Context) ([]lockperjob.Row, error) {
	jobs, err := r.rows().Jobs(ctx)
	if err != nil {
		return nil, err
	}
	var waiting []lockperjob.Pending
	for bucket := range r.plan.Spec.Workload.Shards() {
		of, err := r.rows().Pending(ctx, bucket)
		if err != nil {
			return nil, err
		}
		waiting = append(waiting, of...)
	}
	note := func(id job.ID, row history.JobRow) {
		r.note(history.Event{Op: history.NoteRow, Key: string(id), Issuer: lockperjob.LockName(r.plan.Queue, id), Details: &history.Details{JobRow: &row}})
	}
	for _, j := range jobs {
		note(j.ID, history.JobRow{Kind: history.RowJob, State: string(j.State), Attempt: j.Attempt, Run: int64(j.Run), DueMS: j.Due, EndedMS: j.Ended})
	}
	for _, p := range waiting {
		note(p.ID, history.JobRow{Kind: history.RowPending, DueMS: p.Due})
	}
	r.note(history.Event{Op: history.NoteRowsEnd})
	return jobs, nil
}
