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
	"golang.org/x/sys/unix"

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
	node    *node
	pid     int  // as the daemon sees it
	visible bool // the same here, in /proc
	logPos  int64
	done    chan struct{} // closed when it has ended and its log is complete

	asking sync.Mutex // held while a signal is sent: who is dead before has ended by itself
	asked  time.Time
	end    history.ProcessLife // under asking; whole after done
}

var _ cluster.Life = (*life)(nil)

// ask asks the process to end by a signal, and notes it if there was a process to ask.
func (l *life) ask(ctx context.Context, sig syscall.Signal) error {
	l.asking.Lock()
	defer l.asking.Unlock()
	if err := l.signal(ctx, sig); err != nil {
		return err
	}
	if l.end.Asked == "" {
		l.end.Asked, l.end.By, l.asked = unix.SignalName(sig), osproc.By(ctx), time.Now()
		if at, ok := ctx.Deadline(); ok && sig != syscall.SIGKILL {
			l.end.BoundMS = max(1, time.Until(at).Round(100*time.Millisecond).Milliseconds()) // 0 would say nothing
		}
	}
	return nil
}

// late notes that it did not end in time.
func (l *life) late(sig syscall.Signal) {
	l.asking.Lock()
	defer l.asking.Unlock()
	l.end.Overdue = fmt.Sprintf("did not end within %s of %s", time.Duration(l.end.BoundMS)*time.Millisecond, unix.SignalName(sig))
}

// ended notes how the container ended.
func (l *life) ended(code *int, log string) {
	l.asking.Lock()
	defer l.asking.Unlock()
	if l.end.Code = code; code != nil && *code == 128+int(syscall.SIGKILL) {
		l.end.Code, l.end.Signal = nil, unix.SignalName(syscall.SIGKILL) // so the daemon says it
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

// begin starts the container and what follows its log and waits for its end.
func (n *node) begin(ctx context.Context, from int64, ended func(*history.ProcessLife)) (cluster.Life, error) {
	log, err := os.OpenFile(n.LogFile(), os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	l, started, err := n.launch(ctx, from)
	if err != nil {
		log.Close()
		return nil, err
	}
	n.life = l
	go l.watch(log, started, ended)
	return l, nil
}

func (n *node) launch(ctx context.Context, from int64) (l *life, started string, err error) {
	if _, err := n.cluster.cli.ContainerStart(ctx, n.id, client.ContainerStartOptions{}); err != nil {
		return nil, "", err
	}
	// The container runs: nothing may be left out now because ctx ends.
	seen, err := n.cluster.cli.ContainerInspect(context.WithoutCancel(ctx), n.id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, "", err
	}
	s := seen.Container.State
	l = &life{
		node: n, pid: s.Pid, visible: runsHere(s.Pid, n.id), logPos: from, done: make(chan struct{}),
		end: history.ProcessLife{Kind: history.LifeNode, Name: n.Name(), LogFile: filepath.Base(n.LogFile())},
	}
	l.end.PID = l.PID()
	return l, s.StartedAt, nil
}

// watch follows the log and waits for the end. It ends with the container at the latest.
func (l *life) watch(log *os.File, started string, ended func(*history.ProcessLife)) {
	n := l.node
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	copied := make(chan error, 1)
	go func() { copied <- n.follow(ctx, log, started) }()
	code := n.exit(ctx)
	select {
	case err := <-copied:
		if err != nil {
			n.cluster.config.Logger.Warn("node log is incomplete", "node", n.Name(), "log", n.LogFile(), "error", err)
		}
	case <-time.After(logGrace):
		cancel()
		<-copied
	}
	log.Close()
	l.ended(code, n.LogFile())
	ended(&l.end)
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
		n.cluster.config.Logger.Warn("Docker daemon does not report how a node ended", "node", n.Name(), "error", err)
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
func (l *life) PID() int {
	if !l.visible {
		return 0
	}
	return l.pid
}

func (l *life) Done() <-chan struct{} { return l.done }

func (l *life) Life() history.ProcessLife {
	l.asking.Lock()
	defer l.asking.Unlock()
	return l.end
}

func (l *life) Letter() string {
	letter, err := l.letter(context.Background())
	if err != nil {
		l.node.cluster.config.Logger.Warn("Docker daemon does not report a process's state", "node", l.node.Name(), "error", err)
	}
	return letter
}

// letter is the state of the process, from /proc or from the daemon's ps.
func (l *life) letter(ctx context.Context) (string, error) {
	if l.visible {
		return osproc.Letter(l.pid), nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	top, err := l.node.cluster.cli.ContainerTop(ctx, l.node.id, client.ContainerTopOptions{Arguments: []string{"-eo", "pid,stat"}})
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
func (l *life) awaitStopped(ctx context.Context, want bool) error {
	if l.visible {
		return osproc.AwaitStopped(ctx, l.pid, want)
	}
	tick := time.NewTicker(statePoll)
	defer tick.Stop()
	for {
		letter, err := l.letter(ctx)
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

// signal has the daemon send a signal to the container's first process.
func (l *life) signal(ctx context.Context, sig syscall.Signal) error {
	_, err := l.node.cluster.cli.ContainerKill(ctx, l.node.id, client.ContainerKillOptions{Signal: unix.SignalName(sig)})
	return err
}

func (l *life) Kill(ctx context.Context) error {
	if err := l.ask(ctx, syscall.SIGKILL); err != nil && !l.over() {
		return err
	}
	return l.await(ctx)
}

// End signals the process and waits until it is gone. One that does not end in time is
// killed.
func (l *life) End(ctx context.Context, sig syscall.Signal) error {
	if err := l.ask(ctx, sig); err != nil && !l.over() {
		return err
	}
	err := l.await(ctx)
	if err == nil {
		return nil
	}
	l.late(sig)
	kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	return errors.Join(err, l.Kill(kill))
}

// await returns when the process is gone.
func (l *life) await(ctx context.Context) error {
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("its process has not ended yet: %w", context.Cause(ctx))
	}
}

func (l *life) Pause(ctx context.Context) error { return l.freeze(ctx, syscall.SIGSTOP) }

func (l *life) Resume(ctx context.Context) error { return l.freeze(ctx, syscall.SIGCONT) }

func (l *life) freeze(ctx context.Context, sig syscall.Signal) error {
	if err := l.signal(ctx, sig); err != nil {
		return err
	}
	return l.awaitStopped(ctx, sig == syscall.SIGSTOP)
}

func (l *life) Standing() (int, error) {
	if letter := l.Letter(); letter != "T" {
		return 0, fmt.Errorf("%s: its process is in state %q, not stopped", l.node.Name(), letter)
	}
	if !l.visible {
		return 1, nil // its threads cannot be seen from here
	}
	return 1, osproc.Standing(l.pid)
}
