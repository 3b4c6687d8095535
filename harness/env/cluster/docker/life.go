package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
)

const (
	// logGrace is how long the end of a log may take after its process.
	logGrace = 2 * time.Second
	// statePoll is how often the daemon is asked while a signal takes effect.
	statePoll = 20 * time.Millisecond
)

// life is one life of a node's process.
type life struct {
	pid     int  // as the daemon sees it
	visible bool // the same here, in /proc
	logPos  int64
	done    chan struct{} // closed when it has ended and its log is complete

	asking sync.Mutex // held while a signal is sent: who is dead before has ended by itself
	asked  time.Time
	end    history.ProcessLife // under asking; whole after done
}

// ask asks the process to end by send, and notes it if there was a process to ask.
func (l *life) ask(ctx context.Context, signal string, send func() error) error {
	l.asking.Lock()
	defer l.asking.Unlock()
	if err := send(); err != nil {
		return err
	}
	if l.end.Asked == "" {
		l.end.Asked, l.end.By, l.asked = signal, osproc.By(ctx), time.Now()
		if at, ok := ctx.Deadline(); ok && signal != sigKill {
			l.end.BoundMS = max(1, time.Until(at).Round(100*time.Millisecond).Milliseconds()) // 0 would say nothing
		}
	}
	return nil
}

// late notes that it did not end in time.
func (l *life) late(signal string) {
	l.asking.Lock()
	defer l.asking.Unlock()
	l.end.Overdue = fmt.Sprintf("did not end within %s of %s", time.Duration(l.end.BoundMS)*time.Millisecond, signal)
}

// ended notes how the container ended.
func (l *life) ended(code *int, log string) {
	l.asking.Lock()
	defer l.asking.Unlock()
	if l.end.Code = code; code != nil && *code == 128+int(syscall.SIGKILL) {
		l.end.Code, l.end.Signal = nil, sigKill // so the daemon says it
	}
	if !l.asked.IsZero() {
		l.end.TookMS = time.Since(l.asked).Milliseconds()
	}
	if l.end.Unplanned() != "" {
		l.end.Log = osproc.Quote(log, l.logPos)
	}
}

func (l *life) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// spawn starts the container and what follows its log and waits for its end.
func (n *node) spawn(ctx context.Context) (*life, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life != nil || n.closed {
		return nil, &cluster.StateError{Node: n.name, Op: "start", State: n.state}
	}
	log, err := os.OpenFile(n.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("docker: log of %s: %w", n.name, err)
	}
	l, started, err := n.launch(ctx, log)
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("docker: start %s: %w", n.name, err)
	}
	n.life, n.state = l, cluster.Starting
	go n.watch(l, log, started)
	return l, nil
}

func (n *node) launch(ctx context.Context, log *os.File) (l *life, started string, err error) {
	if _, err := fmt.Fprintf(log, "INFO  %s [fencepost] starting %s\n", time.Now().UTC().Format("2006-01-02T15:04:05,000"), n.name); err != nil {
		return nil, "", err
	}
	size, err := log.Stat()
	if err != nil {
		return nil, "", err
	}
	if _, err := n.cluster.cli.ContainerStart(ctx, n.id, client.ContainerStartOptions{}); err != nil {
		return nil, "", err
	}
	// The container runs: nothing may be left out now because ctx ends.
	seen, err := n.cluster.cli.ContainerInspect(context.WithoutCancel(ctx), n.id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, "", err
	}
	s := seen.Container.State
	l = &life{pid: s.Pid, visible: runsHere(s.Pid, n.id), logPos: size.Size(), done: make(chan struct{}), end: history.ProcessLife{Kind: history.LifeNode, Name: n.name, LogFile: filepath.Base(n.logFile)}}
	if l.visible {
		l.end.PID = l.pid
	}
	return l, s.StartedAt, nil
}

