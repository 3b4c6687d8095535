package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"fencepost/systems/drive"
)

// controller is a worker of a queue in PostgreSQL whose jobs a controller assigns to workers, by ranges. Each
// process registers with a key in Redis, takes jobs of its ranges under a lease in the database, and stands for
// controller: a lock in Redis makes one of them active.
//
// The controller takes a job from a worker only if both are over, the key and the lease. A worker stops a run by the
// same rule: when both are over by its own count.
type controller struct {
	id string // of this life of the process
	// reclaims: it is given again what it took and did not hear of, as it runs nothing when it asks.
	reclaims bool
	name     string // of the run, in Redis
	schema   string
	// The times of the design: lease 2 min, alive 30 s, beat 10 s. Here they are scaled to the run's ttl, which is
	// the lease: by 1/20 with a ttl of 6 s.
	lease, alive, beat time.Duration
	patience           time.Duration // with a request to the database

	pool  *pgxpool.Pool
	redis *redis.Client
	run   drive.Run
	began time.Time
	until atomic.Int64 // when this worker's key is over, since began

	stop    context.CancelFunc
	workers sync.WaitGroup
}

// controllerRanges is how many ranges of jobs there are.
const controllerRanges = 16

const controllerSchema = `
CREATE SCHEMA %[1]s;
CREATE TABLE %[1]s.jobs (lock text, n bigint, range int NOT NULL, worker text, lease_until timestamptz, attempt bigint NOT NULL DEFAULT 0,
	done boolean NOT NULL DEFAULT false, PRIMARY KEY (lock, n));
CREATE INDEX ON %[1]s.jobs (range) WHERE NOT done;
CREATE TABLE %[1]s.ranges (range int PRIMARY KEY, worker text);
INSERT INTO %[1]s.ranges SELECT generate_series(0, %[2]d - 1)`

// controllerPlaces are the servers of redis-postgres.
func controllerPlaces(at drive.Place) (redisAddr string, database drive.Place) {
	redisAddr, at.Nodes = at.Nodes[0], at.Nodes[1:]
	return redisAddr, at
}

func setUpController(ctx context.Context, at drive.Place) error {
	_, database := controllerPlaces(at)
	pool, err := pgPool(ctx, database, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, fmt.Sprintf(controllerSchema, pgx.Identifier{at.Name}.Sanitize(), controllerRanges))
	return err
}

func openController(reclaims bool) func(context.Context, drive.Place, int, drive.Run) (drive.Queue, error) {
	return func(ctx context.Context, at drive.Place, slots int, run drive.Run) (drive.Queue, error) {
		return newController(ctx, at, slots, run, reclaims)
	}
}

func newController(ctx context.Context, at drive.Place, slots int, run drive.Run, reclaims bool) (drive.Queue, error) {
	redisAddr, database := controllerPlaces(at)
	pool, err := pgPool(ctx, database, slots)
	if err != nil {
		return nil, err
	}
	working, stop := context.WithCancel(context.Background())
	c := &controller{
		id: uuid.NewString(), reclaims: reclaims, name: at.Name, schema: pgx.Identifier{at.Name}.Sanitize(), lease: at.TTL, alive: at.TTL / 4, beat: at.TTL / 12, patience: max(time.Second, at.TTL/6),
		pool: pool, redis: redis.NewClient(&redis.Options{Addr: redisAddr, MaxRetries: -1, ContextTimeoutEnabled: true}), run: run, began: time.Now(), stop: stop,
	}
	if slots > 0 {
		c.workers.Go(func() { c.every(working, "register", c.register) })
		leader := &leader{controller: c, locks: redislock.New(c.redis)}
		c.workers.Go(func() { c.every(working, "control", leader.control) })
	}
	for i := range slots {
		c.workers.Go(func() { c.work(working, fmt.Sprintf("%s/%d", c.id, i)) })
	}
	return c, nil
}

// every does something at each beat.
func (c *controller) every(ctx context.Context, what string, do func(context.Context) error) {
	for ctx.Err() == nil {
		next := time.After(c.beat)
		once, cancel := context.WithTimeout(ctx, c.alive)
		if err := do(once); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, what, err)
		}
		cancel()
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
}

func (c *controller) registry() string { return c.name + "/workers/" }

// register says that this worker is alive. It counts from before the request.
func (c *controller) register(ctx context.Context) error {
	sent := time.Since(c.began)
	err := c.redis.Set(ctx, c.registry()+c.id, "", c.alive).Err()
	if err == nil {
		c.until.Store(int64(sent + c.alive))
	}
	return err
}

// controllerPoll is left between looks for a job when there is none.
const controllerPoll = 20 * time.Millisecond

func (c *controller) work(ctx context.Context, slot string) {
	for ctx.Err() == nil {
		took, err := c.next(ctx, slot)
		if err != nil {
			fmt.Fprintln(os.Stderr, slot, err)
		}
		if err != nil || !took {
			time.Sleep(controllerPoll)
		}
	}
}

