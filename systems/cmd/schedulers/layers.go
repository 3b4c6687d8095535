package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/systems/drive"
)

// layer is one of the things that are put on top of each other so that a job's effect happens once. The
// fourth, a unique constraint on the effect's key, is the target's (drive.Scheduler.Keyed).
type layer uint

const (
	// lockLayer: only who has the job's lease runs it.
	lockLayer layer = 1 << iota
	// keyLayer: what is written down as done is not run; it is written down after the run.
	keyLayer
	// ackLayer: a job is acknowledged after its run, and until then hidden from others for a lease. Without it
	// it is acknowledged when it is taken.
	ackLayer

	allLayers = lockLayer | keyLayer | ackLayer
)

// layered is a queue in PostgreSQL with these layers.
type layered struct {
	layers  layer
	pool    *pgxpool.Pool
	schema  string
	ttl     time.Duration
	run     drive.Run
	stop    context.CancelFunc
	workers sync.WaitGroup
}

const layersSchema = `
CREATE SCHEMA %[1]s;
CREATE TABLE %[1]s.jobs (lock text, n bigint, hidden_until timestamptz NOT NULL DEFAULT now(), acknowledged boolean NOT NULL DEFAULT false, PRIMARY KEY (lock, n));
CREATE TABLE %[1]s.leases (job text PRIMARY KEY, holder text NOT NULL, ends timestamptz NOT NULL);
CREATE TABLE %[1]s.done (job text PRIMARY KEY)`

func setUpLayers(ctx context.Context, at drive.Place) error {
	pool, err := pgPool(ctx, at, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, fmt.Sprintf(layersSchema, pgx.Identifier{at.Name}.Sanitize()))
	return err
}

func openLayers(layers layer) func(context.Context, drive.Place, int, drive.Run) (drive.Queue, error) {
	return func(ctx context.Context, at drive.Place, slots int, run drive.Run) (drive.Queue, error) {
		pool, err := pgPool(ctx, at, slots)
		if err != nil {
			return nil, err
		}
		working, stop := context.WithCancel(context.Background())
		l := &layered{layers: layers, pool: pool, schema: pgx.Identifier{at.Name}.Sanitize(), ttl: at.TTL, run: run, stop: stop}
		for i := range slots {
			holder := fmt.Sprintf("%d/%d", os.Getpid(), i)
			l.workers.Go(func() { l.work(working, holder) })
		}
		return l, nil
	}
}

// layersPoll is left between looks for a job when there is none.
const layersPoll = 20 * time.Millisecond

func (l *layered) work(ctx context.Context, holder string) {
	for ctx.Err() == nil {
		took, err := l.next(holder)
		if err != nil {
			fmt.Fprintln(os.Stderr, holder, err)
		}
		if err != nil || !took {
			time.Sleep(layersPoll)
		}
	}
}

// next takes a job and takes it through the layers. What fails is taken again when it is no longer hidden.
func (l *layered) next(holder string) (took bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.ttl)
	defer cancel()
	j := drive.Job{}
	err = l.pool.QueryRow(ctx, `
		UPDATE `+l.schema+`.jobs SET hidden_until = now() + $1, acknowledged = $2 WHERE (lock, n) =
			(SELECT lock, n FROM `+l.schema+`.jobs WHERE NOT acknowledged AND hidden_until <= now() ORDER BY hidden_until LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING lock, n`, l.ttl, l.layers&ackLayer == 0).Scan(&j.Lock, &j.N)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if l.layers&lockLayer != 0 {
		got, err := l.exec(ctx, `INSERT INTO `+l.schema+`.leases AS had VALUES ($1, $2, now() + $3)
			ON CONFLICT (job) DO UPDATE SET holder = $2, ends = now() + $3 WHERE had.ends <= now()`, j.ID(), holder, l.ttl)
		if err != nil || got == 0 {
			return true, err
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_, e := l.exec(ctx, `DELETE FROM `+l.schema+`.leases WHERE job = $1 AND holder = $2`, j.ID(), holder)
			err = errors.Join(err, e)
		}()
	}
	known := false
	if l.layers&keyLayer != 0 {
		if err := l.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+l.schema+`.done WHERE job = $1)`, j.ID()).Scan(&known); err != nil {
			return true, err
		}
	}
	if !known {
		if err := l.run(ctx, j); err != nil {
			return true, err
		}
	}
	if l.layers&keyLayer != 0 {
		if _, err := l.exec(ctx, `INSERT INTO `+l.schema+`.done VALUES ($1) ON CONFLICT DO NOTHING`, j.ID()); err != nil {
			return true, err
		}
	}
	_, err = l.exec(ctx, `UPDATE `+l.schema+`.jobs SET acknowledged = true WHERE lock = $1 AND n = $2`, j.Lock, j.N)
	return true, err
}

func (l *layered) exec(ctx context.Context, sql string, args ...any) (rows int64, err error) {
	tag, err := l.pool.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

func (l *layered) Put(ctx context.Context, j drive.Job) error {
	_, err := l.exec(ctx, `INSERT INTO `+l.schema+`.jobs VALUES ($1, $2) ON CONFLICT DO NOTHING`, j.Lock, j.N)
	return err
}

func (l *layered) Close(context.Context) error {
	l.stop()
	l.workers.Wait()
	l.pool.Close()
	return nil
}
