package workload

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
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

// heard are the ticks of a metronome with the times of their coming.
type heard struct {
	mu    sync.Mutex
	start time.Time
	ns    []int
	at    []time.Duration
}

func (h *heard) send(m control.Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ns, h.at = append(h.ns, m.ID), append(h.at, time.Since(h.start))
	return nil
}

func (h *heard) take() (ns []int, at []time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ns, at, h.ns, h.at = h.ns, h.at, nil, nil
	return ns, at
}

// The metronome goes by the clock, whatever rate that has, and ends when it is told to.
func TestMetronomeGoesByTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, h := NewClock(clock.Go()), &heard{start: time.Now()}
		m := NewMetronome(c, h.send)
		c.Set(history.Clock{RatePPM: 250_000})
		m.Set(100 * time.Millisecond)
		time.Sleep(405 * time.Millisecond)
		ns, at := h.take()
		if !slices.Equal(ns, []int{1, 2, 3, 4, 5}) {
			t.Fatalf("ticks %v at %v, want five, each 80 ms", ns, at)
		}
		for i, d := range at {
			if want := time.Duration(i+1) * 80 * time.Millisecond; (d - want).Abs() > 2*time.Millisecond {
				t.Errorf("tick %d after %s, want %s", i+1, d, want)
			}
		}
		m.Set(0)
		time.Sleep(time.Second)
		if ns, _ := h.take(); len(ns) > 0 {
			t.Errorf("ticks %v after its end", ns)
		}
	})
}

// In a sleep nothing comes, and afterwards nothing is made up for.
func TestMetronomeStandsStillInASleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, h := NewClock(clock.Go()), &heard{start: time.Now()}
		m := NewMetronome(c, h.send)
		m.Set(20 * time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		if ns, _ := h.take(); !slices.Equal(ns, []int{1, 2}) {
			t.Fatalf("ticks %v before the sleep", ns)
		}
		c.Set(history.Clock{Suspended: true})
		time.Sleep(time.Second)
		if ns, _ := h.take(); len(ns) > 0 {
			t.Errorf("ticks %v in the sleep", ns)
		}
		c.Set(history.Clock{})
		time.Sleep(50 * time.Millisecond)
		if ns, at := h.take(); len(ns) != 2 && len(ns) != 3 || ns[0] != 3 || ns[1] < 50 {
			t.Errorf("ticks %v at %v after the sleep: want the one that was due, and then the clock's own", ns, at)
		}
		m.Set(0)
	})
}
