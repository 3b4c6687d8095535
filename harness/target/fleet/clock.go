package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// Clock sets the worker's clocks (nil: leaves them) and returns what they show.
// One call at a time.
//
// The harness notes it, as no worker is believed about its own clocks: what makes them
// wrong before the change, what sets them right when it is done. So the notes cover all
// of the time in which they were wrong.
func (w *Worker) Clock(ctx context.Context, to *history.Clock) (control.Reading, error) {
	l, err := w.live()
	if err != nil {
		return control.Reading{}, err
	}
	select {
	case <-l.clocks: // the late answer to a call that gave up
	default:
	}
	wrong := to != nil && *to != (history.Clock{})
	if wrong {
		l.noteClock(to)
	}
	if err := l.conn.Send(control.Message{Cmd: control.CmdClock, Clock: to}); err != nil {
		return control.Reading{}, fmt.Errorf("clock of %s: %w", w.name, err)
	}
	select {
	case r := <-l.clocks:
		if to != nil && !wrong {
			l.noteClock(to)
		}
		return r, nil
	case <-l.done:
		return control.Reading{}, fmt.Errorf("clock of %s: the process ended", w.name)
	case <-ctx.Done():
		return control.Reading{}, fmt.Errorf("clock of %s: no answer: %w", w.name, ctx.Err())
	}
}

func (l *life) noteClock(to *history.Clock) {
	l.worker.fleet.cfg.Recorder.Record(history.Event{Proc: l.name, Type: history.Note, Op: history.NoteClock, Details: &history.Details{Clock: to}})
}

// Tick is one tick of a worker, as it came here.
type Tick struct {
	N  int       // its number since the worker was told to tick
	At time.Time // by the harness's clock; a tick can be late, and not early
}

// Metronome has the worker's current life tick whenever the clock that its leases go by
// has gone on by every; 0 ends that. What came before is forgotten.
func (w *Worker) Metronome(every time.Duration) error {
	l, err := w.live()
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.ticks = nil
	l.mu.Unlock()
	if err := l.conn.Send(control.Message{Cmd: control.CmdTick, Every: every}); err != nil {
		return fmt.Errorf("ticks of %s: %w", w.name, err)
	}
	return nil
}

// Ticks are those of the current life that came since it was told to tick.
func (w *Worker) Ticks() []Tick {
	l := w.current()
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ticks)
}
