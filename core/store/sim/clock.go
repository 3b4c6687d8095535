package sim

import (
	"context"
	"sync"
	"time"

	"fencepost/core/clock"
)

// Clock is the clock of a session's process, as clock.System is in production. It runs at a wrong
// rate. While its process stands still, timers fire late. While its machine is suspended the
// clock itself goes on, and timers stand still: they fire later by as much.
type Clock struct {
	clock.Clock
	rate    float64
	origin  time.Time
	session *Session
}

// Clock returns a clock of that rate for the session's process.
func (p *Session) Clock(rate float64) Clock {
	return Clock{clock.Go(), rate, time.Now().Add(-time.Hour), p}
}

func (c Clock) scale(d time.Duration) time.Duration { return time.Duration(float64(d)/c.rate) + 1 }

// Now implements clock.Clock.
func (c Clock) Now() time.Duration { return time.Duration(float64(time.Since(c.origin)) * c.rate) }

// AfterFunc implements clock.Clock.
func (c Clock) AfterFunc(d time.Duration, f func()) func() bool {
	t, slept := &timer{}, c.session.slept()
	var fire func()
	fire = func() {
		if late := c.session.slept() - slept; late > 0 {
			slept += late
			t.arm(c.Clock, late, fire)
			return
		}
		c.session.Hold()
		f()
	}
	t.arm(c.Clock, c.scale(d), fire)
	return t.stop
}

// Sleep implements clock.Clock.
func (c Clock) Sleep(ctx context.Context, d time.Duration) error {
	slept := c.session.slept()
	err := c.Clock.Sleep(ctx, c.scale(d))
	for err == nil {
		late := c.session.slept() - slept
		if late <= 0 {
			break
		}
		slept += late
		err = c.Clock.Sleep(ctx, late)
	}
	c.session.Hold()
	return err
}

// Monotonic is a Clock that stands still in a suspend, as Go's own does: to trust it is a mistake.
type Monotonic struct{ Clock }

// Now implements clock.Clock.
func (c Monotonic) Now() time.Duration {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	now := time.Since(c.origin)
	for _, s := range c.session.suspends {
		now -= min(time.Since(s.from), s.length)
	}
	return time.Duration(float64(now) * c.rate)
}

// timer is set again for as long as its machine was suspended.
type timer struct {
	mu      sync.Mutex
	stopped bool
	inner   func() bool
}

func (t *timer) arm(c clock.Clock, d time.Duration, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.inner = c.AfterFunc(d, f)
	}
}

func (t *timer) stop() bool {
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

// Suspend makes the machine of the process sleep: it stands still as in a Pause, and the timers
// of its Clock with it.
func (p *Session) Suspend(d time.Duration) {
	p.mu.Lock()
	p.suspends = append(p.suspends, suspend{time.Now(), d})
	p.mu.Unlock()
	p.Pause(d)
}

// slept is how long the suspends last that have begun.
func (p *Session) slept() (sum time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.suspends {
		sum += s.length
	}
	return sum
}
