package scenario

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// LockLoad is what clients of locks do beyond taking one lock at a time and waiting for it.
// Nothing: that alone, with one ttl, hold and think for all.
type LockLoad struct {
	// TTLFrom is the lower end of a range whose upper end is ttl: each client draws its own for
	// each lock, so that a contender's ttl differs from that of the holder's row; 0: all have
	// ttl. HoldFrom and ThinkFrom are those of hold, drawn likewise, and of think, drawn for
	// each client.
	TTLFrom   Duration `yaml:"ttl_from,omitempty"`
	HoldFrom  Duration `yaml:"hold_from,omitempty"`
	ThinkFrom Duration `yaml:"think_from,omitempty"`
	// Count is the number of locks, of which clients take any; 0: what contention gives.
	Count int `yaml:"locks,omitempty"`
	// AtOnce is how many locks a client holds at once, at most: so many are taken in a cycle,
	// one after the other, in the order of their names; 0: one.
	AtOnce int `yaml:"at_once,omitempty"`
	// Impatient is the part of the acquires that are cancelled, or time out, at a limit that is
	// drawn; Try the part of those that do not wait (TryAcquire).
	Impatient float64 `yaml:"impatient,omitempty"`
	Try       float64 `yaml:"try,omitempty"`
	// Renew is the part of the holds in which the holder renews its lease by hand. Leases of workers
	// with an even number are then renewed by hand alone, in all holds.
	Renew float64 `yaml:"renew,omitempty"`
	// Reopen is how often, on average, each worker closes its lock client, while others hold leases or
	// wait, and goes on with a new one; 0: never.
	Reopen Duration `yaml:"reopen,omitempty"`
	// LookDelay is for how long four in ten looks at a lock's row are held up before they are sent,
	// and one in ten when they are answered; 0: none is.
	LookDelay Duration `yaml:"look_delay,omitempty"`
	// Forget has the sink forget, all the time, the keys that it accepted longer than so ago, and drop
	// the entries of its ledgers from before; 0: nothing is forgotten. It is longer than any request
	// lasts, with all its resends.
	Forget Duration `yaml:"forget,omitempty"`
}

// maxLocks is how many locks a run can have: a worker gets their names in one environment
// variable, which Linux limits to 128 KiB. maxAtOnce bounds the locks of one client.
const (
	maxLocks  = 5000
	maxAtOnce = 20
)

// leastForget is the least age of what is forgotten: of a resend that comes later than its key is
// dropped nobody would know that it is one.
const leastForget = 10 * time.Second

// leastReopen is the least time between two closes of a worker's lock client.
const leastReopen = 500 * time.Millisecond

// check checks what is the lock workload's own.
func (w Workload) checkLocks() error {
	l := w.LockLoad
	part := func(f float64) bool { return f >= 0 && f <= 1 }
	switch {
	case l.TTLFrom > 0 && (l.TTLFrom.D() < time.Second || l.TTLFrom > w.TTL || l.TTLFrom.D()%time.Millisecond != 0):
		return fmt.Errorf("ttl_from %s: from 1s to ttl %s, in whole milliseconds", l.TTLFrom.D(), w.TTL.D())
	case l.HoldFrom > w.Hold:
		return fmt.Errorf("hold_from %s is above hold %s", l.HoldFrom.D(), w.Hold.D())
	case l.ThinkFrom > w.Think:
		return fmt.Errorf("think_from %s is above think %s", l.ThinkFrom.D(), w.Think.D())
	case l.Count < 0 || l.Count > maxLocks:
		return fmt.Errorf("locks %d: 1 to %d, or none for what contention gives", l.Count, maxLocks)
	case l.AtOnce < 0 || l.AtOnce > maxAtOnce:
		return fmt.Errorf("at_once %d: 1 to %d", l.AtOnce, maxAtOnce)
	case !part(l.Impatient) || !part(l.Try) || l.Impatient+l.Try > 1:
		return fmt.Errorf("impatient %v and try %v: parts of the acquires, together at most 1", l.Impatient, l.Try)
	case l.Reopen > 0 && l.Reopen.D() < leastReopen:
		return fmt.Errorf("reopen %s: at least %s, or hardly anything is done in between", l.Reopen.D(), leastReopen)
	case !part(l.Renew):
		return fmt.Errorf("renew %v: a part of the holds, from 0 to 1", l.Renew)
	case l.Forget > 0 && l.Forget.D() < leastForget:
		return fmt.Errorf("forget %s: at least %s, as no request lasts longer", l.Forget.D(), leastForget)
	case l.LookDelay > 0 && 6*l.LookDelay >= w.TTL:
		return fmt.Errorf("look_delay %s: a look is given up after a sixth of the ttl, %s", l.LookDelay.D(), w.TTL.D()/6)
	}
	return nil
}

// noLocks refuses what is of locks alone.
func (w Workload) noLocks() error {
	if w.LockLoad != (LockLoad{}) {
		return errors.New("ttl_from, hold_from, think_from, locks, at_once, impatient, try, renew, reopen, look_delay and forget " +
			"are of locks: this workload has none")
	}
	return nil
}

// Locks is how many locks the workload's clients compete for.
func (w Workload) Locks() int {
	switch {
	case w.Count > 0:
		return w.Count
	case w.Contention == Low:
		return w.Workers * w.Clients * max(w.AtOnce, 1)
	case w.Contention == High:
		return 1
	}
	return mediumLocks
}

// Own says that no two clients take the same lock.
func (w Workload) Own() bool { return w.Contention == Low && w.Count == 0 }

// words say what is special about the lock workload, each with a comma before it.
func (l LockLoad) words() string {
	var b strings.Builder
	say := func(any bool, format string, args ...any) {
		if any {
			fmt.Fprintf(&b, ", "+format, args...)
		}
	}
	say(l.TTLFrom > 0, "drawn from %s on", l.TTLFrom.D())
	say(l.Count > 0, "%d locks", l.Count)
	say(l.AtOnce > 1, "up to %d at once", l.AtOnce)
	say(l.Impatient > 0, "%v of the acquires cancelled or timed out", l.Impatient)
	say(l.Try > 0, "%v of them TryAcquire", l.Try)
	say(l.Renew > 0, "leases renewed by hand in %v of the holds, or by hand alone", l.Renew)
	say(l.Reopen > 0, "each worker's lock client closed every %s", l.Reopen.D())
	say(l.LookDelay > 0, "looks %s late", l.LookDelay.D())
	say(l.Forget > 0, "the sink forgets what is older than %s", l.Forget.D())
	return b.String()
}
