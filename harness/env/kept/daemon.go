package kept

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/sandbox"

	"fencepost/harness/env/osproc"
)

const (
	// helloTimeout bounds how long a client may take to say what it wants.
	helloTimeout = 10 * time.Second
	// restoreTimeout bounds making the cluster healthy around a run.
	restoreTimeout = 2 * time.Minute
	// cancelGrace is how long cancelled work may take before it is given up.
	cancelGrace = 45 * time.Second
)

// Environment of what exec runs.
const (
	EnvContactPoints = "FENCEPOST_CONTACT_POINTS" // IP addresses, with commas between
	EnvCQLPort       = "FENCEPOST_CQL_PORT"
)

// Request is a run that a client asked for.
type Request struct {
	Args                  []string // of the tool, without the program's name
	Dir                   string   // the client's working directory; the daemon's own is another
	Env                   []string // the client's environment; the daemon's own is another
	Stdin, Stdout, Stderr *os.File // the client's
}

// Handler carries out a run in the daemon's process, on the kept cluster, and
// returns its exit code. The context ends when the client gets a signal or is
// gone. Handlers are never called at the same time. What a handler breaks
// (nodes, internode links) is made healthy after it; what it starts besides, it
// must end.
type Handler func(ctx context.Context, r Request, c cluster.Cluster, n *sandbox.Network) int

// Status is what `fencepost up` shows about a kept cluster.
type Status struct {
	Info    map[string]string `json:"info"`
	Port    int               `json:"port"`
	Nodes   []NodeStatus      `json:"nodes"`
	Running []string          `json:"running,omitempty"` // arguments of the run in progress
	Exe     string            `json:"exe"`               // SHA-256 of the daemon's executable
}

// NodeStatus is a node's line in Status.
type NodeStatus struct {
	Name    string        `json:"name"`
	IP      string        `json:"ip"`
	State   cluster.State `json:"state"`
	PID     int           `json:"pid"` // inside the sandbox
	LogFile string        `json:"log"`
}

type daemon struct {
	cluster cluster.Cluster
	network *sandbox.Network
	handler Handler
	exe     string
	log     *slog.Logger
	down    context.CancelFunc

	mu      sync.Mutex
	running []string // nil if no run is in progress
	since   time.Time
}

// Serve answers clients until ctx is over or a client asks for the end; then it
// cancels what is running, waits for it and returns nil. The caller, which
// holds the [Lock] in its outermost process, closes the cluster. A nil handler
// refuses runs.
func Serve(ctx context.Context, p Paths, c cluster.Cluster, n *sandbox.Network, h Handler, log *slog.Logger) error {
	exe, err := exeDigest()
	if err != nil {
		return err
	}
	if log == nil {
		log = slog.Default()
	}
	l, err := listen(p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &daemon{cluster: c, network: n, handler: h, exe: exe, log: log, down: cancel}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			l.Close()
			cancel()
			if errors.Is(err, net.ErrClosed) {
				return os.Remove(p.Socket)
			}
			return fmt.Errorf("kept: accept: %w", err)
		}
		clients.Go(func() {
			defer conn.Close()
			d.serve(ctx, conn)
		})
	}
}

// serve answers one client.
func (d *daemon) serve(ctx context.Context, conn *net.UnixConn) {
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		d.log.Warn("client", "err", err)
		return
	}
	files, err := receiveFiles(conn)
	if err != nil {
		d.log.Warn("client", "err", err)
		return
	}
	defer closeAll(files)
	limit := &io.LimitedReader{R: conn, N: maxMessage}
	in := json.NewDecoder(limit)
	var h hello
	if err := in.Decode(&h); err != nil {
		d.log.Warn("client: malformed request", "err", err)
		return
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		d.log.Warn("client", "err", err)
		return
	}
	r, err := d.do(ctx, h, files, in)
	if err != nil {
		r = refusal(err)
	}
	// A client that has gone meanwhile does not want the answer.
	if err := json.NewEncoder(conn).Encode(r); err != nil && !errors.Is(err, syscall.EPIPE) {
		d.log.Warn("client: answer", "err", err)
	}
}

func (d *daemon) do(ctx context.Context, h hello, files []*os.File, in *json.Decoder) (reply, error) {
	if h.Version != protocolVersion {
		return reply{}, &StaleError{}
	}
	switch h.Op {
	case opStatus:
		return reply{Status: d.status()}, nil
	case opDown:
		d.down()
		return reply{}, nil
	case opExec, opRun:
	default:
		return reply{}, fmt.Errorf("unknown operation %q", h.Op)
	}
	if len(files) < 3 || h.Op == opRun && len(files) > 3 || len(h.Args) == 0 {
		return reply{}, fmt.Errorf("%s: incomplete request", h.Op)
	}
	if h.Op == opExec {
		code, err := d.exec(ctx, h, files, in)
		return reply{Code: code}, err
	}
	code, err := d.run(ctx, h, files, in)
	return reply{Code: code}, err
}

