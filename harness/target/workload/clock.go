package workload

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/clock"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// Clock is a worker's clocks, which faults can make wrong: the wall clock's
// setting, the lease clock's rate, and the machine's sleep, in which the lease
// clock goes on (as CLOCK_BOOTTIME does) and timers stand still (as those of
// CLOCK_MONOTONIC do). It starts out right.
type Clock struct {
	base  clock.Clock
	state atomic.Pointer[clockState]
	mu    sync.Mutex // orders Set
}

// clockState is immutable.
type clockState struct {
	set history.Clock
	// The reading was at when the base clock read since; from then on it runs
	// by 1 + rate.
	at, since time.Duration
	rate      float64
	// asleep is for how long, by the reading, the machine had slept before since.
	asleep time.Duration
	// awake is closed when the present sleep ends; nil while the machine is awake.
	awake chan struct{}
}

var _ clock.Clock = (*Clock)(nil)

// NewClock returns a right clock over base.
func NewClock(base clock.Clock) *Clock {
	c := &Clock{base: base}
	now := base.Now()
	c.state.Store(&clockState{at: now, since: now})
	return c
}

func (s *clockState) read(base time.Duration) time.Duration {
	d := base - s.since
	return s.at + d + time.Duration(s.rate*float64(d))
}

// Now implements clock.Clock: the lease clock.
func (c *Clock) Now() time.Duration {
	s := c.state.Load()
	return s.read(c.base.Now())
}

// Awake is the lease clock without the time that the machine slept, which is
// what Go's own monotonic clock shows. Timers go by it.
func (c *Clock) Awake() time.Duration {
	s := c.state.Load()
	if s.awake != nil {
		return s.at - s.asleep
	}
	return s.read(c.base.Now()) - s.asleep
}

// Wall is the wall clock.
func (c *Clock) Wall() time.Time {
	return time.Now().Add(time.Duration(c.state.Load().set.OffsetMS) * time.Millisecond)
}

// Set changes the clocks from now on.
func (c *Clock) Set(to history.Clock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	base := c.base.Now()
	s := &clockState{set: to, at: old.read(base), since: base, rate: float64(to.RatePPM) / 1e6, asleep: old.asleep, awake: old.awake}
	if old.awake != nil {
		s.asleep += s.at - old.at
	}
	switch {
	case to.Suspended && s.awake == nil:
		s.awake = make(chan struct{})
	case !to.Suspended && s.awake != nil:
		s.awake = nil
		defer close(old.awake)
	}
	c.state.Store(s)
}

// AfterFunc implements clock.Clock; it fires when the machine has been awake for d.
func (c *Clock) AfterFunc(d time.Duration, f func()) func() bool {
	t := &timer{c: c, f: f, due: c.Awake() + d}
	t.arm()
	return t.stop
}

// Sleep implements clock.Clock.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done := make(chan struct{})
	stop := c.AfterFunc(d, func() { close(done) })
	defer stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// timer goes by the awake clock, whatever the base clock's timers do.
type timer struct {
	c   *Clock
	f   func()
	due time.Duration

	mu   sync.Mutex
	over bool // fired or stopped
	halt func() bool
}

func (t *timer) arm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	s := t.c.state.Load()
	left := time.Duration(float64(t.due-t.c.Awake()) / (1 + s.rate))
	t.halt = t.c.base.AfterFunc(max(left, 0), t.fire)
}

func (t *timer) fire() {
	if awake := t.c.state.Load().awake; awake != nil {
		<-awake
		t.arm()
		return
	}
	if t.due-t.c.Awake() > time.Millisecond { // the machine slept, or the rate changed
		t.arm()
		return
	}
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	t.over = true
	t.mu.Unlock()
	t.f()
}

func (t *timer) stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.over = true
	t.halt()
	return true
}

// Metronome ticks by the clock that leases go by, so that the runner can time that clock
// by its own, and see that its timers stand still. Ticks that it could not send in time
// are left out, and never made up for.
type Metronome struct {
	clock clock.Clock
	send  func(control.Message) error

	mu    sync.Mutex
	every time.Duration
	began time.Duration
	round int // of Set
	halt  func() bool
}

// NewMetronome returns one that does not tick yet. Messages go to send.
func NewMetronome(c clock.Clock, send func(control.Message) error) *Metronome {
	return &Metronome{clock: c, send: send}
}

// Set begins to tick again, or ends it (0).
func (m *Metronome) Set(every time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.halt != nil {
		m.halt()
		m.halt = nil
	}
	m.round++
	m.every, m.began = every, m.clock.Now()
	if every > 0 {
		m.arm(1)
	}
}

// arm awaits the tick of a number. Called with mu held.
func (m *Metronome) arm(n int) {
	round := m.round
	due := m.began + time.Duration(n)*m.every
	m.halt = m.clock.AfterFunc(due-m.clock.Now(), func() { m.tick(n, round) })
}

func (m *Metronome) tick(n, round int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if round != m.round || m.send(control.Message{Cmd: control.CmdTick, ID: n}) != nil {
		return // ended, or the runner is gone
	}
	m.arm(max(n, int((m.clock.Now()-m.began)/m.every)) + 1)
}
