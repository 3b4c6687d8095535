package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"fencepost/systems/clients"
	"fencepost/systems/drive"
)

// riverQueue is River, a job queue in PostgreSQL. Its leader rescues a job that has been running for longer
// than RescueStuckJobsAfter, which is the run's ttl here; it looks every 30 s, which is not configurable.
type riverQueue struct {
	client *river.Client[pgx.Tx]
	pool   *pgxpool.Pool
}

type riverArgs struct {
	Lock string `json:"lock"`
	N    int64  `json:"n"`
}

func (riverArgs) Kind() string { return "step" }

// InsertOpts: a job is unique by its arguments as long as River keeps it, which is a day after it is completed.
func (riverArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
}

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	run drive.Run
	// inTx completes jobs by a transaction around their run, which goes on whatever its context says; nil: by the
	// return of Work.
	inTx *pgxpool.Pool
}

// Work: ids rise from job to job of a lock, and attempts from run to run of a job.
func (w *riverWorker) Work(ctx context.Context, j *river.Job[riverArgs]) error {
	job := drive.Job{Lock: j.Args.Lock, N: j.Args.N, Token: j.ID*maxAttempts + int64(j.Attempt)}
	if w.inTx == nil {
		return w.run(ctx, job)
	}
	ctx = context.WithoutCancel(ctx)
	return pgx.BeginFunc(ctx, w.inTx, func(tx pgx.Tx) error {
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j); err != nil {
			return err
		}
		return w.run(ctx, job)
	})
}

func setUpRiver(ctx context.Context, at drive.Place) error {
	pool, err := pgPool(ctx, at, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{at.Name}.Sanitize()); err != nil {
		return err
	}
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: at.Name, Logger: riverLog()})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func riverLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func pgPool(ctx context.Context, at drive.Place, slots int) (*pgxpool.Pool, error) {
	conn, err := clients.Postgres(at)
	if err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(conn)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 2*int32(slots) + 4 // a transaction each, and what the library does
	return pgxpool.NewWithConfig(ctx, cfg)
}

func openRiver(ctx context.Context, at drive.Place, slots int, run drive.Run) (drive.Queue, error) {
	return newRiver(ctx, at, slots, run, false)
}

func openRiverTx(ctx context.Context, at drive.Place, slots int, run drive.Run) (drive.Queue, error) {
	return newRiver(ctx, at, slots, run, true)
}

func newRiver(ctx context.Context, at drive.Place, slots int, run drive.Run, inTx bool) (drive.Queue, error) {
	pool, err := pgPool(ctx, at, slots)
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	worker := &riverWorker{run: run}
	if inTx {
		worker.inTx = pool
	}
	river.AddWorker(workers, worker)
	cfg := &river.Config{
		Schema: at.Name, Workers: workers, Logger: riverLog(), MaxAttempts: maxAttempts - 1,
		JobTimeout: at.TTL, RescueStuckJobsAfter: at.TTL, // the least that it takes
	}
	if slots > 0 {
		cfg.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}}
	}
	client, err := river.NewClient(riverpgxv5.New(pool), cfg)
	if err == nil && slots > 0 {
		err = client.Start(context.Background())
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &riverQueue{client, pool}, nil
}

// Put: what is skipped as a duplicate was put before.
func (q *riverQueue) Put(ctx context.Context, j drive.Job) error {
	_, err := q.client.Insert(ctx, riverArgs{j.Lock, j.N}, nil)
	return err
}

func (q *riverQueue) Close(ctx context.Context) error {
	defer q.pool.Close()
	err := q.client.Stop(ctx)
	if errors.Is(err, context.Canceled) {
		err = cmp.Or(ctx.Err(), err)
	}
	return err
}
