package progress

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Log numbers and dates the events of one run, writes them to its file and shows
// them. It is safe for concurrent use; everybody sees the events in the same order.
type Log struct {
	show  func(Event)
	start time.Time

	mu   sync.Mutex
	file *os.File // nil before Begin and after Close
	seq  int64
	err  error // the first that kept an event out of the file
}

// New starts the run's clock. show gets each event after it is in the file, never
// two at once, and must not call the Log; nil shows nothing.
func New(show func(Event)) *Log {
	if show == nil {
		show = func(Event) {}
	}
	return &Log{show: show, start: time.Now()}
}

// Begin makes the file and says what is run. Events before it are shown only.
func (l *Log) Begin(path string, run Run) error {
	// It gets its name with the lock held: who sees it unlocked is to be right in
	// thinking that its writer is gone.
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("progress: %w", err), f.Close(), os.Remove(tmp))
	}
	l.mu.Lock()
	l.file = f
	l.mu.Unlock()
	l.Emit(Event{Kind: KindRun, Run: &run})
	return nil
}

// Emit numbers and dates the event, writes it at once and shows it. What cannot be
// written is shown all the same, and Close says so.
func (l *Log) Emit(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	e.Seq, e.At, e.T = 0, at(now), seconds(now.Sub(l.start))
	if l.file != nil {
		l.seq++
		e.Seq = l.seq
		b, err := line(e)
		if err == nil {
			_, err = l.file.Write(b)
		}
		if err != nil && l.err == nil {
			l.err = fmt.Errorf("progress: %w", err)
		}
	}
	l.show(e)
}

// Step emits what is being done.
func (l *Log) Step(format string, args ...any) { l.Emit(Step(fmt.Sprintf(format, args...))) }

// Problem emits what went wrong and does not end the run.
func (l *Log) Problem(format string, args ...any) {
	l.Emit(Event{Kind: KindProblem, Text: fmt.Sprintf(format, args...)})
}

// Close ends the file and returns why events are missing in it.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		if err := l.file.Close(); err != nil && l.err == nil {
			l.err = fmt.Errorf("progress: %w", err)
		}
		l.file = nil
	}
	return l.err
}
