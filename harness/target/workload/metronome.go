package workload

import (
	"sync"
	"time"

	"fencepost/core/clock"
	"fencepost/harness/target/control"
)

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
