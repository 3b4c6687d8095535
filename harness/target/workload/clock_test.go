package workload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/harness/record/history"
)

func TestClockRateAndOffset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(clock.Go())
		start, wall := c.Now(), time.Now()
		c.Set(history.Clock{OffsetMS: -600_000, RatePPM: 100_000})
		time.Sleep(10 * time.Second)
		if got := c.Now() - start; got != 11*time.Second {
			t.Errorf("the lease clock went on by %s in 10s, want 11s", got)
		}
		if got := c.Wall().Sub(wall); got != 10*time.Second-10*time.Minute {
			t.Errorf("the wall clock moved by %s", got)
		}
		c.Set(history.Clock{}) // the reading must not jump back
		if got := c.Now() - start; got != 11*time.Second {
			t.Errorf("setting the clock right moved the lease clock to %s", got)
		}
		time.Sleep(time.Second)
		if got := c.Now() - start; got != 12*time.Second {
			t.Errorf("%s, want 12s", got)
		}
	})
}

func TestClockFastRateFiresTimersEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(clock.Go())
		c.Set(history.Clock{RatePPM: 1_000_000}) // twice as fast
		start := time.Now()
		if err := c.Sleep(t.Context(), 4*time.Second); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 1990*time.Millisecond || d > 2010*time.Millisecond {
			t.Errorf("slept %s, want 2s", d)
		}
	})
}

func TestClockSuspended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(clock.Go())
		start, now, awake := time.Now(), c.Now(), c.Awake()
		fired := make(chan time.Duration, 1)
		c.AfterFunc(3*time.Second, func() { fired <- time.Since(start) })
		time.Sleep(time.Second)
		c.Set(history.Clock{Suspended: true})
		time.Sleep(10 * time.Second)
		if got := c.Now() - now; got != 11*time.Second {
			t.Errorf("the lease clock shows %s in the machine's sleep, want 11s", got)
		}
		if got := c.Awake() - awake; got != time.Second {
			t.Errorf("awake for %s, want 1s", got)
		}
		select {
		case d := <-fired:
			t.Fatalf("a timer fired after %s, in the machine's sleep", d)
		default:
		}
		c.Set(history.Clock{})
		if d := <-fired; d < 13*time.Second || d > 13010*time.Millisecond {
			t.Errorf("the timer fired after %s, want 13s: 3 awake and 10 asleep", d)
		}
	})
}

func TestClockStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(clock.Go())
		stop := c.AfterFunc(time.Second, func() { t.Error("a stopped timer fired") })
		if !stop() {
			t.Error("stop says that it came too late")
		}
		if stop() {
			t.Error("stopped twice")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		if err := c.Sleep(ctx, time.Hour); !errors.Is(err, why) {
			t.Errorf("%v, want the cause", err)
		}
		time.Sleep(time.Minute)
	})
}
