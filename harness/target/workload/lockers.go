package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// lockers are the lock clients of a process, one after the other.
type lockers struct {
	open func(n int) (Locker, error)

	mu  sync.Mutex
	now Locker
	n   int // its number, from 1 on; 0: there is only one
}

// newLockers opens the first lock client of a process.
func (p *process) newLockers(ctx context.Context, rows store.Locks) (*lockers, error) {
	cfg, hooks := p.cfg, p.hooks
	if cfg.Lock.LookDelay > 0 {
		rows = &lateLooks{Locks: rows, delay: cfg.Lock.LookDelay, clock: p.clock, rng: Rand(cfg.Seed, cfg.Life+"/looks")}
	}
	if hooks.Locks != nil {
		rows = hooks.Locks(cfg, p.lockDB, rows)
	}
	obs := ObserveLocks(ctx, p.rec, p.gate, func() { p.counts.lost.Add(1) })
	if hooks.Observer != nil {
		obs = hooks.Observer(cfg, obs)
	}
	l := &lockers{open: func(n int) (Locker, error) {
		stream := cfg.Life + "/lock"
		if n > 1 {
			stream = fmt.Sprintf("%s %d", stream, n)
		}
		c, err := lock.New(rows, lock.Options{
			TTL: cfg.TTL, DriftBound: cfg.DriftBound, MarginBase: cfg.MarginBase,
			Clock: p.leases, Rand: Rand(cfg.Seed, stream),
			Observer: obs, NoSingleFlight: cfg.NoSingleFlight, NoAutoRenew: cfg.byHandAlone(), Logger: p.log,
		})
		if err != nil {
			return nil, err
		}
		locker := Locker(coreLocker{c})
		if hooks.Locker != nil {
			locker = hooks.Locker(cfg, p.lockDB, locker)
		}
		return locker, nil
	}}
	if cfg.Lock.Reopen > 0 {
		l.n = 1
	}
	var err error
	l.now, err = l.open(l.n)
	return l, err
}

// current is the one that is to be asked, with its number.
func (l *lockers) current() (Locker, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, l.n
}

// next opens another one, to be asked from now on.
func (l *lockers) next() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	locker, err := l.open(l.n + 1)
	if err == nil {
		l.now, l.n = locker, l.n+1
	}
	return err
}

// closes makes c the client that closes the lock client of its worker now and then.
func (c *client) closes() {
	if d := c.cfg.Lock.Reopen; d > 0 {
		c.closing = c.clock.Now() + c.around(d)
	}
}

// reopen closes the lock client when it is time to, also while clients of the worker hold leases or
// wait for them, and then opens a new one. Meanwhile the others go on to ask the one that is being closed. Half
// of the calls have a limit that is drawn, so that some give leases up.
func (c *client) reopen() {
	if c.closing == 0 || c.clock.Now() < c.closing {
		return
	}
	c.closes()
	limit := drainTimeout
	if c.rng.IntN(2) == 0 {
		limit = c.drawLimit(c.cfg.TTL)
	}
	locker, n := c.lockers.current()
	e := history.Event{Proc: c.proc, ID: c.rec.NewID(), Type: history.Invoke, Op: history.OpClose,
		Details: &history.Details{Session: n, LimitMS: limit.Milliseconds()}}
	c.rec.Record(e)
	err := closeWithin(locker, limit)
	e.Type, e.Error, e.Details = history.OK, errText(err), &history.Details{Session: n}
	if err != nil {
		e.Type = history.Unknown
	}
	c.rec.Record(e)
	if err := c.lockers.next(); err != nil {
		panic(fmt.Sprintf("lock client %d, with the options of the one before: %v", n+1, err))
	}
}

func closeWithin(l Locker, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return l.Close(ctx)
}
