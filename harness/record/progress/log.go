package progress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// ErrAbandoned: the run's process is gone and has not told the end.
var ErrAbandoned = errors.New("the run's process ended without saying how the run ended")

// poll is how often a followed file is looked at.
const poll = 100 * time.Millisecond

// Read returns the events of a file that come after the one with number after (0:
// all). A last line that is not whole yet is left for later.
func Read(path string, after int64) ([]Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Event
	err = newTail(f).each(after, func(e Event) error {
		out = append(out, e)
		return nil
	})
	return out, err
}

// Follow calls f with the events that come after the one with number after (0: all),
// with those to come as they are written, until the last one. It returns nil after
// the last event, f's error, ctx's, [ErrAbandoned], or that of a file that cannot be
// read: os.ErrNotExist if there is none.
func Follow(ctx context.Context, path string, after int64, f func(Event) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	t := newTail(file)
	over := false
	each := func(e Event) error {
		after, over = e.Seq, e.Last()
		return f(e)
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		// In this order: what a writer wrote before it ended is read after that.
		written, err := Written(file)
		if err != nil {
			return err
		}
		if err := t.each(after, each); err != nil {
			return err
		}
		switch {
		case over:
			return nil
		case written:
			return ErrAbandoned
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Written reports whether the file's writer is gone: nothing will follow.
func Written(f *os.File) (bool, error) {
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return true, unix.Flock(int(f.Fd()), unix.LOCK_UN)
}

// tail reads the whole lines of a file that grows.
type tail struct {
	file *os.File
	at   int64 // where the next line begins
	line int
}

func newTail(f *os.File) *tail { return &tail{file: f} }

// each calls f with the events in the lines that are whole by now.
func (t *tail) each(after int64, f func(Event) error) error {
	r := bufio.NewReader(io.NewSectionReader(t.file, t.at, 1<<62))
	for {
		b, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		t.at += int64(len(b))
		t.line++
		if b = bytes.TrimSpace(b); len(b) == 0 {
			continue
		}
		var e Event
		if err := json.Unmarshal(b, &e); err != nil {
			return fmt.Errorf("%s:%d: not a progress event: %w", t.file.Name(), t.line, err)
		}
		if e.Seq <= after {
			continue
		}
		if err := f(e); err != nil {
			return err
		}
	}
}
