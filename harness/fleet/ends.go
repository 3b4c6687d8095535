package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"fencepost/harness/control"
)

// Kill sends SIGKILL and waits for the process to be gone. By is who asked, for the record.
func (w *Worker) Kill(by string) error {
	l, err := w.live()
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.killed = by
	l.mu.Unlock()
	if err := l.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", w.name, err)
	}
	<-l.done
	return nil
}

// Pause sends SIGSTOP and verifies that the process stands still.
func (w *Worker) Pause(ctx context.Context) error {
	return w.signal(ctx, syscall.SIGSTOP, func(state string) bool { return state == "T" })
}

// Resume sends SIGCONT and verifies that the process goes on.
func (w *Worker) Resume(ctx context.Context) error {
	return w.signal(ctx, syscall.SIGCONT, func(state string) bool { return state != "T" && state != "" })
}

func (w *Worker) signal(ctx context.Context, sig syscall.Signal, want func(string) bool) error {
	l, err := w.live()
	if err != nil {
		return err
	}
	if err := l.signal(sig); err != nil {
		return fmt.Errorf("%s to %s: %w", sig, w.name, err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !want(w.ProcessState()) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s to %s had no effect, process state %q: %w", sig, w.name, w.ProcessState(), ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// Stop asks the worker to finish its cycles and end; when ctx ends first it is killed.
func (w *Worker) Stop(ctx context.Context) error {
	l := w.current()
	if l == nil || !l.running() {
		return nil
	}
	if l.agent != nil {
		return w.Terminate(ctx)
	}
	l.mu.Lock()
	l.told = true
	l.mu.Unlock()
	if err := l.conn.Send(control.Message{Cmd: control.CmdStop}); err != nil && !errors.Is(err, io.ErrClosedPipe) && l.running() {
		return errors.Join(fmt.Errorf("stop %s: %w", w.name, err), w.Kill("runner: its control channel is gone"))
	}
	return w.ended(ctx, l)
}

// Terminate is Stop by SIGTERM, as a deployment ends a process.
func (w *Worker) Terminate(ctx context.Context) error {
	l, err := w.live()
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.told = true
	l.mu.Unlock()
	if err := l.signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("SIGTERM to %s: %w", w.name, err)
	}
	return w.ended(ctx, l)
}

// ended waits for a life that was told to stop, and kills it when ctx ends first.
func (w *Worker) ended(ctx context.Context, l *life) error {
	select {
	case <-l.done:
		if l.err != nil && l.agent != nil {
			return fmt.Errorf("%s was told to end (SIGTERM) and did so with %w, not with exit code 0%s", l.name, l.err, l.lastWords())
		}
		return l.err
	case <-ctx.Done():
		err := fmt.Errorf("%s did not end in time and was killed: %w", w.name, ctx.Err())
		if l.agent != nil {
			err = fmt.Errorf("%s did not end in time after SIGTERM and was killed: %w%s", l.name, ctx.Err(), l.lastWords())
		}
		return errors.Join(err, w.Kill("runner: did not stop in time"))
	}
}
