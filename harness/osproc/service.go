package osproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
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
	// Command makes the command of a life. Its process group is its own, and it ends with
	// the harness; its output is the log.
	Command func() *exec.Cmd
	// Ready asks it whether it answers.
	Ready func(ctx context.Context) error
	// Dir holds what it stores and is removed by Close.
	Dir string
	// Secret is a file with what is shown to it at a login, "" for none.
	Secret string
	// Closed is called at the end of Close; nil: nothing is.
	Closed func() error
	// EndSignal asks it to end in order. Default SIGTERM.
	EndSignal syscall.Signal
	// Log is the file that its output is appended to.
	Log string
	// Ended is called when a process ends that nobody ended; nil: nobody is told.
	Ended func(error)

	mu   sync.Mutex
	life *serviceLife
}

type serviceLife struct {
	pid   int
	done  chan struct{}
	err   error // after done
	asked bool  // to end; under Service.mu
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

func (p *Service) running() *serviceLife {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.life; l != nil {
		select {
		case <-l.done:
		default:
			return l
		}
	}
	return nil
}

// PID is its process, 0 if none runs.
func (p *Service) PID() int {
	if l := p.running(); l != nil {
		return l.pid
	}
	return 0
}

// State is the letter of /proc/PID/stat: R, S, T (stopped) …, "" if none runs.
func (p *Service) State() string {
	if pid := p.PID(); pid != 0 {
		return Letter(pid)
	}
	return ""
}

// Start starts it, on what an earlier life stored, and returns when it answers.
func (p *Service) Start(ctx context.Context) error {
	if p.PID() != 0 {
		return fmt.Errorf("%s runs already", p.Name)
	}
	l, err := p.spawn()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := p.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-l.done:
			return fmt.Errorf("%s ended before it answered: %w%s", p.Name, l.ending(), LastWords(p.Log))
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s did not answer within %s: %w%s", p.Name, startTimeout, err, LastWords(p.Log)), p.Kill())
		case <-time.After(readyPoll):
		}
	}
}

func (l *serviceLife) ending() error {
	if l.err != nil {
		return l.err
	}
	return errors.New("it ended of itself, with exit code 0")
}

// spawn starts a life. It ends with the thread that started it, so that nothing outlives
// the harness, and that thread is kept for it.
func (p *Service) spawn() (*serviceLife, error) {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := p.Command()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	l := &serviceLife{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer log.Close()
		err := cmd.Start()
		if err == nil {
			l.pid = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		l.err = cmd.Wait()
		_ = SignalGroup(l.pid, syscall.SIGKILL) // what it left behind; as a rule nobody
		p.mu.Lock()
		asked := l.asked
		p.mu.Unlock()
		close(l.done)
		if !asked && p.Ended != nil {
			p.Ended(fmt.Errorf("%s ended, and nobody had asked it to: %w%s", p.Name, l.ending(), LastWords(p.Log)))
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.life = l
	p.mu.Unlock()
	return l, nil
}

// end sends a signal to the process group and waits for the process's end.
func (p *Service) end(sig syscall.Signal, limit time.Duration) error {
	l := p.running()
	if l == nil {
		return nil
	}
	p.mu.Lock()
	l.asked = true
	p.mu.Unlock()
	if err := SignalGroup(l.pid, sig); err != nil {
		return fmt.Errorf("%s to %s: %w", sig, p.Name, err)
	}
	select {
	case <-l.done:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s did not end within %s of %s", p.Name, limit, sig)
	}
}

// Kill ends it by SIGKILL, with all that it has started.
func (p *Service) Kill() error { return p.end(syscall.SIGKILL, endTimeout) }

// Pause stops it (SIGSTOP), with all that it has started, and returns when they stand still.
func (p *Service) Pause(ctx context.Context) error { return p.stopped(ctx, syscall.SIGSTOP, true) }

// Resume lets it go on (SIGCONT) and returns when it does.
func (p *Service) Resume(ctx context.Context) error { return p.stopped(ctx, syscall.SIGCONT, false) }

func (p *Service) stopped(ctx context.Context, sig syscall.Signal, want bool) error {
	l := p.running()
	if l == nil {
		return fmt.Errorf("%s does not run", p.Name)
	}
	if err := signalTree(ctx, l.pid, sig, want); err != nil {
		return fmt.Errorf("%s to %s: %w", sig, p.Name, err)
	}
	return nil
}

// Close ends it in order, or by force if that takes too long, and removes Dir.
func (p *Service) Close() error {
	sig := p.EndSignal
	if sig == 0 {
		sig = syscall.SIGTERM
	}
	if p.State() == "T" {
		sig = syscall.SIGKILL // it cannot hear another one
	}
	err := p.end(sig, endTimeout)
	if err != nil {
		err = errors.Join(err, p.Kill())
	}
	err = errors.Join(err, os.RemoveAll(p.Dir))
	if p.Closed != nil {
		err = errors.Join(err, p.Closed())
	}
	return err
}
