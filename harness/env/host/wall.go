package host

import (
	"sync"
	"time"
)

const (
	// wallEvery is how often the wall clock is compared with the steady one.
	wallEvery = 50 * time.Millisecond
	// wallStep is by how much it must have moved since that was said last.
	wallStep = 100 * time.Millisecond
)

// WatchWall calls set when somebody has set the host's wall clock, or slewed it, with by how much
// since WatchWall was called, in ms. After stop, which may be called again, it calls no more.
func WatchWall(set func(ms int64)) (stop func()) {
	begin := time.Now()
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(wallEvery)
		defer t.Stop()
		var m moved
		for {
			select {
			case <-end:
				return
			case <-t.C:
			}
			now := time.Now() // a Time has a reading of each clock
			if ms, ok := m.by(now.Round(0).Sub(begin.Round(0)) - now.Sub(begin)); ok {
				set(ms)
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-done })
}

// moved is by how much a clock had moved when that was said last.
type moved time.Duration

// by says whether the clock has moved since, and by how much in all, in ms.
func (m *moved) by(all time.Duration) (ms int64, ok bool) {
	if d := all - time.Duration(*m); max(d, -d) < wallStep {
		return 0, false
	}
	*m = moved(all)
	return all.Milliseconds(), true
}
