package osproc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fencepost/harness/record/history"
)

const (
	// killTimeout bounds what the kernel takes to end killed processes, and standTimeout
	// what it takes to stop them before.
	killTimeout  = 30 * time.Second
	standTimeout = 5 * time.Second
	// lastWordsTimeout is how long a process that is given up may take to print where it
	// hangs.
	lastWordsTimeout = 2 * time.Second
)

// ErrEnded: the process had ended by itself before it could be asked to. ErrOverdue: it had
// not ended in its time, and was killed.
var (
	ErrEnded   = errors.New("it had ended by itself")
	ErrOverdue = errors.New("it was killed, as it was overdue")
)

// Spec says what a Process is.
type Spec struct {
	Kind, Name string // of its life, as history.ProcessLife has them
	Command    *exec.Cmd
	// Log is the file that its output is appended to. What the command says of its output
	// itself stands.
	Log string
	// Guarded gives it a guard for parent; see the package comment. The command then
	// hands on no files and has no attributes.
	Guarded bool
	// Traces: SIGQUIT makes it print where its threads are.
	Traces bool
	// Start starts the command, with attributes of its own; nil: here, in a process group
	// of its own that ends with the harness.
	Start func(*exec.Cmd) error
	// Ended is called once, before Done is closed; nil: nobody is told.
	Ended func(*history.ProcessLife)
}

// Process is one life of a program, with all that descends from it.
type Process struct {
	spec    Spec
	pid     int
	all     tree
	logFrom int64
	main    chan struct{} // closed when the program itself has ended
	done    chan struct{} // closed when nothing of it is left

	mu     sync.Mutex
	life   history.ProcessLife
	asked  time.Time
	status syscall.WaitStatus // after main
	lost   error              // how it ended cannot be known, and why
}

// Start starts a process.
func Start(s Spec) (*Process, error) {
	p := &Process{spec: s, main: make(chan struct{}), done: make(chan struct{})}
	if s.Log != "" {
		log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return nil, err
		}
		defer log.Close() // the process has its own descriptor
		info, err := log.Stat()
		if err != nil {
			return nil, err
		}
		p.logFrom = info.Size()
		if s.Command.Stdout == nil {
			s.Command.Stdout = log
		}
		if s.Command.Stderr == nil {
			s.Command.Stderr = log
		}
	}
	started := make(chan error)
	if s.Guarded {
		go p.runGuarded(started)
	} else {
		go p.run(started)
	}
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run is the life of a process without a guard. It ends with the thread that started it, so
// that it does not outlive the harness, and that thread is kept for it.
func (p *Process) run(started chan<- error) {
	cmd := p.spec.Command
	start := p.spec.Start
	if start == nil {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
		start = (*exec.Cmd).Start
	}
	if err := start(cmd); err != nil {
		started <- err
		return
	}
	p.begin(cmd.Process.Pid, tree{cmd.Process.Pid, false})
	started <- nil
	p.awaitMain(cmd)
	if p.spec.Start == nil {
		_ = SignalGroup(p.pid, syscall.SIGKILL) // what it left behind; as a rule nobody
	}
	p.finish()
}

// awaitMain waits for the end of a process without a guard, which its parent hears of once.
func (p *Process) awaitMain(cmd *exec.Cmd) {
	err := cmd.Wait()
	if cmd.ProcessState == nil {
		p.ended(0, err)
		return
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	p.ended(status, nil)
}

// runGuarded is the life of a process with a guard.
func (p *Process) runGuarded(started chan<- error) {
	cmd := p.spec.Command
	reports, lifeline, theirs, err := guardOf(cmd)
	if err != nil {
		started <- err
		return
	}
	defer reports.Close()
	defer lifeline.Close()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the harness alone
	err = cmd.Start()
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		started <- err
		return
	}
	hear := json.NewDecoder(reports)
	var r guardReport
	if err := hear.Decode(&r); err != nil || r.Error != "" {
		if err = fmt.Errorf("its guard: %w", err); r.Error != "" {
			err = errors.New(r.Error)
		}
		lifeline.Close()
		_ = cmd.Wait() // it has said why
		started <- err
		return
	}
	p.begin(r.PID, tree{cmd.Process.Pid, true})
	started <- nil
	if err := hear.Decode(&r); err != nil || r.Status == nil {
		p.ended(0, fmt.Errorf("its guard ended before it: %w", err))
	} else {
		p.ended(*r.Status, nil)
	}
	p.mu.Lock()
	asked := p.life.Asked
	p.mu.Unlock()
	if asked == "" {
		_ = p.all.signal(syscall.SIGKILL) // what it left behind
		lifeline.Close()                  // and what that started meanwhile
	}
	_ = cmd.Wait()
	p.finish()
}

func (p *Process) begin(pid int, all tree) {
	p.pid, p.all = pid, all
	p.life = history.ProcessLife{Kind: p.spec.Kind, Name: p.spec.Name, PID: pid}
	if p.spec.Log != "" {
		p.life.LogFile = filepath.Base(p.spec.Log)
	}
}

// ended notes how the program itself ended.
func (p *Process) ended(status syscall.WaitStatus, lost error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.lost = status, lost
	switch {
	case lost != nil:
	case status.Signaled():
		p.life.Signal = unix.SignalName(status.Signal())
	default:
		code := status.ExitStatus()
		p.life.Code = &code
	}
	close(p.main)
}

