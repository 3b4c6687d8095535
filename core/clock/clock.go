// Package clock is the core's only source of time.
//
// Leases are measured on a clock that goes on while the machine sleeps
// (CLOCK_BOOTTIME on Linux): Go's own monotonic clock stands still in suspend, so
// a lease would seem valid after waking up though others have long taken it over.
// Where the machine is a virtual one that its host pauses, migrates or restores from a
// snapshot, no clock inside of it can be relied on to go on.
//
// Timers, however, are Go's and fire late after a suspend; code that acts under a
// lease therefore checks Now itself and trusts no timer.
//
// No wall clock is used: instants are durations since an arbitrary origin and are
// comparable only within one process.
package clock

import (
	"context"
	"fmt"
	"time"
)

// Clock tells and awaits time. Implementations are safe for concurrent use.
type Clock interface {
	// Now returns the time since an arbitrary, fixed origin. It never goes back.
	Now() time.Duration
	// AfterFunc calls f in its own goroutine after d. stop prevents the call
	// and reports whether it did.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
	// Sleep waits for d, or until ctx ends, whose cause it then returns.
	Sleep(ctx context.Context, d time.Duration) error
}

// System returns the clock for leases: CLOCK_BOOTTIME on Linux, Go's monotonic
// clock elsewhere.
func System() Clock { return timers{now: bootNow} }

// Go returns Go's monotonic clock. It stands still while the machine sleeps; it
// is the one that works in a testing/synctest bubble.
func Go() Clock { return timers{now: goNow} }

// origin is before any instant that goNow can return.
var origin = time.Now()

// goNow works in a synctest bubble too, whose clock starts at a fixed date:
// only differences count.
func goNow() time.Duration { return time.Since(origin) }

// WithTimeout is context.WithTimeoutCause by a clock of ours.
func WithTimeout(ctx context.Context, c Clock, d time.Duration, cause error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := c.AfterFunc(d, func() { cancel(cause) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

type timers struct{ now func() time.Duration }

func (t timers) Now() time.Duration { return t.now() }

func (timers) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

func (timers) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Drift is how wrong clocks may be under which two never hold a thing at once: locks
// (core/lock) and shards (core/engine) are held by the same reckoning.
type Drift struct {
	// Bound is the greatest relative error of any participant's clock rate.
	Bound float64
	// Base is the constant part of the safety margin.
	Base time.Duration
}

// Defaults of Drift.
const (
	DefaultDriftBound = 0.01
	DefaultMarginBase = 100 * time.Millisecond
)

// Margin is the part of a ttl that its holder does not trust: 2 x drift x ttl + base.
// With clock rates wrong by at most drift, a holder that counts ttl-margin from before its
// request was sent ends before a contender that counts ttl from after it saw the row.
func (d Drift) Margin(ttl time.Duration) time.Duration {
	return time.Duration(2*d.Bound*float64(ttl)) + d.Base
}

// Check refuses what leaves less than half of a ttl to work with.
func (d Drift) Check(ttl time.Duration) error {
	switch m := d.Margin(ttl); {
	case d.Bound < 0 || d.Bound >= 0.25:
		return fmt.Errorf("DriftBound is %v: it is a relative error of a clock's rate and must be in [0, 0.25)", d.Bound)
	case d.Base < 0:
		return fmt.Errorf("MarginBase is %s: it must not be negative", d.Base)
	case ttl <= 0 || ttl%time.Millisecond != 0:
		return fmt.Errorf("TTL is %s: it must be positive and whole milliseconds", ttl)
	case m > ttl/2:
		return fmt.Errorf("TTL %s is too short for a safety margin of %s (2 x drift bound %v x ttl + %s): "+
			"use a TTL of at least %s, or a smaller MarginBase", ttl, m, d.Bound, d.Base, d.least())
	}
	return nil
}

// least is the shortest ttl that passes.
func (d Drift) least() time.Duration {
	return (time.Duration(float64(d.Base)/(0.5-2*d.Bound)) + time.Millisecond).Round(time.Millisecond)
}
