package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// LockLoad is what clients of locks do beyond taking one lock at a time and waiting for it. The
// zero value is that alone.
type LockLoad struct {
	// TTLFrom and HoldFrom are the lower ends of ranges up to TTL and Hold, of which each client
	// has its own for each lock; ThinkFrom that of Think, of which each client has its own. 0:
	// there is no range.
	TTLFrom   time.Duration `json:"ttl_from_ns,omitempty"`
	HoldFrom  time.Duration `json:"hold_from_ns,omitempty"`
	ThinkFrom time.Duration `json:"think_from_ns,omitempty"`
	// AtOnce is how many locks a client takes in a cycle, at most; 0 is 1. They are taken in the
	// order of their names, so that no two clients wait for each other.
	AtOnce int `json:"at_once,omitempty"`
	// Impatient is the part of the acquires with a drawn limit: half of them are cancelled then,
	// half have it as their timeout. Try is the part of those that do not wait.
	Impatient float64 `json:"impatient,omitempty"`
	Try       float64 `json:"try,omitempty"`
	// Renew is the part of the holds in which the holder renews its lease by hand.
	Renew float64 `json:"renew,omitempty"`
	// Reopen is how often, on average, a worker closes its lock client; 0: never.
	Reopen time.Duration `json:"reopen_ns,omitempty"`
	// LookDelay holds up four in ten looks at a row before they are sent, and one in ten when they
	// are answered. The first are what matters: who counts from when such a look began counts a
	// time for which the version that it shows may not have been there.
	LookDelay time.Duration `json:"look_delay_ns,omitempty"`
}

// within draws from a range: the same for the same name. Without a lower end it is to.
func (c Config) within(from, to time.Duration, name string) time.Duration {
	if from == 0 {
		return to
	}
	span := (to - from).Milliseconds() + 1
	return from + time.Duration(Rand(c.Seed, name).Int64N(span))*time.Millisecond
}

// TTLOf is the ttl of a client's leases on a lock. A third of them are the shortest and a third
// the longest, so that both meet often.
func (c Config) TTLOf(lock, proc string) time.Duration {
	if c.Lock.TTLFrom == 0 {
		return c.TTL
	}
	switch Rand(c.Seed, "end "+lock+" "+proc).IntN(3) {
	case 0:
		return c.Lock.TTLFrom
	case 1:
		return c.TTL
	}
	return c.within(c.Lock.TTLFrom, c.TTL, "ttl "+lock+" "+proc)
}

func (c Config) holdOf(lock, proc string) time.Duration {
	return c.within(c.Lock.HoldFrom, c.Hold, "hold "+lock+" "+proc)
}

func (c Config) thinkOf(proc string) time.Duration {
	return c.within(c.Lock.ThinkFrom, c.Think, "think "+proc)
}

// pick draws the locks of a cycle, in their order.
func (c *client) pick() []string {
	most := max(c.cfg.Lock.AtOnce, 1)
	all := c.cfg.Locks
	if c.cfg.Own {
		first := c.number * most % len(all)
		all = all[first:min(first+most, len(all))]
		if most == 1 {
			return all
		}
	}
	if most == 1 {
		return []string{all[c.rng.IntN(len(all))]}
	}
	var at []int
	for range 1 + c.rng.IntN(min(most, len(all))) {
		at = append(at, c.rng.IntN(len(all)))
	}
	slices.Sort(at)
	var names []string
	for _, i := range slices.Compact(at) {
		names = append(names, all[i])
	}
	return names
}

// ask is how a client asks for a lock.
type ask struct {
	lock.Request
	try    bool
	cancel time.Duration // 0: it is not cancelled
}

// shortest is the least limit of an impatient acquire: about what a request takes at best.
const shortest = time.Millisecond

// ask draws how to ask for a lock.
func (c *client) ask(name string) ask {
	a := ask{Request: lock.Request{Resource: name, Holder: c.proc, TTL: c.cfg.TTLOf(name, c.proc), Timeout: c.cfg.AcquireTimeout}}
	l := c.cfg.Lock
	if l.Impatient+l.Try == 0 {
		return a // draws nothing: what is drawn after it stays what it was
	}
	switch u := c.rng.Float64(); {
	case u < l.Try:
		a.try = true
	case u < l.Try+l.Impatient:
		limit := c.drawLimit(a.TTL)
		if c.rng.IntN(2) == 0 {
			a.Timeout = limit
		} else {
			a.cancel = limit
		}
	}
	return a
}

// limit is when the caller gives up.
func (a ask) limit() time.Duration {
	if a.cancel > 0 {
		return a.cancel
	}
	return a.Timeout
}

// acquire asks for a lock, and records how that ended; nil: it is not held.
func (c *client) acquire(ctx context.Context, name string) Lease {
	a := c.ask(name)
	locker, session := c.lockers.current()
	d := history.Details{TTLMS: a.TTL.Milliseconds(), LimitMS: a.limit().Milliseconds(), Try: a.try, Session: session}
	lease, err := RecordLock(c.rec, c.proc, name, d, func() (Lease, error) { return c.send(ctx, locker, a) })
	if err != nil {
		return nil
	}
	c.grants++
	return lease
}

func (c *client) send(ctx context.Context, locker Locker, a ask) (Lease, error) {
	if a.try {
		return locker.TryAcquire(ctx, a.Request)
	}
	if a.cancel > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer c.clock.AfterFunc(a.cancel, cancel)()
	}
	return locker.Acquire(ctx, a.Request)
}

// refusal is an acquire's end in a word, "" for an error of the store.
func refusal(err error) string {
	switch {
	case errors.Is(err, lock.ErrHeld):
		return history.ResultHeld
	case errors.Is(err, lock.ErrTimeout):
		return history.ResultTimeout
	case errors.Is(err, lock.ErrClosed):
		return history.ResultClosed
	case errors.Is(err, context.Canceled):
		return history.ResultCancelled
	}
	return ""
}

// lateLooks holds looks at rows up, as a slow link does with one direction of one request: before
// they are sent or when they are answered.
type lateLooks struct {
	store.Locks
	delay time.Duration
	clock clock.Clock

	mu  sync.Mutex
	rng *rand.Rand
}

// Read implements store.Locks. SERIAL reads are no looks.
func (l *lateLooks) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	if serial {
		return l.Locks.Read(ctx, resource, serial)
	}
	l.mu.Lock()
	which := l.rng.IntN(10)
	l.mu.Unlock()
	if which < 4 {
		if err := l.clock.Sleep(ctx, l.delay); err != nil {
			return nil, notAnswered(resource, err)
		}
	}
	row, err := l.Locks.Read(ctx, resource, serial)
	if which == 4 && err == nil {
		if err := l.clock.Sleep(ctx, l.delay); err != nil {
			return nil, notAnswered(resource, err)
		}
	}
	return row, err
}

func notAnswered(resource string, err error) error {
	return &store.Error{Op: fmt.Sprintf("look at %s", resource), Outcome: store.Unknown, Cause: err}
}
