package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/own"
)

// life is one process.
type life struct {
	worker *Worker
	name   string
	binary string // of fencepost's own worker
	proc   *osproc.Process
	conn   *control.Conn
	agent  *own.Agent // of a user's own program; nil for fencepost's worker
	log    string     // its file
	ready  chan struct{}
	heard  chan struct{} // closed when all that it said is heard
	done   chan struct{} // closed when it has ended and that is recorded
	mu     sync.Mutex
	stats  control.Stats
	fault  string // the worker's own last words
	clocks chan control.Reading
	ticks  []Tick
	offset atomic.Int64 // of its wall clock, in ms
}

func (l *life) running() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

func (l *life) totals() control.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// send tells the process something. One that is gone needs no telling: its end closes its side of
// the channel, and wait closes this one, both before running is false.
func (l *life) send(m control.Message) error {
	err := l.conn.Send(m)
	if errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// listen handles what the worker says until its channel closes.
func (l *life) listen() {
	defer close(l.heard)
	for {
		m, err := l.conn.Receive()
		if err != nil {
			return // io.EOF or reset: the process ended; wait has the story
		}
		switch m.Cmd {
		case control.CmdReady:
			close(l.ready)
		case control.CmdHit:
			l.worker.fleet.onHit(l, m)
		case control.CmdStats, control.CmdStopped:
			if m.Stats != nil {
				l.mu.Lock()
				l.stats = *m.Stats
				l.mu.Unlock()
			}
		case control.CmdClock:
			if m.Reading != nil {
				select {
				case l.clocks <- *m.Reading:
				default: // nobody waits for it any more
				}
			}
		case control.CmdTick:
			now := time.Now()
			l.mu.Lock()
			l.ticks = append(l.ticks, Tick{N: m.ID, At: now})
			l.mu.Unlock()
		case control.CmdError:
			l.mu.Lock()
			l.fault = m.Error
			l.mu.Unlock()
		case control.CmdUnrecorded:
			if broken := l.worker.fleet.cfg.Broken; broken != nil {
				broken(l.name, fmt.Errorf("it cannot record what it does: %s", m.Error))
			}
		case control.CmdLate:
			l.worker.fleet.onLate(m)
		}
	}
}

// wait waits for the end of the process, and records it.
func (l *life) wait() {
	<-l.proc.Done()
	if l.agent != nil {
		l.endOwn()
	}
	<-l.heard // its last words too
	l.conn.Close()
	cfg := &l.worker.fleet.cfg
	end := l.proc.Life()
	fileErr := end.Holds(l.worker.fleet.historyFile(l.name))
	wrong := end.Unplanned()
	if wrong != "" && len(end.Log) == 0 && l.fault != "" {
		end.Log = []string{l.fault}
	}
	cfg.Recorder.Record(history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteLife, Details: &history.Details{Life: &end}})
	if how := l.cutOff(&end, wrong); how != "" {
		cfg.Recorder.Record(history.Event{Proc: l.name, Type: history.Note, Op: history.NoteCrash, Error: how})
	}
	close(l.done)
	if fileErr != nil && cfg.Broken != nil {
		cfg.Broken(l.name, fmt.Errorf("its history cannot be read: %w", fileErr))
	}
	if wrong != "" && cfg.Unexpected != nil {
		cfg.Unexpected(l.name, fmt.Errorf("%s%s", wrong, l.lastWords()))
	}
}

// cutOff is why a life may have left its record in the middle of something, "" if it ended
// in order.
func (l *life) cutOff(end *history.ProcessLife, wrong string) string {
	switch {
	case end.Overdue != "":
		return fmt.Sprintf("SIGKILL by %s: it %s", history.Runner, end.Overdue)
	case wrong != "" && l.fault != "":
		return end.Ending() + ": " + l.fault
	case wrong != "":
		return end.Ending()
	case end.Signal != "":
		return fmt.Sprintf("%s by %s", end.Signal, end.By)
	}
	return ""
}

// lastWords is what a worker said of its end, and where there is more.
func (l *life) lastWords() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == "" {
		return l.proc.LastWords()
	}
	return fmt.Sprintf(": %s (its log: %s)", l.fault, l.log)
}

// ending is how a process ended that was not to.
func (l *life) ending() error {
	p := l.proc.Life()
	return fmt.Errorf("%s%s", p.Ending(), l.lastWords())
}

// EndedError is a life that ended before it was ready.
type EndedError struct {
	Life string
	Err  error // how
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("%s ended before it was ready: %v", e.Life, e.Err)
}

func (e *EndedError) Unwrap() error { return e.Err }

// Kill ends the process by SIGKILL, with all that it has started, and returns when nothing
// of it is left and its end is recorded. The error Is osproc.ErrEnded if it had ended
// already.
func (w *Worker) Kill(ctx context.Context) error {
	return w.do("kill", func(l *life) error {
		err := l.proc.Kill(ctx)
		if !l.proc.Running() {
			<-l.done
		}
		return err
	})
}

// Pause stops the process (SIGSTOP), with all that it has started, and returns when every
// thread of it stands still.
func (w *Worker) Pause(ctx context.Context) error {
	return w.do("pause", func(l *life) error { return l.proc.Pause(ctx) })
}

// Resume lets it go on (SIGCONT) and returns when no thread stands still.
func (w *Worker) Resume(ctx context.Context) error {
	return w.do("resume", func(l *life) error { return l.proc.Resume(ctx) })
}

// Standing is how many processes the worker has, if every thread of every one stands
// still; else the error says which does not.
func (w *Worker) Standing() (n int, err error) {
	err = w.do("look at", func(l *life) error { n, err = l.proc.Standing(); return err })
	return n, err
}

func (w *Worker) do(what string, to func(*life) error) error {
	l, err := w.live()
	if err != nil {
		return err
	}
	if err := to(l); err != nil {
		return fmt.Errorf("%s %s: %w", what, l.name, err)
	}
	return nil
}

// Stop asks the process to end in order, by SIGTERM as a deployment does, and gives it up
// when ctx is over. How it ended, or had already, is no error: its life tells.
func (w *Worker) Stop(ctx context.Context) error {
	l := w.current()
	if l == nil || !l.running() {
		return nil
	}
	err := l.proc.End(ctx, syscall.SIGTERM)
	if !l.proc.Running() {
		<-l.done
	}
	if errors.Is(err, osproc.ErrEnded) || errors.Is(err, osproc.ErrOverdue) && !l.proc.Running() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return nil
}

// Terminate is Stop, and demands that the process ran and ended in order.
func (w *Worker) Terminate(ctx context.Context) error {
	l, err := w.live()
	if err != nil {
		return err
	}
	if err := w.Stop(ctx); err != nil {
		return err
	}
	end := l.proc.Life()
	if wrong := end.Unplanned(); wrong != "" {
		return fmt.Errorf("%s %s%s", l.name, wrong, l.lastWords())
	}
	return nil
}

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
	if err := l.send(control.Message{Cmd: control.CmdClock, Clock: to}); err != nil {
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
	l.offset.Store(to.OffsetMS)
	l.worker.fleet.cfg.Recorder.Record(history.Event{Proc: l.name, Type: history.Note, Op: history.NoteClock, Details: &history.Details{Clock: to}})
}

// Offset is by how much the harness has made the wall clock of the worker's current life wrong;
// 0 without one.
func (w *Worker) Offset() time.Duration {
	l, err := w.live()
	if err != nil {
		return 0
	}
	return time.Duration(l.offset.Load()) * time.Millisecond
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
	if err := l.send(control.Message{Cmd: control.CmdTick, Every: every}); err != nil {
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