func (d *daemon) status() *Status {
	d.mu.Lock()
	running := d.running
	d.mu.Unlock()
	s := &Status{Info: d.cluster.Info(), Port: d.cluster.CQLPort(), Running: running, Exe: d.exe}
	for _, n := range d.cluster.Nodes() {
		s.Nodes = append(s.Nodes, NodeStatus{n.Name(), n.IP(), n.State(), n.PID(), n.LogFile()})
	}
	return s
}

// run calls the handler, with a healthy cluster before and after. The daemon's own
// context is ctx; that of the run ends with its client too.
func (d *daemon) run(ctx context.Context, h hello, files []*os.File, in *json.Decoder) (int, error) {
	if d.handler == nil {
		return 0, errors.New("the daemon cannot run commands in its process: this build has no handler for them")
	}
	if h.Exe != d.exe {
		return 0, &StaleError{}
	}
	release, err := d.claim(h.Args)
	if err != nil {
		return 0, err
	}
	defer release()
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	go watchClient(in, cancel, func(syscall.Signal) { cancel() })
	if err := d.restore(runCtx); err != nil {
		return 0, fmt.Errorf("the cluster that is up is damaged, and could not be repaired: `fencepost down`, then `fencepost up`: %w", err)
	}
	r := Request{Args: h.Args, Dir: h.Dir, Env: h.Env, Stdin: files[0], Stdout: files[1], Stderr: files[2]}
	code := d.handler(runCtx, r, d.cluster, d.network)
	if err := d.restore(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintf(r.Stderr, "fencepost: the cluster that is up is not healthy after this run: %v\n", err)
		d.log.Error("cluster is not healthy after a run", "args", h.Args, "err", err)
	}
	return code, nil
}

// claim makes this the only run.
func (d *daemon) claim(args []string) (release func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running != nil {
		return nil, &BusyError{Args: d.running, Since: d.since}
	}
	d.running, d.since = args, time.Now()
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.running = nil
	}, nil
}

// restore makes the cluster healthy. On a healthy one it takes a fraction of a second.
func (d *daemon) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	return cluster.Heal(ctx, d.cluster)
}

// environment is what a command of exec gets.
func (d *daemon) environment(client []string) []string {
	ips := make([]string, 0, 3)
	for _, n := range d.cluster.Nodes() {
		ips = append(ips, n.IP())
	}
	return append(client[:len(client):len(client)],
		sandbox.Environ(),
		EnvContactPoints+"="+strings.Join(ips, ","),
		fmt.Sprintf("%s=%d", EnvCQLPort, d.cluster.CQLPort()))
}

// exitNotFound is a shell's exit code for a command that does not exist.
const exitNotFound = 127

// killGrace is how long a cancelled command may take to end: schedulers drain and
// hand over first.
const killGrace = 20 * time.Second

// exec runs a command for a client.
func (d *daemon) exec(ctx context.Context, h hello, files []*os.File, in *json.Decoder) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	env := d.environment(h.Env)
	path, err := lookPath(h.Args[0], h.Dir, env)
	if err != nil {
		fmt.Fprintf(files[2], "fencepost exec: %v\n", err)
		return exitNotFound, nil
	}
	cmd := &exec.Cmd{
		Path: path, Args: h.Args, Dir: h.Dir, Env: env,
		Stdin: files[0], Stdout: files[1], Stderr: files[2], ExtraFiles: files[3:],
		// A group of its own, so that a signal reaches its children as Ctrl-C would.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", h.Args[0], err)
	}
	group := -cmd.Process.Pid
	go watchClient(in, cancel, func(s syscall.Signal) { _ = syscall.Kill(group, s) })
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case err = <-exited:
	case <-ctx.Done():
		_ = syscall.Kill(group, syscall.SIGTERM)
		select {
		case err = <-exited:
		case <-time.After(killGrace):
			_ = syscall.Kill(group, syscall.SIGKILL)
			err = <-exited
		}
	}
	code, err := osproc.ExitCode(cmd.ProcessState, err)
	if err != nil {
		return 0, fmt.Errorf("wait for %s: %w", h.Args[0], err)
	}
	return code, nil
}

// lookPath finds a command as the client's own shell would: by the client's PATH
// and from its directory.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	for _, d := range filepath.SplitList(Getenv(env)("PATH")) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		if path := filepath.Join(d, name); executable(path) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: command not found in PATH", name)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s: %w", path, os.ErrPermission)
	}
	return nil
}

// Getenv is os.Getenv for another process's environment.
func Getenv(env []string) func(string) string {
	return func(name string) (value string) {
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				value = v // the last one counts, as for os/exec
			}
		}
		return value
	}
}
