package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
)

// portPoll is how often a starting node's CQL port is tried.
const portPoll = 20 * time.Millisecond

// host starts processes; *sandbox.Host is one.
type host interface {
	Start(cmd *exec.Cmd) error
	Redirect(dstIP string, dstPort int, toIP string, toPort int) error
	Close() error
}

// localNode is a Cassandra JVM on a sandbox host.
type localNode struct {
	name, ip string
	port     int // of CQL
	host     host
	java     string
	args     []string // of java
	dir      string   // its working directory
	logFile  string
	local    *Local

	mu    sync.Mutex
	state State
	proc  *process // nil without a process
}

// process is one life of a node.
type process struct {
	*osproc.Process
	logPos int64 // size of the log when it started
}

var _ Node = (*localNode)(nil)

func (n *localNode) Name() string    { return n.name }
func (n *localNode) IP() string      { return n.ip }
func (n *localNode) LogFile() string { return n.logFile }

func (n *localNode) State() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

func (n *localNode) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return 0
	}
	return n.proc.PID()
}

func (n *localNode) ProcessState() string {
	pid := n.PID()
	if pid == 0 {
		return ""
	}
	return osproc.Letter(pid)
}

func (n *localNode) Start(ctx context.Context) error {
	p, err := n.spawn()
	if err != nil {
		return err
	}
	if err := n.awaitPort(ctx, p); err != nil {
		return err
	}
	n.answered(p)
	return nil
}

// answered notes that this life of the node has answered.
func (n *localNode) answered(p *process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == p && n.state == Starting {
		n.state = Running
	}
}

// spawn starts the process.
func (n *localNode) spawn() (*process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil {
		return nil, &StateError{n.name, "start", n.state}
	}
	size, err := n.mark()
	if err != nil {
		return nil, fmt.Errorf("cluster: log of %s: %w", n.name, err)
	}
	cmd := exec.Command(n.java, n.args...)
	cmd.Dir = n.dir
	cmd.Env = nodeEnv()
	p := &process{logPos: size}
	p.Process, err = osproc.Start(osproc.Spec{
		Kind: history.LifeNode, Name: n.name, Command: cmd, Log: n.logFile, Traces: true, Start: n.host.Start,
		Ended: func(l *history.ProcessLife) { n.ended(p, l) },
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: start %s: %w", n.name, err)
	}
	n.proc, n.state = p, Starting
	return p, nil
}

// mark writes into the log that a life begins, and returns its size.
func (n *localNode) mark() (int64, error) {
	log, err := os.OpenFile(n.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	if _, err := fmt.Fprintf(log, "INFO  %s [fencepost] starting %s\n", time.Now().UTC().Format("2006-01-02T15:04:05,000"), n.name); err != nil {
		return 0, err
	}
	info, err := log.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// nodeEnv is the environment of a node: options in the person's own must not
// reach its JVM.
func nodeEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH":
		default:
			env = append(env, e)
		}
	}
	return env
}

// ended tells a crash from an end that was asked for.
func (n *localNode) ended(p *process, l *history.ProcessLife) {
	n.mu.Lock()
	if n.proc == p {
		n.proc = nil
		if n.state != Killed && n.state != Stopped {
			n.state = Crashed
			n.local.config.Logger.Error("Cassandra node ended by itself", "node", n.name, "status", l.Ending(), "log", n.logFile)
		}
	}
	n.mu.Unlock()
	n.local.Tell(l)
}

// awaitPort returns when the node accepts connections on its CQL port.
func (n *localNode) awaitPort(ctx context.Context, p *process) error {
	err := AwaitPort(ctx, net.JoinHostPort(n.ip, strconv.Itoa(n.port)), p.Done())
	if errors.Is(err, ErrEnded) {
		return n.exitError(p)
	}
	if err != nil {
		return fmt.Errorf("cluster: %s does not answer on its CQL port yet (log: %s): %w", n.name, n.logFile, err)
	}
	return nil
}

// exitError says how the process ended, with the errors in its log.
func (n *localNode) exitError(p *process) error {
	l := p.Life()
	return &ExitError{Node: n.name, Status: l.Ending(), LogFile: n.logFile, Tail: Complaints(n.logFile, p.logPos)}
}

// Complaints returns what a node's log says went wrong since the byte from: a few
// lines that look like errors, else its last lines. A log that cannot be read has none.
func Complaints(logFile string, from int64) []string {
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

func (n *localNode) Kill(ctx context.Context) error {
	return n.end("kill", Killed, func(p *process) error { return p.Kill(ctx) })
}

func (n *localNode) Stop(ctx context.Context) error {
	return n.end("stop", Stopped, func(p *process) error { return p.End(ctx, syscall.SIGTERM) })
}

// end asks the process to end and returns when it is gone.
func (n *localNode) end(op string, then State, ask func(*process) error) error {
	n.mu.Lock()
	p := n.proc
	if p == nil || n.state == Paused && then != Killed {
		defer n.mu.Unlock()
		return &StateError{n.name, op, n.state}
	}
	before := n.state
	n.state = then
	n.mu.Unlock()
	err := ask(p)
	if err == nil {
		return nil
	}
	n.mu.Lock()
	if n.proc == p { // it is still there
		n.state = before
	}
	n.mu.Unlock()
	return fmt.Errorf("cluster: %s %s: %w", op, n.name, err)
}

func (n *localNode) Pause(ctx context.Context) error {
	return n.freeze("pause", Running, Paused, func(p *process) error { return p.Pause(ctx) })
}

func (n *localNode) Resume(ctx context.Context) error {
	return n.freeze("resume", Paused, Running, func(p *process) error { return p.Resume(ctx) })
}

func (n *localNode) freeze(op string, from, to State, do func(*process) error) error {
	n.mu.Lock()
	p := n.proc
	if n.state != from || p == nil {
		defer n.mu.Unlock()
		return &StateError{n.name, op, n.state}
	}
	// Once the signal is sent this is the state, even if its effect is slow.
	n.state = to
	n.mu.Unlock()
	if err := do(p); err != nil {
		return fmt.Errorf("cluster: %s %s: %w", op, n.name, err)
	}
	return nil
}

func (n *localNode) Standing() error {
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	if p == nil {
		return &StateError{n.name, "look at", n.State()}
	}
	_, err := p.Standing()
	return err
}

// NodeSet is the nodes of a backend, in order of their names.
type NodeSet[N Node] []N

// All returns them as scenarios and faults see them.
func (s NodeSet[N]) All() []Node {
	out := make([]Node, len(s))
	for i, n := range s {
		out[i] = n
	}
	return out
}

// Named returns the node of that name.
func (s NodeSet[N]) Named(name string) (Node, bool) {
	for _, n := range s {
		if n.Name() == name {
			return n, true
		}
	}
	return nil, false
}

// Each runs f for every node at the same time.
func (s NodeSet[N]) Each(f func(N) error) error {
	errs := make([]error, len(s))
	var wg sync.WaitGroup
	for i, n := range s {
		wg.Go(func() { errs[i] = f(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ErrEnded is why AwaitPort gave up: the process at the port is gone.
var ErrEnded = errors.New("cluster: the process ended before it answered")

// AwaitPort returns when somebody accepts connections at addr. It ends early with
// ErrEnded when ended is closed, and with ctx's cause.
func AwaitPort(ctx context.Context, addr string, ended <-chan struct{}) error {
	tick := time.NewTicker(portPoll)
	defer tick.Stop()
	dialer := net.Dialer{Timeout: time.Second}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ended:
			return ErrEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