// watch follows the log and waits for the end, and tells a crash from an end that
// was asked for. It ends with the container at the latest.
func (n *node) watch(l *life, log *os.File, started string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	copied := make(chan error, 1)
	go func() { copied <- n.follow(ctx, log, started) }()
	code := n.exit(ctx)
	select {
	case err := <-copied:
		if err != nil {
			n.cluster.config.Logger.Warn("node log is incomplete", "node", n.name, "log", n.logFile, "error", err)
		}
	case <-time.After(logGrace):
		cancel()
		<-copied
	}
	log.Close()
	l.ended(code, n.logFile)
	n.mu.Lock()
	if n.life == l {
		n.life = nil
		if n.state != cluster.Killed && n.state != cluster.Stopped {
			n.state = cluster.Crashed
			n.cluster.config.Logger.Error("Cassandra node ended by itself", "node", n.name, "status", l.end.Ending(), "log", n.logFile)
		}
	}
	n.mu.Unlock()
	n.cluster.Tell(&l.end)
	close(l.done)
}

// follow copies what the container prints from now on.
func (n *node) follow(ctx context.Context, log *os.File, since string) error {
	r, err := n.cluster.cli.ContainerLogs(ctx, n.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: true, Since: since})
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = stdcopy.StdCopy(log, log, r)
	return err
}

// exit waits for the container's end and returns its exit code; nil: the daemon cannot
// tell.
func (n *node) exit(ctx context.Context) *int {
	w := n.cluster.cli.ContainerWait(ctx, n.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	var err error
	select {
	case r := <-w.Result:
		if r.Error == nil {
			code := int(r.StatusCode)
			return &code
		}
		err = errors.New(r.Error.Message)
	case err = <-w.Error:
	}
	if !cerrdefs.IsNotFound(err) { // it was removed
		n.cluster.config.Logger.Warn("Docker daemon does not report how a node ended", "node", n.name, "error", err)
	}
	return nil
}

// runsHere reports whether a process of the daemon is the same one in this process's
// /proc: with PID namespaces between them the number would be another's.
func runsHere(pid int, containerID string) bool {
	b, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cgroup"))
	return err == nil && pid > 0 && strings.Contains(string(b), containerID)
}

// PID is 0 also if the process cannot be seen from here.
func (n *node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life == nil || !n.life.visible {
		return 0
	}
	return n.life.pid
}

func (n *node) ProcessState() string {
	n.mu.Lock()
	l := n.life
	n.mu.Unlock()
	if l == nil {
		return ""
	}
	letter, err := n.letter(context.Background(), l)
	if err != nil {
		n.cluster.config.Logger.Warn("Docker daemon does not report a process's state", "node", n.name, "error", err)
	}
	return letter
}

// letter is the state of the process, from /proc or from the daemon's ps.
func (n *node) letter(ctx context.Context, l *life) (string, error) {
	if l.visible {
		return osproc.Letter(l.pid), nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	top, err := n.cluster.cli.ContainerTop(ctx, n.id, client.ContainerTopOptions{Arguments: []string{"-eo", "pid,stat"}})
	if err != nil {
		return "", err
	}
	return topLetter(top.Processes, l.pid)
}

// topLetter finds a process in rows of PID and state.
func topLetter(rows [][]string, pid int) (string, error) {
	for _, r := range rows {
		if len(r) >= 2 && r[0] == fmt.Sprint(pid) && r[1] != "" {
			return r[1][:1], nil
		}
	}
	return "", fmt.Errorf("ps of the daemon does not list process %d: %v", pid, rows)
}

// awaitStopped returns when the process is stopped (want true), or is not.
func (n *node) awaitStopped(ctx context.Context, l *life, want bool) error {
	if l.visible {
		return osproc.AwaitStopped(ctx, l.pid, want)
	}
	tick := time.NewTicker(statePoll)
	defer tick.Stop()
	for {
		letter, err := n.letter(ctx, l)
		if err != nil {
			return err
		}
		if (letter == "T") == want {
			return nil
		}
		select {
		case <-tick.C:
		case <-l.done:
			return os.ErrProcessDone
		case <-ctx.Done():
			return fmt.Errorf("process %d is in state %q: %w", l.pid, letter, ctx.Err())
		}
	}
}
