package clock

import (
	"testing"
	"time"
)

func TestMargin(t *testing.T) {
	t.Parallel()
	if got := (Drift{0.01, 100 * time.Millisecond}).Margin(30 * time.Second); got != 700*time.Millisecond {
		t.Errorf("margin %s", got)
	}
	// The margin is enough: the holder's clock at the slowest, the contender's
	// at the fastest.
	for _, drift := range []float64{0, 0.001, 0.01, 0.1, 0.2} {
		ttl := 10 * time.Second
		holder := float64(ttl-Drift{Bound: drift}.Margin(ttl)) / (1 - drift)
		contender := float64(ttl) / (1 + drift)
		if holder > contender+1 {
			t.Errorf("drift %v: the holder trusts %v, the contender waits %v", drift, time.Duration(holder), time.Duration(contender))
		}
	}
}

// TestLeast: the remedy that the error names works.
func TestLeast(t *testing.T) {
	t.Parallel()
	for _, d := range []Drift{{DefaultDriftBound, DefaultMarginBase}, {0.1, DefaultMarginBase}, {DefaultDriftBound, time.Second}} {
		if err := d.Check(d.least()); err != nil {
			t.Errorf("the least ttl: %v", err)
		}
		if d.Check(d.least()/2) == nil {
			t.Errorf("%+v: half of the least ttl is accepted", d)
		}
	}
}
