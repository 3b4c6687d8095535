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
