package kept

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/harness/cluster"
	"fencepost/harness/link"
	"fencepost/harness/sandbox"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// stubNode is a node that only keeps its state.
type stubNode struct {
	cluster.Node
	mu    sync.Mutex
	name  string
	state cluster.State
}

func (n *stubNode) Name() string    { return n.name }
func (n *stubNode) IP() string      { return "10.77.0.1" + n.name[1:] }
func (n *stubNode) PID() int        { return 7 }
func (n *stubNode) LogFile() string { return "/logs/" + n.name + ".log" }
func (n *stubNode) State() cluster.State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}
func (n *stubNode) set(s cluster.State) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = s
}
func (n *stubNode) Start(context.Context) error  { n.set(cluster.Running); return nil }
func (n *stubNode) Resume(context.Context) error { n.set(cluster.Running); return nil }

// stubCluster is three stub nodes without links.
type stubCluster struct {
	cluster.Cluster
	nodes []*stubNode
	sick  error // what WaitHealthy says
}

func newStub() *stubCluster {
	c := &stubCluster{}
	for _, name := range []string{"n1", "n2", "n3"} {
		c.nodes = append(c.nodes, &stubNode{name: name, state: cluster.Running})
	}
	return c
}

func (c *stubCluster) Nodes() []cluster.Node {
	var out []cluster.Node
	for _, n := range c.nodes {
		out = append(out, n)
	}
	return out
}
func (c *stubCluster) Links() *link.Fabric               { return nil }
func (c *stubCluster) CQLPort() int                      { return 9042 }
func (c *stubCluster) Info() map[string]string           { return map[string]string{"backend": "stub"} }
func (c *stubCluster) WaitHealthy(context.Context) error { return c.sick }

// keep serves a cluster for the test.
func keep(t *testing.T, c cluster.Cluster, h Handler) Paths {
	t.Helper()
	dir := t.TempDir()
	p := Paths{Dir: dir, Socket: filepath.Join(dir, "socket"), Lock: filepath.Join(dir, "lock"), State: filepath.Join(dir, "state.json"), Log: filepath.Join(dir, "log")}
	lock, err := Lock(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := Serve(ctx, p, c, nil, h, slog.New(slog.DiscardHandler))
		lock.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := os.Stat(p.Socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left behind: %v", err)
		}
	})
	// Until it listens, the client is told to try again.
	await(t, func() bool {
		_, err := Query(p)
		var early *RefusedError
		if err != nil && !errors.As(err, &early) {
			t.Fatal(err)
		}
		return err == nil
	})
	return p
}

// await polls with a deadline.
func await(t *testing.T, done func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it does not happen")
		}
	}
}

// call runs a client with files of its own, and returns what came out.
func call(ctx context.Context, t *testing.T, p Paths, op operation, in string, args ...string) (code int, stdout, stderr string, err error) {
	t.Helper()
	dir := t.TempDir()
	var files []*os.File
	for _, name := range []string{"in", "out", "err"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	if _, err := io.WriteString(files[0], in); err != nil {
		t.Fatal(err)
	}
	if _, err := files[0].Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	code, err = workWith(ctx, p, op, args, files)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return code, read("out"), read("err"), err
}

func TestExec(t *testing.T) {
	t.Parallel()
	p := keep(t, newStub(), nil)
	for _, tc := range []struct {
		name, in, script, out, err string
		code                       int
	}{
		{"output and exit code", "", "echo out; echo err >&2; exit 7", "out\n", "err\n", 7},
		{"input", "from the client", "cat", "from the client", "", 0},
		{"addresses", "", `echo "$FENCEPOST_CONTACT_POINTS $FENCEPOST_CQL_PORT"`, "10.77.0.11,10.77.0.12,10.77.0.13 9042\n", "", 0},
		{"a signal of its own", "", "kill -9 $$", "", "", 137},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut, err := call(context.Background(), t, p, opExec, tc.in, "sh", "-c", tc.script)
			if err != nil || code != tc.code || out != tc.out || errOut != tc.err {
				t.Errorf("code %d, out %q, err %q, %v", code, out, errOut, err)
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		if _, out, _, err := call(context.Background(), t, p, opExec, "", "pwd"); err != nil || out != dir+"\n" {
			t.Errorf("%q, %v, want %s", out, err, dir)
		}
	})
	t.Run("unknown command", func(t *testing.T) {
		t.Parallel()
		code, _, errOut, err := call(context.Background(), t, p, opExec, "", "no-such-command")
		if err != nil || code != exitNotFound || !strings.Contains(errOut, "no-such-command: command not found") {
			t.Errorf("code %d, %q, %v", code, errOut, err)
		}
	})
}

func TestExecEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := keep(t, newStub(), nil)
	ctx, cancel := context.WithCancel(context.Background())
	mark := filepath.Join(t.TempDir(), "started")
	type result struct {
		code int
		err  error
	}
	done := make(chan result, 1)
	go func() {
		code, _, _, err := call(ctx, t, p, opExec, "", "sh", "-c", "echo >"+mark+"; exec sleep 1000")
		done <- result{code, err}
	}()
	await(t, func() bool { _, err := os.Stat(mark); return err == nil })
	cancel()
	if r := <-done; r.err != nil || r.code != 128+15 {
		t.Errorf("%+v, want the exit code of SIGTERM", r)
	}
}

