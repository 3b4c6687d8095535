package link

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Dir is one direction of a link's connections.
type Dir int

const (
	// Up is what the connecting side sends: bytes from Link.From to Link.To.
	Up Dir = iota
	// Down is what the accepting side answers: bytes from Link.To to Link.From.
	Down
)

// Dirs are both directions, for loops.
var Dirs = [...]Dir{Up, Down}

// String is "up" or "down".
func (d Dir) String() string {
	switch d {
	case Up:
		return "up"
	case Down:
		return "down"
	}
	return fmt.Sprintf("Dir(%d)", int(d))
}

func (d Dir) valid() bool { return d == Up || d == Down }

// Kind is what a link does with the bytes of one direction.
type Kind string

const (
	// Pass forwards bytes as they come. A new link passes.
	Pass Kind = "pass"
	// Latency forwards each chunk at its arrival plus Mode.Latency, plus or minus
	// up to Mode.Jitter. Order is kept and chunks overlap in flight, so that
	// throughput is bounded by Options.MaxHeld/Latency only.
	Latency Kind = "latency"
	// Stall holds bytes, and the end of the stream behind them, and delivers all in
	// order on the same connection when the mode changes: a partition that heals by
	// TCP retransmission. Flush delivers what is held so far and holds on.
	Stall Kind = "stall"
	// Drop discards bytes. A connection that lost bytes is reset when the mode
	// changes, because its stream is corrupt.
	Drop Kind = "drop"
	// Close resets the live connections and every new one. A TCP connection has
	// both directions, so Close of either ends it.
	Close Kind = "close"
)

// Mode is the behaviour of one direction of a link. The zero value is not a
// mode: Kind must be set.
type Mode struct {
	Kind Kind
	// Latency is the mean one-way delay. Latency mode only.
	Latency time.Duration
	// Jitter is the largest deviation from Latency, drawn uniformly from both
	// sides for each chunk; a delay below zero counts as zero. Latency mode only.
	Jitter time.Duration
	// Seed is mixed with the link's name and seed, the connection's number and the
	// direction into the stream of jitter. Latency mode only.
	Seed uint64
}

// Validate says what is wrong with the mode, as an error that Is ErrMode.
func (m Mode) Validate() error {
	switch m.Kind {
	case Pass, Stall, Drop, Close:
		if m.Latency != 0 || m.Jitter != 0 {
			return fmt.Errorf("%w: latency and jitter belong to kind %q, not %q", ErrMode, Latency, m.Kind)
		}
	case Latency:
		if m.Latency < 0 || m.Jitter < 0 {
			return fmt.Errorf("%w: latency %v and jitter %v must not be negative", ErrMode, m.Latency, m.Jitter)
		}
		if m.Latency == 0 && m.Jitter == 0 {
			return fmt.Errorf("%w: kind %q needs a latency or a jitter; use %q for none", ErrMode, Latency, Pass)
		}
	default:
		return fmt.Errorf("%w: unknown kind %q, want %s, %s, %s, %s or %s", ErrMode, m.Kind, Pass, Latency, Stall, Drop, Close)
	}
	return nil
}

// String is the kind, for latency with its figures.
func (m Mode) String() string {
	if m.Kind == Latency {
		return fmt.Sprintf("%s %v±%v", m.Kind, m.Latency, m.Jitter)
	}
	return string(m.Kind)
}

// swallows reports a mode under which a peer sees a connection that answers
// nothing.
func (m Mode) swallows() bool { return m.Kind == Stall || m.Kind == Drop }

// modeState is one active mode. It is immutable; replaced is closed by the
// goroutine that swaps it out, exactly once, since a swap yields each state once.
type modeState struct {
	Mode
	replaced chan struct{}
}

// control is the switch of one direction of a link, shared by all its streams:
// a pointer to swap and a channel to wake. There is no lock to wait for, so a
// stream that is stuck on a socket cannot delay a switch.
type control struct{ state atomic.Pointer[modeState] }

func newControl() *control {
	c := new(control)
	c.state.Store(&modeState{Mode: Mode{Kind: Pass}, replaced: make(chan struct{})})
	return c
}

func (c *control) load() *modeState { return c.state.Load() }

// set puts m in force. The mode that is in force already stays as it is, so
// that repeating a Drop does not count as a change.
func (c *control) set(m Mode) {
	next := &modeState{Mode: m, replaced: make(chan struct{})}
	for {
		old := c.state.Load()
		if old.Mode == m {
			return
		}
		if c.state.CompareAndSwap(old, next) {
			close(old.replaced)
			return
		}
	}
}