// next takes a job of this worker's ranges and runs it. A slot has one at a time.
func (c *controller) next(closing context.Context, slot string) (took bool, err error) {
	var j drive.Job
	var attempt int64
	leased := time.Since(c.began) + c.lease
	asking, cancel := context.WithTimeout(context.Background(), c.patience)
	defer cancel()
	err = c.pool.QueryRow(asking, `
		UPDATE `+c.schema+`.jobs SET worker = $1, lease_until = now() + $2, attempt = attempt + 1 WHERE (lock, n) =
			(SELECT lock, n FROM `+c.schema+`.jobs JOIN `+c.schema+`.ranges AS mine USING (range)
			WHERE NOT done AND (jobs.worker IS NULL AND mine.worker = $3 OR jobs.worker = $1 AND $4) ORDER BY n LIMIT 1 FOR UPDATE OF jobs SKIP LOCKED)
		RETURNING lock, n, attempt`, slot, c.lease, c.id, c.reclaims).Scan(&j.Lock, &j.N, &attempt)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	j.Token = j.N*maxAttempts + attempt
	ctx, end := context.WithCancel(context.Background())
	defer end()
	go func() {
		c.over(ctx, leased)
		end()
	}()
	err = c.run(ctx, j)
	return true, errors.Join(err, c.settle(closing, j, attempt, err == nil))
}

// over returns when the lease and this worker's key are both over, or ctx is.
func (c *controller) over(ctx context.Context, leased time.Duration) {
	for ctx.Err() == nil {
		left := max(leased, time.Duration(c.until.Load())) - time.Since(c.began)
		if left <= 0 {
			return
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
}

// settle writes down that a job is done, or gives it back, until the database has answered: nobody else does that for
// a worker that is alive. Once the job is another's it changes nothing.
func (c *controller) settle(closing context.Context, j drive.Job, attempt int64, done bool) error {
	for {
		once, cancel := context.WithTimeout(context.Background(), c.patience)
		_, err := c.pool.Exec(once, `UPDATE `+c.schema+`.jobs SET done = $4, worker = NULL WHERE lock = $1 AND n = $2 AND attempt = $3`, j.Lock, j.N, attempt, done)
		cancel()
		if err == nil || closing.Err() != nil {
			return err
		}
		time.Sleep(controllerPoll)
	}
}

// Put: a job that was put before is there.
func (c *controller) Put(ctx context.Context, j drive.Job) error {
	h := fnv.New32a()
	_, _ = h.Write([]byte(j.ID())) // it never fails
	_, err := c.pool.Exec(ctx, `INSERT INTO `+c.schema+`.jobs (lock, n, range) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, j.Lock, j.N, h.Sum32()%controllerRanges)
	return err
}

// Close: the key ends by itself.
func (c *controller) Close(context.Context) error {
	c.stop()
	c.workers.Wait()
	c.pool.Close()
	return c.redis.Close()
}

// leader is a process as controller, active as long as it has the lock.
type leader struct {
	*controller
	locks *redislock.Client
	lock  *redislock.Lock // nil: it is passive
}

// control takes or renews the lock, and does a controller's work until it is over.
func (l *leader) control(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, l.alive) // from before the request
	defer cancel()
	if l.lock == nil {
		l.lock, err = l.locks.Obtain(ctx, l.name+"/controller", l.alive, nil)
	} else if err = l.lock.Refresh(ctx, l.alive, nil); err != nil {
		l.lock = nil
	}
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		return nil
	case err != nil:
		return err
	}
	alive := []string{}
	keys := l.redis.Scan(ctx, 0, l.registry()+"*", 1000).Iterator()
	for keys.Next(ctx) {
		alive = append(alive, keys.Val()[len(l.registry()):])
	}
	if err := keys.Err(); err != nil {
		return err
	}
	return errors.Join(l.assign(ctx, alive), l.reap(ctx, alive))
}

// assign gives the ranges to the workers that are alive, evenly.
func (l *leader) assign(ctx context.Context, alive []string) error {
	if len(alive) == 0 {
		return nil
	}
	slices.Sort(alive)
	_, err := l.pool.Exec(ctx, `UPDATE `+l.schema+`.ranges SET worker = ($1::text[])[1 + range % $2] WHERE worker IS DISTINCT FROM ($1::text[])[1 + range % $2]`, alive, len(alive))
	return err
}

// reap takes the jobs back of workers whose keys are over, as far as the lease is over too. The worker that has the range takes them.
func (l *leader) reap(ctx context.Context, alive []string) error {
	_, err := l.pool.Exec(ctx, `UPDATE `+l.schema+`.jobs SET worker = NULL WHERE NOT done AND lease_until <= now() AND split_part(worker, '/', 1) <> ALL ($1)`, alive)
	return err
}
