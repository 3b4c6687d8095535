package osproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"fencepost/harness/record/history"
)

// Time limits of a service's process.
const (
	// startTimeout bounds its start until it answers.
	startTimeout = 45 * time.Second
	// endTimeout bounds its orderly end; then it is killed.
	endTimeout = 10 * time.Second
	// readyPoll is how often it is asked whether it answers.
	readyPoll = 20 * time.Millisecond
)

// Service is a service that the harness starts for a run: one process, with whatever that
// starts in turn, which can be killed, started again on what it stored, and paused. Its
// methods are for one caller at a time.
type Service struct {
	// Name is what errors call it.
	Name string
	// Address is where it listens.
	Address string
	// Command makes the command of a life; its output is the log.
	Command func() *exec.Cmd
	// Ready asks it whether it answers.
	Ready func(ctx context.Context) error
	// Dir holds what it stores and is removed by Close.
	Dir string
	// Secret is a file with what is shown to it at a login, "" for none.
	Secret string
	// Closed is called when Close has ended it, before Dir is removed; nil: nothing is.
	Closed func() error
	// EndSignal asks it to end in order. Default SIGTERM.
	EndSignal syscall.Signal
	// Log is the file that its output is appended to.
	Log string
	// Ended is called when a life of it has ended; nil: nobody is told.
	Ended func(*history.ProcessLife)

	mu   sync.Mutex
	life *Process
}

// ServiceIP is where services listen. On the address from which everybody connects, an
// outgoing connection may be given a service's port while none of its lives holds it.
const ServiceIP = "127.0.2.1"

// FreeAddr is an address at which a service can listen in all of its lives.
func FreeAddr() (string, error) {
	ln, err := net.Listen("tcp", ServiceIP+":0")
	if err != nil {
		return "", fmt.Errorf("an address for a service: %w", err)
	}
	return ln.Addr().String(), ln.Close()
}

// Addr is where it listens; the same in all its lives.
func (p *Service) Addr() string { return p.Address }

func (p *Service) running() *Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life != nil && p.life.Running() {
		return p.life
	}
	return nil
}

// PID is its process, 0 if none runs.
func (p *Service) PID() int {
	if l := p.running(); l != nil {
		return l.PID()
	}
	return 0
}

// Start starts it, on what an earlier life stored, and returns when it answers.
func (p *Service) Start(ctx context.Context) error {
	if p.PID() != 0 {
		return fmt.Errorf("%s runs already", p.Name)
	}
	l, err := Start(Spec{Kind: history.LifeSink, Name: history.LifeSink, Command: p.Command(), Log: p.Log, Ended: p.Ended})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.mu.Lock()
	p.life = l
	p.mu.Unlock()
	limit, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := p.Ready(limit)
		if err == nil {
			return nil
		}
		select {
		case <-l.Done():
			return fmt.Errorf("%s ended before it answered: %w", p.Name, l.Ending())
		case <-limit.Done():
			late := fmt.Sprintf("did not answer within %s", startTimeout)
			err = fmt.Errorf("%s %s: %w%s", p.Name, late, err, l.LastWords())
			if ctx.Err() != nil {
				return errors.Join(err, l.Kill(ctx))
			}
			return errors.Join(err, l.GiveUp(ctx, late))
		case <-time.After(readyPoll):
		}
	}
}

// Kill ends it by SIGKILL, with all that it has started. That none runs is no error; that
// it has ended by itself is (ErrEnded).
func (p *Service) Kill(ctx context.Context) error {
	l := p.running()
	if l == nil {
		return nil
	}
	if err := l.Kill(ctx); err != nil {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	return nil
}

// Pause stops it (SIGSTOP), with all that it has started, and returns when they stand still.
func (p *Service) Pause(ctx context.Context) error {
	return p.live(func(l *Process) error { return l.Pause(ctx) })
}

// Resume lets it go on (SIGCONT) and returns when it does.
func (p *Service) Resume(ctx context.Context) error {
	return p.live(func(l *Process) error { return l.Resume(ctx) })
}

// Standing is how many processes it has, if they all stand still; else an error.
func (p *Service) Standing() (n int, err error) {
	err = p.live(func(l *Process) error { n, err = l.Standing(); return err })
	return n, err
}

func (p *Service) live(do func(*Process) error) error {
	l := p.running()
	if l == nil {
		return fmt.Errorf("%s does not run", p.Name)
	}
	if err := do(l); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// Close ends it in order, or by force if that takes too long, and removes Dir.
func (p *Service) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	err := p.end(ctx)
	if errors.Is(err, ErrEnded) {
		err = nil // its life tells
	}
	if p.Closed != nil {
		err = errors.Join(err, p.Closed())
	}
	return errors.Join(err, os.RemoveAll(p.Dir))
}

func (p *Service) end(ctx context.Context) error {
	l := p.running()
	switch {
	case l == nil:
		return nil
	case stands(l.PID()): // it cannot hear another signal
		return p.Kill(ctx)
	}
	sig := p.EndSignal
	if sig == 0 {
		sig = syscall.SIGTERM
	}
	if err := l.End(ctx, sig); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}