// finish ends the life: nothing of it is left.
func (p *Process) finish() {
	p.mu.Lock()
	if !p.asked.IsZero() {
		p.life.TookMS = time.Since(p.asked).Milliseconds()
	}
	if p.life.Unplanned() != "" && p.spec.Log != "" {
		p.life.Log = Quote(p.spec.Log, p.logFrom)
	}
	life := p.life
	p.mu.Unlock()
	if p.spec.Ended != nil {
		p.spec.Ended(&life)
	}
	close(p.done)
}

// PID is the program's own process.
func (p *Process) PID() int { return p.pid }

// Letter is the state letter of that process (R, S, T …), "" if there is none.
func (p *Process) Letter() string { return Letter(p.pid) }

// Done is closed when nothing of it is left.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running says whether anything of it is left.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Life is how it ended, or what is known of it so far.
func (p *Process) Life() history.ProcessLife {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.life
	l.Running = p.Running()
	return l
}

// Ending is how it ended, as an error with what it printed last.
func (p *Process) Ending() error {
	l := p.Life()
	if p.lost != nil {
		return fmt.Errorf("nobody can tell how it ended: %w%s", p.lost, LastWords(p.spec.Log, p.logFrom))
	}
	return fmt.Errorf("%s%s", l.Ending(), LastWords(p.spec.Log, p.logFrom))
}

// LastWords is the end of what it has printed, as the end of an error's text.
func (p *Process) LastWords() string { return LastWords(p.spec.Log, p.logFrom) }

// ask notes that it is asked to end, unless it has ended already.
func (p *Process) ask(ctx context.Context, sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Asked != "" {
		return nil // it counts by what it was asked first
	}
	if ended(p.pid) {
		return ErrEnded
	}
	p.life.Asked, p.life.By, p.asked = unix.SignalName(sig), By(ctx), time.Now()
	if at, ok := ctx.Deadline(); ok && sig != syscall.SIGKILL {
		p.life.BoundMS = max(1, time.Until(at).Round(100*time.Millisecond).Milliseconds()) // 0 would say nothing
	}
	return nil
}

// Kill ends it by SIGKILL and returns when nothing of it is left. It stands still before,
// so that it neither ends by itself at that very moment, nor starts anything that would be
// missed. The error Is ErrEnded if it had ended already.
func (p *Process) Kill(ctx context.Context) error {
	standing, cancel := context.WithTimeout(context.WithoutCancel(ctx), standTimeout)
	defer cancel()
	stopErr := p.all.stop(standing)
	if err := p.ask(ctx, syscall.SIGKILL); err != nil {
		return errors.Join(err, p.destroy())
	}
	if err := p.destroy(); err != nil {
		return errors.Join(stopErr, err)
	}
	return nil
}

// destroy kills all that is left, and waits until nothing is.
func (p *Process) destroy() error {
	limit := time.After(killTimeout)
	for {
		err := p.all.signal(syscall.SIGKILL)
		select {
		case <-p.done:
			return nil
		case <-time.After(statePoll):
		case <-limit:
			return errors.Join(fmt.Errorf("its processes are still there %s after SIGKILL", killTimeout), err)
		}
	}
}

// End asks all of it to end by a signal, and waits for that until ctx is over. Then it is
// given up (see GiveUp), and the error Is ErrOverdue. It Is ErrEnded if it had ended already.
func (p *Process) End(ctx context.Context, sig syscall.Signal) error {
	if err := p.ask(ctx, sig); err != nil {
		return errors.Join(err, p.destroy())
	}
	if err := p.all.signal(sig); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		if !p.Running() {
			return nil
		}
		p.mu.Lock()
		bound := time.Duration(p.life.BoundMS) * time.Millisecond
		p.mu.Unlock()
		late := fmt.Sprintf("did not end within %s of %s", bound, unix.SignalName(sig))
		return errors.Join(fmt.Errorf("%w: it %s", ErrOverdue, late), p.GiveUp(ctx, late))
	}
}

// GiveUp kills what has not done in its time what it had to, having it print where it
// hangs if it can. That is how its life counts.
func (p *Process) GiveUp(ctx context.Context, late string) error {
	p.mu.Lock()
	p.life.Overdue = late
	p.mu.Unlock()
	if p.spec.Traces && !stands(p.pid) {
		_ = syscall.Kill(p.pid, syscall.SIGQUIT) // best effort: SIGKILL follows
		select {
		case <-p.main:
		case <-time.After(lastWordsTimeout):
		}
	}
	if err := p.Kill(ctx); !errors.Is(err, ErrEnded) {
		return err
	}
	return nil
}

// Pause stops it (SIGSTOP) and returns when every thread of every process stands.
func (p *Process) Pause(ctx context.Context) error { return p.whole(p.all.stop(ctx)) }

// Resume lets it go on (SIGCONT) and returns when no thread stands.
func (p *Process) Resume(ctx context.Context) error { return p.whole(p.all.resume(ctx)) }

func (p *Process) whole(err error) error {
	if err == nil && ended(p.pid) {
		err = ErrEnded
	}
	return err
}

// Standing is how many processes it has, if every thread of every one stands; else the
// error says which does not.
func (p *Process) Standing() (int, error) {
	if ended(p.pid) {
		return 0, ErrEnded
	}
	return p.all.standing()
}

// SignalGroup signals a process that leads a group of its own, and all that it started
// in turn. One that is gone is no error.
func SignalGroup(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(-pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
