package clock

import (
	"fmt"
	"time"
)

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
