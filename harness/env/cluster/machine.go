package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"fencepost/harness/env/login"
	"fencepost/harness/record/history"
)

// Life is one life of a node's process, wherever it runs; an *osproc.Process is one.
type Life interface {
	// PID is the process id as the tool sees it, 0 if it cannot. Letter is the state letter in
	// /proc (R, S, T …), "" without a process.
	PID() int
	Letter() string
	// Done is closed when nothing of it is left. Life is how it ended, or what is known so far.
	Done() <-chan struct{}
	Life() history.ProcessLife
	// Kill ends it by SIGKILL, End by another signal in the time that ctx gives, then by
	// SIGKILL. Both return when it is gone.
	Kill(ctx context.Context) error
	End(ctx context.Context, sig syscall.Signal) error
	// Pause and Resume return when every thread of it is stopped, or none is.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	// Standing is how many processes it has, if every thread of them is stopped; else an error.
	Standing() (int, error)
}

// MachineSpec says what a Machine is.
type MachineSpec struct {
	Name, IP string
	LogFile  string
	Logger   *slog.Logger
	Login    login.Login // what the node wants to see
	// Begin starts a life and calls ended once, before its Done is closed. What it prints is
	// appended to LogFile, which has from bytes.
	Begin func(ctx context.Context, from int64, ended func(*history.ProcessLife)) (Life, error)
	// Ended is called with each end.
	Ended func(*history.ProcessLife)
	// EndSignal asks it to end in order; 0: SIGTERM.
	EndSignal syscall.Signal
	// Port is that of clients; 0: Cassandra's.
	Port int
	// Ready tries once whether the node can be worked with, alone and with all others; nil: a
	// Prober does.
	Ready func(ctx context.Context) error
}

// Machine is a node that a backend runs: its state over all lives of its process.
type Machine struct {
	is MachineSpec

	mu     sync.Mutex
	state  State
	life   *life // nil without a process
	closed bool  // it is not started any more
}

// life is a Life with what is before it in the log.
type life struct {
	Life
	logPos int64
}

var _ Node = (*Machine)(nil)

// NewMachine returns a machine without a process.
func NewMachine(s MachineSpec) *Machine {
	if s.Port == 0 {
		s.Port = cqlPort
	}
	if s.EndSignal == 0 {
		s.EndSignal = syscall.SIGTERM
	}
	return &Machine{is: s, state: Stopped}
}

func (m *Machine) Name() string    { return m.is.Name }
func (m *Machine) IP() string      { return m.is.IP }
func (m *Machine) LogFile() string { return m.is.LogFile }

func (m *Machine) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// now is the present life, nil without a process.
func (m *Machine) now() *life {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life
}

func (m *Machine) PID() int {
	if l := m.now(); l != nil {
		return l.PID()
	}
	return 0
}

func (m *Machine) ProcessState() string {
	if l := m.now(); l != nil {
		return l.Letter()
	}
	return ""
}

func (m *Machine) Start(ctx context.Context) error {
	l, err := m.spawn(ctx)
	if err != nil {
		return err
	}
	err = awaitPort(ctx, net.JoinHostPort(m.is.IP, strconv.Itoa(m.is.Port)), l.Done())
	switch {
	case errors.Is(err, errEnded):
		end := l.Life.Life()
		return &ExitError{Node: m.is.Name, Status: end.Ending(), LogFile: m.is.LogFile, Tail: complaints(m.is.LogFile, l.logPos)}
	case err != nil:
		return fmt.Errorf("cluster: %s does not answer on its port of clients yet (log: %s): %w", m.is.Name, m.is.LogFile, err)
	}
	m.answered(l)
	return nil
}

// answered notes that this life of the node has answered.
func (m *Machine) answered(l *life) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == l && m.state == Starting {
		m.state = Running
	}
}

// spawn starts the process.
func (m *Machine) spawn(ctx context.Context) (*life, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life != nil || m.closed {
		return nil, &StateError{m.is.Name, "start", m.state}
	}
	size, err := m.mark()
	if err != nil {
		return nil, fmt.Errorf("cluster: log of %s: %w", m.is.Name, err)
	}
	l := &life{logPos: size}
	if l.Life, err = m.is.Begin(ctx, size, func(end *history.ProcessLife) { m.ended(l, end) }); err != nil {
		return nil, fmt.Errorf("cluster: start %s: %w", m.is.Name, err)
	}
	m.life, m.state = l, Starting
	return l, nil
}

