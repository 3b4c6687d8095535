package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"fencepost/systems/drive"
)

const (
	// gocronEvery is the period of each chain. Its jobs are due at the period's multiples, in all processes.
	gocronEvery = 150 * time.Millisecond
	// gocronLeast is for how long the lock by a job's name is kept at least: gocron leaves it to the Locker to deal
	// with processes that are not there at the same time.
	gocronLeast = gocronEvery * 3 / 4
	// gocronKept is for how long the lock of an occurrence is kept: longer than any process is late.
	gocronKept = time.Hour
	// gocronStop is less than drive waits for Close.
	gocronStop = 18 * time.Second
)

// gocronQueue is gocron, a scheduler of recurring jobs that has the same schedule in each process. A Locker
// decides which of them runs an occurrence.
type gocronQueue struct {
	scheduler gocron.Scheduler // nil: it runs none
	db        *redis.Client
}

// openGocron: of each lock of the run there is one job that recurs. byTime: see take.
func openGocron(byTime bool) func(context.Context, drive.Place, int, drive.Run) (drive.Queue, error) {
	return func(ctx context.Context, at drive.Place, slots int, run drive.Run) (drive.Queue, error) {
		db := redis.NewClient(&redis.Options{Addr: at.Nodes[0]})
		q := &gocronQueue{db: db}
		err := db.Ping(ctx).Err()
		if err == nil && slots > 0 {
			err = q.start(at, byTime, run)
		}
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return q, nil
	}
}

func (q *gocronQueue) start(at drive.Place, byTime bool, run drive.Run) (err error) {
	if q.scheduler, err = gocron.NewScheduler(gocron.WithStopTimeout(gocronStop)); err != nil {
		return err
	}
	begin := gocron.WithStartDateTimePast(time.Now().Truncate(gocronEvery))
	locks := redislock.New(q.db)
	for _, lock := range at.Locks {
		r := &recurring{lock: lock, key: at.Name + "/" + lock, ttl: at.TTL, byTime: byTime, locks: locks}
		r.job, err = q.scheduler.NewJob(gocron.DurationJob(gocronEvery), gocron.NewTask(func() error { return r.do(run) }),
			gocron.WithName(lock), gocron.WithStartAt(begin), gocron.WithDistributedJobLocker(r),
			gocron.WithEventListeners(gocron.AfterJobRunsWithError(logGocron)))
		if err != nil {
			return errors.Join(err, q.scheduler.Shutdown())
		}
	}
	q.scheduler.Start()
	return nil
}

func logGocron(_ uuid.UUID, name string, err error) {
	slog.New(slog.NewTextHandler(os.Stderr, nil)).Warn("a run failed", "job", name, "error", err)
}

// Put: nothing is put, as jobs recur.
func (q *gocronQueue) Put(context.Context, drive.Job) error { return nil }

func (q *gocronQueue) Close(ctx context.Context) error {
	var err error
	if q.scheduler != nil {
		err = q.scheduler.ShutdownWithContext(ctx)
	}
	return errors.Join(err, q.db.Close())
}

// recurring is the job of a lock, and the Locker that it has in each process.
type recurring struct {
	lock, key string
	ttl       time.Duration
	byTime    bool
	locks     *redislock.Client
	job       gocron.Job
	turn      atomic.Pointer[turn] // of the last lock
}

// turn is an occurrence that this process may run until its lock's lease is over.
type turn struct {
	n     int64
	until time.Time
}

var errNoTime = errors.New("gocron does not know which occurrence it runs")

// occurrence is the number of the one that is about to run, by its nominal time. As long as its lock is asked
// for, gocron has not rescheduled the job, and its next run is this one.
func (r *recurring) occurrence() (int64, error) {
	due, err := r.job.NextRun()
	if err == nil && due.IsZero() { // this process stood still as it rescheduled the job
		err = errNoTime
	}
	return due.UnixNano() / int64(gocronEvery), err
}

// Lock takes the job's lock for the occurrence, without waiting. gocron skips the occurrence if that fails, and
// calls Unlock when the run is over.
func (r *recurring) Lock(ctx context.Context, _ string) (gocron.Lock, error) {
	n, err := r.occurrence()
	if err != nil {
		return nil, err
	}
	return r.take(ctx, n)
}

// take takes the lock by the job's name, which is what gocron asks for. A lock by time is beside it: of the
// occurrence, and nobody gives it back.
func (r *recurring) take(ctx context.Context, n int64) (gocron.Lock, error) {
	if r.byTime {
		if _, err := r.locks.Obtain(ctx, fmt.Sprintf("%s@%d", r.key, n), gocronKept, nil); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	held, err := r.locks.Obtain(ctx, r.key, r.ttl, nil)
	if err != nil {
		return nil, err
	}
	r.turn.Store(&turn{n, began.Add(r.ttl)})
	if r.byTime {
		return gocronLock{held, began}, nil
	}
	return gocronLock{held, began.Add(gocronLeast)}, nil
}

// gocronLock is a lock that is held. The context that gocron gives back locks with ends with a shutdown.
type gocronLock struct {
	*redislock.Lock
	least time.Time // it is kept until then
}

func (l gocronLock) Unlock(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if rest := time.Until(l.least); rest > time.Millisecond {
		return l.Refresh(ctx, rest, nil)
	}
	return l.Release(ctx)
}

func (r *recurring) do(run drive.Run) error {
	t := r.turn.Load()
	ctx, cancel := context.WithDeadline(context.Background(), t.until)
	defer cancel()
	return run(ctx, drive.Job{Lock: r.lock, N: t.n})
}