func TestExecDiesWithItsClient(t *testing.T) {
	t.Parallel()
	p := keep(t, newStub(), nil)
	mark := filepath.Join(t.TempDir(), "ended")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	script := "trap 'echo >" + mark + "; exit' TERM; echo ready; while :; do sleep 0.01; done"
	conn, err := ask(p, hello{Op: opExec, Args: []string{"sh", "-c", script}, Dir: "/", Env: os.Environ()}, []*os.File{null, w, w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	conn.Close() // as when the client is killed
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the command was not told to end: %v", err)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := newStub()
	p := keep(t, c, func(_ context.Context, r Request, got cluster.Cluster, _ *sandbox.Network) int {
		if got != cluster.Cluster(c) || !slices.ContainsFunc(r.Env, func(e string) bool { return strings.HasPrefix(e, "PATH=") }) {
			return 98
		}
		b, err := io.ReadAll(r.Stdin)
		if err != nil {
			return 97
		}
		_, _ = io.WriteString(r.Stdout, strings.Join(r.Args, " ")+": "+string(b))
		_, _ = io.WriteString(r.Stderr, r.Dir)
		// Broken by the run, to be mended after it.
		c.nodes[0].set(cluster.Killed)
		c.nodes[1].set(cluster.Paused)
		return 3
	})
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	code, out, errOut, err := call(context.Background(), t, p, opRun, "input", "chaos", "kill")
	if err != nil || code != 3 || out != "chaos kill: input" || errOut != dir {
		t.Errorf("code %d, out %q, err %q, %v", code, out, errOut, err)
	}
	for _, n := range c.nodes {
		if n.State() != cluster.Running {
			t.Errorf("after the run %s is %s", n.name, n.State())
		}
	}
}

func TestRunOneAtATime(t *testing.T) {
	t.Parallel()
	inside := make(chan struct{})
	p := keep(t, newStub(), func(ctx context.Context, _ Request, _ cluster.Cluster, _ *sandbox.Network) int {
		close(inside)
		<-ctx.Done()
		return 5
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() {
		code, _, _, err := call(ctx, t, p, opRun, "", "chaos", "first")
		if err != nil {
			t.Error(err)
		}
		done <- code
	}()
	<-inside
	_, _, _, err := call(context.Background(), t, p, opRun, "", "chaos", "second")
	var busy *BusyError
	if !errors.As(err, &busy) || !slices.Equal(busy.Args, []string{"chaos", "first"}) || busy.Since.IsZero() {
		t.Errorf("%v, want a *BusyError", err)
	}
	// Looking is allowed meanwhile.
	if code, _, _, err := call(context.Background(), t, p, opExec, "", "true"); code != 0 || err != nil {
		t.Errorf("exec during a run: code %d, %v", code, err)
	}
	if s, err := Query(p); err != nil || !slices.Equal(s.Running, []string{"chaos", "first"}) {
		t.Errorf("status during a run: %+v, %v", s, err)
	}
	cancel()
	if code := <-done; code != 5 {
		t.Errorf("the cancelled run's exit code is %d", code)
	}
}

func TestRunRefusals(t *testing.T) {
	t.Parallel()
	work := func(context.Context, Request, cluster.Cluster, *sandbox.Network) int { return 0 }
	t.Run("no handler", func(t *testing.T) {
		t.Parallel()
		p := keep(t, newStub(), nil)
		_, _, _, err := call(context.Background(), t, p, opRun, "", "chaos")
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%v, want a *RefusedError", err)
		}
	})
	t.Run("a sick cluster", func(t *testing.T) {
		t.Parallel()
		c := newStub()
		c.sick = errors.New("n2 does not answer")
		p := keep(t, c, work)
		_, _, _, err := call(context.Background(), t, p, opRun, "", "chaos")
		if err == nil || !strings.Contains(err.Error(), "n2 does not answer") || !strings.Contains(err.Error(), "fencepost down") {
			t.Errorf("%v", err)
		}
	})
	t.Run("another build", func(t *testing.T) {
		t.Parallel()
		d := &daemon{cluster: newStub(), handler: work, exe: "mine"}
		_, err := d.do(context.Background(), hello{Version: protocolVersion, Op: opRun, Exe: "theirs", Args: []string{"chaos"}}, make([]*os.File, 3), nil)
		var stale *StaleError
		if !errors.As(err, &stale) || !errors.As(refusal(err).err(), &stale) {
			t.Errorf("%v, want a *StaleError", err)
		}
	})
	t.Run("another protocol", func(t *testing.T) {
		t.Parallel()
		_, err := (&daemon{}).do(context.Background(), hello{Version: protocolVersion + 1, Op: opStatus}, nil, nil)
		var stale *StaleError
		if !errors.As(err, &stale) {
			t.Errorf("%v, want a *StaleError", err)
		}
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	p := keep(t, newStub(), nil)
	s, err := Query(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Nodes) != 3 || s.Nodes[1] != (NodeStatus{"n2", "10.77.0.12", cluster.Running, 7, "/logs/n2.log"}) || s.Port != 9042 || s.Info["backend"] != "stub" || s.Exe == "" {
		t.Errorf("%+v", s)
	}
}

func TestDown(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	inside := make(chan struct{})
	p := keep(t, newStub(), func(ctx context.Context, _ Request, _ cluster.Cluster, _ *sandbox.Network) int {
		close(inside)
		<-ctx.Done()
		close(ended)
		return 0
	})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		// The daemon answers, if it can, before it ends.
		_, _, _, _ = call(context.Background(), t, p, opRun, "", "chaos")
	}()
	<-inside
	if err := Down(context.Background(), p, func(s string) { t.Error(s) }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	default:
		t.Error("Down returned before the run had ended")
	}
	<-gone
	if err := Down(context.Background(), p, func(string) {}); !errors.Is(err, ErrNotUp) {
		t.Errorf("a second Down: %v", err)
	}
	if _, _, _, err := call(context.Background(), t, p, opExec, "", "true"); !errors.Is(err, ErrNotUp) {
		t.Errorf("exec after Down: %v", err)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := Paths{Dir: dir, Socket: filepath.Join(dir, "socket"), Lock: filepath.Join(dir, "lock"), State: filepath.Join(dir, "state.json")}
	if held, err := Held(p); held || err != nil {
		t.Fatalf("before: %t, %v", held, err)
	}
	// What a dead owner has left must not matter.
	if err := os.WriteFile(p.Socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := Lock(p)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Lock(p)
	var up *UpError
	if !errors.As(err, &up) || !errors.Is(err, ErrUp) || up.PID != os.Getpid() || up.Since.IsZero() {
		t.Errorf("%v, want an *UpError with this process", err)
	}
	if held, err := Held(p); !held || err != nil {
		t.Errorf("while held: %t, %v", held, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Lock(p)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long-", 40))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := Paths{Socket: filepath.Join(dir, "socket")}
	l, err := listen(p)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := dial(p)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
