package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// End is one direction of one link.
type End struct {
	Link *Link
	Dir  Dir
}

// Change is a mode for an end.
type Change struct {
	End
	Mode Mode
}

// Ends pairs each link with each of the directions; none given means both.
func Ends(links []*Link, dirs ...Dir) []End {
	if len(dirs) == 0 {
		dirs = Dirs[:]
	}
	out := make([]End, 0, len(links)*len(dirs))
	for _, l := range links {
		for _, d := range dirs {
			out = append(out, End{l, d})
		}
	}
	return out
}

// Heal lets every link of the fabric pass.
func (f *Fabric) Heal(ctx context.Context) error {
	return SetEnds(ctx, Ends(f.All()), Mode{Kind: Pass})
}

// SetEnds puts all the ends, of whatever fabrics, into the mode: see Apply.
func SetEnds(ctx context.Context, ends []End, m Mode) error {
	changes := make([]Change, len(ends))
	for i, e := range ends {
		changes[i] = Change{e, m}
	}
	return Apply(ctx, changes...)
}

// Settle waits until the writes count that are under way at the ends, as a switch that stops them
// does. It switches nothing.
func Settle(ctx context.Context, ends []End) error {
	var waits []wait
	limit := time.Duration(0)
	for _, e := range ends {
		if err := e.validate("settle"); err != nil {
			return err
		}
		open, _ := e.Link.live()
		for _, c := range open {
			if idle := c.flows[e.Dir].underWay(); idle != nil {
				waits = append(waits, wait{idle, e.Link.name, "a write to its receiver to end"})
			}
		}
		limit = shorter(limit, e.Link.fab.opt.Watchdog)
	}
	return awaitAll(ctx, "settle", limit, waits)
}

// switching makes the switches of one Apply contiguous among all.
var switching sync.Mutex

// Apply switches all the ends, of whatever fabrics: first every pointer
// (microseconds for all of them), then it waits until every connection obeys. When
// it returns nil, not one further byte reaches a receiver against the new modes,
// and connections that the change ends are gone and counted.
//
// Nothing is switched if a change is invalid (ErrMode, ErrSpec) or its link is
// closed (ErrClosed). Otherwise all is switched, even if ctx is over, so that
// healing works during a shutdown; ctx only ends the wait. No changes are no error. A wait over the
// smallest Options.Watchdog concerned returns a *WatchdogError.
func Apply(ctx context.Context, changes ...Change) error {
	for _, c := range changes {
		if err := c.validate(); err != nil {
			return err
		}
	}
	switching.Lock()
	for _, c := range changes {
		c.Link.ctl[c.Dir].set(c.Mode)
	}
	switching.Unlock()

	// Interrupt everything first and wait second, so that the waits overlap.
	var waits []wait
	limit := time.Duration(0)
	for _, c := range changes {
		waits = append(waits, c.Link.enforce(c.Dir)...)
		limit = shorter(limit, c.Link.fab.opt.Watchdog)
	}
	return awaitAll(ctx, "set", limit, waits)
}

func (c Change) validate() error {
	if err := c.End.validate("set"); err != nil {
		return err
	}
	if err := c.Mode.Validate(); err != nil {
		return &OpError{Op: "set", Link: c.Link.Name(), Err: err}
	}
	return nil
}

func (e End) validate(op string) error {
	switch {
	case e.Link == nil:
		return &OpError{Op: op, Err: fmt.Errorf("%w: an end without a link", ErrSpec)}
	case !e.Dir.valid():
		return &OpError{Op: op, Link: e.Link.Name(), Err: fmt.Errorf("%w: no direction %d", ErrMode, int(e.Dir))}
	case e.Link.isClosed():
		return &OpError{Op: op, Link: e.Link.Name(), Err: ErrClosed}
	}
	return nil
}

// Flush delivers what the ends hold at this moment and goes on holding what
// comes later: the bytes that were received by now, and the end of the stream if
// it came. It returns how many bytes it set free, once they are written to their
// receivers. The error Is ErrNotStalled, before anything is delivered, if an
// end is in another mode than Stall, or is a *WatchdogError if a receiver does
// not take its bytes.
func Flush(ctx context.Context, ends ...End) (int64, error) {
	for _, e := range ends {
		if err := e.validate("flush"); err != nil {
			return 0, err
		}
		if m := e.Link.Mode(e.Dir); m.Kind != Stall {
			return 0, &OpError{Op: "flush", Link: e.Link.Name(), Err: fmt.Errorf("%w: %s is in mode %s", ErrNotStalled, e.Dir, m)}
		}
	}
	var n int64
	var waits []wait
	limit := time.Duration(0)
	for _, e := range ends {
		freed, w := e.Link.flush(e.Dir)
		n += freed
		waits = append(waits, w...)
		limit = shorter(limit, e.Link.fab.opt.Watchdog)
	}
	return n, awaitAll(ctx, "flush", limit, waits)
}

// wait is something that an operation has asked for and that must happen.
type wait struct {
	done    <-chan struct{}
	link    string
	waiting string // what that is, for the error
}

// awaitAll waits for everything, bounded by ctx and by the watchdog's limit.
func awaitAll(ctx context.Context, op string, limit time.Duration, ws []wait) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrWatchdog)
	defer cancel()
	for _, w := range ws {
		select {
		case <-w.done: // even if ctx is over
			continue
		default:
		}
		select {
		case <-w.done:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), ErrWatchdog) {
				return &WatchdogError{Op: op, Link: w.link, Limit: limit, Waiting: w.waiting}
			}
			return &OpError{Op: op, Link: w.link, Err: fmt.Errorf("waiting for %s: %w", w.waiting, context.Cause(ctx))}
		}
	}
	return nil
}

func shorter(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

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
