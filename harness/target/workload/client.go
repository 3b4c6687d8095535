package workload

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// sinkTimeout bounds one sink operation with all its resends.
const sinkTimeout = 8 * time.Second

// Lease is what a client needs of a held lock; *lock.Lease has it.
type Lease interface {
	Resource() string
	Holder() string
	Token() int64
	Context() context.Context // ends with the holder's right
	Valid() bool
	Renew(ctx context.Context) error
	Release(ctx context.Context) error
}

// Locker hands out leases.
type Locker interface {
	Acquire(ctx context.Context, r lock.Request) (Lease, error)
	TryAcquire(ctx context.Context, r lock.Request) (Lease, error)
	Close(ctx context.Context) error
}

// coreLocker is the production client as a Locker.
type coreLocker struct{ c *lock.Client }

func (l coreLocker) Acquire(ctx context.Context, r lock.Request) (Lease, error) {
	return held(l.c.Acquire(ctx, r))
}

func (l coreLocker) TryAcquire(ctx context.Context, r lock.Request) (Lease, error) {
	return held(l.c.TryAcquire(ctx, r))
}

func held(lease *lock.Lease, err error) (Lease, error) {
	if err != nil {
		return nil, err // not a typed nil in the interface
	}
	return lease, nil
}

func (l coreLocker) Close(ctx context.Context) error { return l.c.Close(ctx) }

// Rand returns the actor's own stream of random numbers of a run's seed.
func Rand(seed uint64, actor string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(actor))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// counters are a worker's totals for live progress.
type counters struct{ cycles, stale, unknown, lost, enqueuing, came atomic.Int64 }

// client is one competitor within a worker.
type client struct {
	cfg     Config
	proc    string // "w1.1/c2"; the lock's holder
	number  int
	rec     Recorder
	gate    *control.Gate
	lockers *lockers
	sink    *recordingSink
	rng     *rand.Rand
	counts  *counters
	clock   clock.Clock
	grants  int
	// closing is when it closes the lock client of its worker; 0: never.
	closing time.Duration
}

// run does cycles until ctx ends; a cycle under way is finished.
func (c *client) run(ctx context.Context) {
	think := c.cfg.thinkOf(c.proc)
	for ctx.Err() == nil {
		c.cycle(ctx)
		c.reopen()
		sleep(ctx, c.around(think))
	}
}

// around draws from 0.5 to 1.5 of d.
func (c *client) around(d time.Duration) time.Duration {
	return time.Duration((0.5 + c.rng.Float64()) * float64(d))
}

// cycle takes one lock or several, does the work of each that it got, and gives them back.
func (c *client) cycle(ctx context.Context) {
	var held []Lease
	for _, name := range c.pick() {
		lease := c.acquire(ctx, name)
		if lease == nil {
			break
		}
		held = append(held, lease)
	}
	for _, lease := range held {
		c.critical(lease)
	}
	for _, lease := range slices.Backward(held) {
		c.release(lease)
	}
}

// release gives the lock back; after a lost lease it sends nothing. A worker
// that is stopping finishes its cycle, hence no context of the run here.
func (c *client) release(lease Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.TTL)
	defer cancel()
	err := lease.Release(ctx)
	switch {
	case err == nil:
		c.counts.cycles.Add(1)
	case store.OutcomeOf(err) == store.Unknown && !errors.As(err, new(*lock.LostError)):
		c.counts.unknown.Add(1)
	}
}