// mark writes into the log that a life begins, and returns its size.
func (m *Machine) mark() (int64, error) {
	log, err := os.OpenFile(m.is.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	if _, err := fmt.Fprintf(log, "INFO  %s [fencepost] starting %s\n", time.Now().UTC().Format("2006-01-02T15:04:05,000"), m.is.Name); err != nil {
		return 0, err
	}
	info, err := log.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// ended tells a crash from an end that was asked for.
func (m *Machine) ended(l *life, end *history.ProcessLife) {
	m.mu.Lock()
	if m.life == l {
		m.life = nil
		if m.state != Killed && m.state != Stopped {
			m.state = Crashed
			m.is.Logger.Error("node ended by itself", "node", m.is.Name, "status", end.Ending(), "log", m.is.LogFile)
		}
	}
	m.mu.Unlock()
	m.is.Ended(end)
}

// complaints returns what a node's log says went wrong since the byte from: a few
// lines that look like errors, else its last lines. A log that cannot be read has none.
func complaints(logFile string, from int64) []string {
	f, err := os.Open(logFile)
	if err != nil {
		return nil
	}
	defer f.Close()
	if _, err := f.Seek(from, 0); err != nil {
		return nil
	}
	const most = 8
	var all, bad []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		l := lines.Text()
		all = append(all, l)
		if strings.HasPrefix(l, "ERROR") || strings.Contains(l, "Exception") || strings.HasPrefix(l, "Error:") || strings.HasPrefix(l, "FATAL") {
			bad = append(bad, l)
		}
	}
	if len(bad) > 0 {
		return bad[:min(most, len(bad))]
	}
	return all[max(0, len(all)-most):]
}

func (m *Machine) Kill(ctx context.Context) error {
	return m.end("kill", Killed, func(l *life) error { return l.Kill(ctx) })
}

func (m *Machine) Stop(ctx context.Context) error {
	return m.end("stop", Stopped, func(l *life) error { return l.End(ctx, m.is.EndSignal) })
}

// end asks the process to end and returns when it is gone.
func (m *Machine) end(op string, then State, ask func(*life) error) error {
	m.mu.Lock()
	l, before := m.life, m.state
	if l == nil || before == Paused && then != Killed {
		defer m.mu.Unlock()
		return &StateError{m.is.Name, op, before}
	}
	m.state = then
	m.mu.Unlock()
	err := ask(l)
	if err == nil {
		return nil
	}
	m.mu.Lock()
	if m.life == l { // it is still there
		m.state = before
	}
	m.mu.Unlock()
	return fmt.Errorf("cluster: %s %s: %w", op, m.is.Name, err)
}

func (m *Machine) Pause(ctx context.Context) error {
	return m.freeze("pause", Running, Paused, func(l *life) error { return l.Pause(ctx) })
}

func (m *Machine) Resume(ctx context.Context) error {
	return m.freeze("resume", Paused, Running, func(l *life) error { return l.Resume(ctx) })
}

func (m *Machine) freeze(op string, from, to State, do func(*life) error) error {
	m.mu.Lock()
	l := m.life
	if m.state != from || l == nil {
		defer m.mu.Unlock()
		return &StateError{m.is.Name, op, m.state}
	}
	// Once the signal is sent this is the state, even if its effect is slow.
	m.state = to
	m.mu.Unlock()
	if err := do(l); err != nil {
		return fmt.Errorf("cluster: %s %s: %w", op, m.is.Name, err)
	}
	return nil
}

func (m *Machine) Standing() error {
	l := m.now()
	if l == nil {
		return &StateError{m.is.Name, "look at", m.State()}
	}
	_, err := l.Standing()
	return err
}

// Abandon says that the process is about to be removed, and that none follows.
func (m *Machine) Abandon() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.life != nil {
		m.state = Killed
	}
}

// AwaitGone returns when the present life, if there is one, has been seen to end.
func (m *Machine) AwaitGone(ctx context.Context) error {
	l := m.now()
	if l == nil {
		return nil
	}
	select {
	case <-l.Done():
		return nil
	case <-ctx.Done():
		return errors.New("cluster: " + m.is.Name + " does not end")
	}
}

// Prober asks this node.
func (m *Machine) Prober() Prober {
	return Prober{
		Name: m.is.Name, IP: m.is.IP, Port: m.is.Port, LogFile: m.is.LogFile, Logger: m.is.Logger, Login: m.is.Login,
		Attempt: m.attempt,
	}
}

// attempt is what a Prober wants before each try.
func (m *Machine) attempt() (answered func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.life
	if m.state != Running && m.state != Starting {
		return nil, &StateError{m.is.Name, "probe", m.state}
	}
	return func() { m.answered(l) }, nil
}

// WaitReady returns when a conditional update through this node has an answer.
func (m *Machine) WaitReady(ctx context.Context) error {
	if m.is.Ready == nil {
		return m.Prober().Ready(ctx)
	}
	return until(ctx, m.is.Name, m.is.LogFile, "a request", m.attempt, m.is.Ready)
}

// Healthy returns when the node is ready and sees every other.
func (m *Machine) Healthy(ctx context.Context) error {
	if m.is.Ready == nil {
		return m.Prober().Healthy(ctx)
	}
	return m.WaitReady(ctx)
}
