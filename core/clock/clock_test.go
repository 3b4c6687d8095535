package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fencepost/core/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNowNeverGoesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]clock.Clock{"system": clock.System(), "go": clock.Go()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := c.Now()
			for range 10000 {
				now := c.Now()
				if now < last {
					t.Fatalf("%s after %s", now, last)
				}
				last = now
			}
		})
	}
}

// TestSystemKeepsPace: both clocks measure one interval alike.
func TestSystemKeepsPace(t *testing.T) {
	t.Parallel()
	s, g := clock.System(), clock.Go()
	outer := g.Now()
	start := s.Now()
	inner := g.Now()
	if err := s.Sleep(t.Context(), 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	least := g.Now() - inner
	took := s.Now() - start
	most := g.Now() - outer
	if took < least-time.Millisecond || took > most+time.Millisecond {
		t.Errorf("the system clock measured %s, Go's at least %s and at most %s", took, least, most)
	}
}

func TestGoInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.Go()
		start := c.Now()
		fired := time.Duration(-1)
		stop := c.AfterFunc(time.Hour, func() { fired = c.Now() - start })
		if err := c.Sleep(t.Context(), 2*time.Hour); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // also for what the timer's goroutine wrote
		if got := c.Now() - start; got != 2*time.Hour || fired != time.Hour {
			t.Errorf("slept %s, the timer fired after %s", got, fired)
		}
		if stop() {
			t.Error("stopped a timer that had fired")
		}
		late := false
		if stop := c.AfterFunc(time.Hour, func() { late = true }); !stop() {
			t.Error("could not stop a timer")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if late {
			t.Error("a stopped timer fired")
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	synctest.Test(t, func(t *testing.T) {
		c := clock.Go()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		start := c.Now()
		if err := c.Sleep(ctx, time.Hour); err != why {
			t.Errorf("Sleep: %v", err)
		}
		if d := c.Now() - start; d != time.Second {
			t.Errorf("ended after %s", d)
		}
		if err := c.Sleep(ctx, 0); err != why {
			t.Errorf("Sleep with a context that is over: %v", err)
		}
	})
}