// critical is the protected section: raise, read n, hold, write n+1.
func (c *client) critical(lease Lease) {
	name, token := lease.Resource(), lease.Token()
	res := Resource(name)
	ctx, cancel := context.WithTimeout(lease.Context(), sinkTimeout)
	defer cancel()
	a, err := c.sink.raise(ctx, res, name, token)
	if err != nil || a.Result != sink.Applied {
		c.count(a, err)
		return // without an awaited raise what is read may still be overtaken
	}
	st, err := c.sink.get(ctx, res)
	if err != nil {
		c.count(a, err)
		return
	}
	decided := c.rec.Now() // before Valid: never later than the check
	if !lease.Valid() {
		return
	}
	note := history.Event{Proc: c.proc, Type: history.Note, Op: history.NoteStart, Key: name, Token: token, DecidedAt: decided}
	c.rec.Record(note)
	defer func() {
		c.rec.Record(history.Event{Proc: c.proc, Type: history.Note, Op: history.NoteFinish, Key: name, Token: token})
	}()
	hold, hit := c.gate.Reach(lease.Context(), control.Holding, c.proc, name)
	if !hit || hold == 0 {
		hold = c.around(c.cfg.holdOf(name, c.proc))
	}
	c.work(lease, hold)
	decided = c.rec.Now()
	if !lease.Valid() {
		return
	}
	c.write(lease, res, st.Value+1, decided)
}

// write sends the decided effect. The request does not end with the lease: what
// a process has handed to its network stack leaves when the process is stopped
// there and continued much later, and refusing that is the sink's work.
func (c *client) write(lease Lease, res string, value, decided int64) {
	name := lease.Resource()
	ef := sink.Effect{Key: fmt.Sprintf("%s/%s#%d", name, c.proc, c.grants), Intent: "increment", Value: value}
	a, err := c.sink.effect(res, name, lease.Token(), decided, ef, func(p control.Point) {
		c.gate.Reach(context.Background(), p, c.proc, name)
	})
	c.count(a, err)
}

func (c *client) count(a sink.Answer, err error) {
	switch {
	case store.OutcomeOf(err) == store.Unknown:
		c.counts.unknown.Add(1)
	case err == nil && a.Result == sink.Stale:
		c.counts.stale.Add(1)
	}
}

func sleep(ctx context.Context, d time.Duration) { _ = clock.Go().Sleep(ctx, d) }

// locks is the lock workload.
type locks struct {
	*process
	lockers *lockers
}

func loadLocks(ctx context.Context, p *process) (load, error) {
	lockers, err := p.newLockers(ctx, cassandra.NewLocks(p.lockDB))
	return &locks{process: p, lockers: lockers}, err
}

func (l *locks) drain() {}

func (l *locks) offer(control.Load) {}

func (l *locks) run(ctx context.Context, ready func() error) error {
	if err := ready(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for i := range l.cfg.Clients {
		proc := fmt.Sprintf("%s/c%d", l.cfg.Life, i+1)
		c := &client{
			cfg: l.cfg, proc: proc, rec: l.rec, gate: l.gate, lockers: l.lockers, counts: l.counts,
			number: ClientNumber(l.cfg, i),
			sink:   &recordingSink{Sink: l.sink, rec: l.rec, proc: proc},
			rng:    Rand(l.cfg.Seed, proc),
			clock:  l.clock,
		}
		if i == 0 {
			c.closes()
		}
		wg.Go(func() { c.run(ctx) })
	}
	wg.Wait()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	locker, _ := l.lockers.current()
	if err := locker.Close(closing); err != nil {
		l.log.Warn("lock client left requests unsettled", "error", err)
	}
	return nil
}

// ClientNumber numbers clients across workers ("w2", client 0 -> after w1's).
func ClientNumber(cfg Config, i int) int { return (cfg.workerNumber()-1)*cfg.Clients + i }

func (c Config) workerNumber() int {
	var w int
	if _, err := fmt.Sscanf(c.Worker, "w%d", &w); err != nil || w < 1 {
		return 1
	}
	return w
}

// Compete is the lock workload of one worker over rows and a sink that are there already:
// its clients take locks until ctx ends, and then finish their cycles. Run does the same on
// a cluster. Of hooks it has Locks, Observer and Locker, which are given no database.
func Compete(ctx context.Context, cfg Config, rec Recorder, base clock.Clock, rows store.Locks, effects sink.Sink,
	hooks Hooks, log *slog.Logger) error {
	p := simple(cfg, rec, base, effects, hooks, log)
	lockers, err := p.newLockers(ctx, rows)
	if err != nil {
		return err
	}
	l := &locks{process: p, lockers: lockers}
	return l.run(ctx, ready)
}
