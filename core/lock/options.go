package lock

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
)

// Defaults of Options.
const (
	DefaultTTL        = 30 * time.Second
	DefaultDriftBound = 0.01
	DefaultMarginBase = 100 * time.Millisecond
	DefaultBackoffMin = 50 * time.Millisecond
	DefaultBackoffMax = 2 * time.Second
)

// Backoff is the pause between tries: it doubles from Min to Max, with jitter
// of half of it either way.
type Backoff struct{ Min, Max time.Duration }

// Options configure a Client. The zero value is usable.
type Options struct {
	// TTL is the lease's time to live for requests that name none; whole
	// milliseconds; default 30 s. Every client of a resource may use its own:
	// the row says for how long a contender must wait.
	TTL time.Duration
	// RequestTimeout bounds the wait for the answer to one copy of a request;
	// then the identical request goes to another node. Default: a sixth of
	// the lease's TTL.
	RequestTimeout time.Duration
	// DriftBound is the greatest relative error of any participant's clock
	// rate under which two holders are never entitled at once; default 0.01.
	// Beyond it the fencing token alone protects.
	DriftBound float64
	// MarginBase is the constant part of the safety margin; default 100 ms.
	MarginBase time.Duration
	// Clock defaults to clock.System().
	Clock clock.Clock
	// Rand gives the jitter; default: randomly seeded. It is used under the
	// client's own mutex.
	Rand *rand.Rand
	// NewID returns a new, globally unique attempt id, a UUID in any spelling;
	// default: random UUIDs from the operating system's generator. Ids that
	// repeat, between processes or restarts too, break the protocol: the
	// settlement of an unknown outcome rests on them. New calls it once, to
	// refuse what returns something else.
	NewID func() string
	// Observer, if set, is called for every conditional request and every lost lease.
	Observer Observer
	// NoSingleFlight lets every caller contend alone instead of queueing the
	// callers of a process behind one looker. For tests of the store under
	// contention: it costs reads and rejected requests, and gains nothing.
	NoSingleFlight bool
	// NoAutoRenew leaves renewal to the caller.
	NoAutoRenew bool
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Backoff defaults to 50 ms doubling to 2 s.
	Backoff Backoff
}

// Margin is the part of a lease's ttl that its holder does not trust:
// 2 x drift x ttl + base. With clock rates wrong by at most drift, a holder that
// counts ttl-margin from before its request was sent ends before a contender
// that counts ttl from after it saw the row.
func Margin(ttl time.Duration, drift float64, base time.Duration) time.Duration {
	return time.Duration(2*drift*float64(ttl)) + base
}

func (o Options) withDefaults() (Options, error) {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.DriftBound == 0 {
		o.DriftBound = DefaultDriftBound
	}
	if o.MarginBase == 0 {
		o.MarginBase = DefaultMarginBase
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Backoff.Min == 0 {
		o.Backoff.Min = DefaultBackoffMin
	}
	if o.Backoff.Max == 0 {
		o.Backoff.Max = DefaultBackoffMax
	}
	switch {
	case o.DriftBound < 0 || o.DriftBound >= 0.25:
		return o, fmt.Errorf("lock: DriftBound is %v: it is a relative error of a clock's rate and must be in [0, 0.25)", o.DriftBound)
	case o.MarginBase < 0:
		return o, fmt.Errorf("lock: MarginBase is %s: it must not be negative", o.MarginBase)
	case o.RequestTimeout < 0:
		return o, fmt.Errorf("lock: RequestTimeout is %s: it must not be negative", o.RequestTimeout)
	case o.Backoff.Min <= 0 || o.Backoff.Max < o.Backoff.Min:
		return o, fmt.Errorf("lock: Backoff is %s to %s: want 0 < Min <= Max", o.Backoff.Min, o.Backoff.Max)
	}
	if id := o.NewID(); uuid.Validate(id) != nil {
		return o, fmt.Errorf("lock: NewID returns %q: it must return UUIDs", id)
	}
	return o, o.checkTTL(o.TTL)
}

// checkTTL refuses a ttl that leaves less than half of itself to work with.
func (o Options) checkTTL(ttl time.Duration) error {
	if ttl <= 0 || ttl%time.Millisecond != 0 {
		return fmt.Errorf("lock: ttl is %s: it must be positive and whole milliseconds", ttl)
	}
	if m := Margin(ttl, o.DriftBound, o.MarginBase); m > ttl/2 {
		return fmt.Errorf("lock: ttl %s is too short for a safety margin of %s (2 x drift bound %v x ttl + %s): use a ttl of at least %s, or a smaller MarginBase",
			ttl, m, o.DriftBound, o.MarginBase, minTTL(o.DriftBound, o.MarginBase))
	}
	return nil
}

func minTTL(drift float64, base time.Duration) time.Duration {
	return (time.Duration(float64(base)/(0.5-2*drift)) + time.Millisecond).Round(time.Millisecond)
}
