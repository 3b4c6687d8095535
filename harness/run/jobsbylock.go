package run

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/fault"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/system/lockperjob"
)

// jobsByLock is a queue of the scheduler with a lock for each job.
type jobsByLock struct{ workers }

// schemaTimeout bounds the making of its tables.
const schemaTimeout = 90 * time.Second

func (r jobsByLock) describe(i *rundir.Info) { r.describeJobs(i) }

func (r jobsByLock) prepare(ctx context.Context, cfg *fleet.Config) error {
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	cfg.Worker.Jobs = r.jobs()
	return queueError(r.plan.Queue, lockperjob.CreateTables(ctx, r.db))
}

func (r jobsByLock) rows() *lockperjob.Rows { return lockperjob.NewRows(r.db, r.plan.Queue) }

// coordinator: jobs have locks all over the ring, so any name will do.
func (r jobsByLock) coordinator(ctx context.Context) (string, error) {
	return r.db.Coordinator(ctx, r.plan.Queue)
}

func (r jobsByLock) finish(ctx context.Context, _ *history.Feed) error { return r.drain(ctx, r.open) }

func (r jobsByLock) proofs() rowProofs { return rowProofs{stamps: r.stamps, stay: r.claim} }

const lockedRunStampsCQL = "SELECT holder, started_ms, WRITETIME(started_ms) AS written FROM lpj_runs"

// stamps are the beginnings of runs.
func (r jobsByLock) stamps(ctx context.Context) ([]fault.Stamp, error) {
	rows, err := r.db.Query(ctx, false, lockedRunStampsCQL)
	if err != nil {
		return nil, err
	}
	var out []fault.Stamp
	for _, row := range rows {
		holder, _ := row["holder"].(string)
		if ms, ok := row["started_ms"].(int64); ok {
			out = append(out, fault.Stamp{Life: history.Life(holder), Wall: time.UnixMilli(ms), Written: written(row)})
		}
	}
	return out, nil
}

const lockedRunCQL = "SELECT state, fence FROM lpj_jobs WHERE id = ?"

func (r jobsByLock) claim(ctx context.Context, key string) (fault.Claim, error) {
	rows, err := r.db.Query(ctx, false, lockedRunCQL, key)
	if err != nil || len(rows) == 0 || rows[0]["state"] != string(job.Running) {
		return fault.Claim{}, err
	}
	run, _ := rows[0]["fence"].(int64)
	return runClaim(run), nil
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
func (r jobsByLock) seal(ctx context.Context) error {
	top, err := lockperjob.TopToken(ctx, r.db)
	if err != nil {
		r.seals.Trouble("jobs", fmt.Errorf("read the counter of tokens: %w", err))
		return nil
	}
	jobs, err := r.noteRows(ctx)
	if err != nil {
		r.seals.Trouble("jobs", fmt.Errorf("read their rows: %w", err))
		return nil
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
			if _, err := r.seals.Lock(ctx, locks, name, next); err != nil {
				r.seals.Trouble("locks", fmt.Errorf("seal %s: %w", name, err))
			}
			r.seals.Resource(ctx, r.sink.client, res, name, top)
			return nil
		})
	}
	return g.Wait() // none has an error
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
		issuer := lockperjob.LockName(r.plan.Queue, id)
		r.note(history.Event{Op: history.NoteRow, Key: string(id), Issuer: issuer, Details: &history.Details{JobRow: &row}})
	}
	for _, j := range jobs {
		note(j.ID, history.JobRow{
			Kind: history.RowJob, State: string(j.State), Attempt: j.Attempt, Run: int64(j.Run), DueMS: j.Due, EndedMS: j.Ended,
		})
	}
	for _, p := range waiting {
		note(p.ID, history.JobRow{Kind: history.RowPending, DueMS: p.Due})
	}
	r.note(history.Event{Op: history.NoteRowsEnd})
	return jobs, nil
}
