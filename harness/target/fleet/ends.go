package fleet

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"fencepost/harness/env/osproc"
)

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
