package workload

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

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
