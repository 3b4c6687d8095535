package enginetest

import (
	"context"
	"sync"
	"time"

	"fencepost/core/clock"
)

// simClock is a process's clock as clock.System is in production. It runs at a wrong rate. While
// its process is paused, timers fire late. While its machine is suspended the clock itself goes
// on, and timers stand still: they fire later by as much.
type simClock struct {
	clock.Clock
	rate   float64
	origin time.Time
	p      *process
}

func (c simClock) scale(d time.Duration) time.Duration { return time.Duration(float64(d)/c.rate) + 1 }

func (c simClock) Now() time.Duration { return time.Duration(float64(time.Since(c.origin)) * c.rate) }

func (c simClock) AfterFunc(d time.Duration, f func()) func() bool {
	t, slept := &simTimer{}, c.p.slept()
	var fire func()
	fire = func() {
		if late := c.p.slept() - slept; late > 0 {
			slept += late
			t.arm(c.Clock, late, fire)
			return
		}
		c.p.session.Hold()
		f()
	}
	t.arm(c.Clock, c.scale(d), fire)
	return t.stop
}

func (c simClock) Sleep(ctx context.Context, d time.Duration) error {
	slept := c.p.slept()
	err := c.Clock.Sleep(ctx, c.scale(d))
	for err == nil {
		late := c.p.slept() - slept
		if late <= 0 {
			break
		}
		slept += late
		err = c.Clock.Sleep(ctx, late)
	}
	c.p.session.Hold()
	return err
}

// simTimer is a timer that is set again for as long as its machine was suspended.
type simTimer struct {
	mu      sync.Mutex
	stopped bool
	inner   func() bool
}

func (t *simTimer) arm(c clock.Clock, d time.Duration, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.inner = c.AfterFunc(d, f)
	}
}

func (t *simTimer) stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	return t.inner()
}

// suspend is a time in which a process's machine sleeps.
type suspend struct {
	from   time.Time
	length time.Duration
}

func (p *process) suspend(d time.Duration) {
	p.w.mu.Lock()
	p.suspends = append(p.suspends, suspend{time.Now(), d})
	p.w.mu.Unlock()
	p.pause(d)
}

// slept is how long the suspends last that have begun.
func (p *process) slept() (sum time.Duration) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, s := range p.suspends {
		sum += s.length
	}
	return sum
}

// monotonic is the clock that stands still in a suspend, as Go's own does.
type monotonic struct{ simClock }

func (c monotonic) Now() time.Duration {
	c.p.w.mu.Lock()
	defer c.p.w.mu.Unlock()
	now := time.Since(c.origin)
	for _, s := range c.p.suspends {
		now -= min(time.Since(s.from), s.length)
	}
	return time.Duration(float64(now) * c.rate)
}
