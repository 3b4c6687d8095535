package lock

import (
	"cmp"
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
	DefaultDriftBound = clock.DefaultDriftBound
	DefaultMarginBase = clock.DefaultMarginBase
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

// drift is how wrong clocks may be.
func (o Options) drift() clock.Drift { return clock.Drift{Bound: o.DriftBound, Base: o.MarginBase} }

func (o Options) withDefaults() (Options, error) {
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.DriftBound = cmp.Or(o.DriftBound, DefaultDriftBound)
	o.MarginBase = cmp.Or(o.MarginBase, DefaultMarginBase)
	o.Clock = cmp.Or(o.Clock, clock.System())
	o.Rand = cmp.Or(o.Rand, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Backoff.Min = cmp.Or(o.Backoff.Min, DefaultBackoffMin)
	o.Backoff.Max = cmp.Or(o.Backoff.Max, DefaultBackoffMax)
	switch {
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
	if err := o.drift().Check(ttl); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}
