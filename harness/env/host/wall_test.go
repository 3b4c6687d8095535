package host

import (
	"slices"
	"testing"
	"time"
)

// TestMoved: a step is said once, slewing when it has come to as much, and a clock that is set back too.
func TestMoved(t *testing.T) {
	t.Parallel()
	var m moved
	var said []int64
	for _, all := range []time.Duration{0, 99, -99, 3300, 3300, 3390, 3400, 3450, -20, -119, -120} {
		if ms, ok := m.by(all * time.Millisecond); ok {
			said = append(said, ms)
		}
	}
	if want := []int64{3300, 3400, -20, -120}; !slices.Equal(said, want) {
		t.Errorf("%v, want %v", said, want)
	}
}

// TestWatchWall: a clock that nobody sets is not said to be set, and the watch ends.
func TestWatchWall(t *testing.T) {
	t.Parallel()
	stop := WatchWall(func(ms int64) {
		if max(ms, -ms) > 60_000 {
			t.Errorf("set by %d ms", ms)
		}
	})
	time.Sleep(3 * wallEvery)
	stop()
	stop()
}
