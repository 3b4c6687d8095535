package kept

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/env/sandbox"
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
	links *link.Fabric
	sick  error // what WaitHealthy says
}

func newStub() *stubCluster {
	c := &stubCluster{links: link.NewFabric(link.Options{})}
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
func (c *stubCluster) Links() *link.Fabric               { return c.links }
func (c *stubCluster) CQLPort() int                      { return 9042 }
func (c *stubCluster) Info() map[string]string           { return map[string]string{"backend": "stub"} }
func (c *stubCluster) WaitHealthy(context.Context) error { return c.sick }

// keep serves a cluster for the test.
func keep(t *testing.T, c cluster.Cluster, h Handler) Paths {
	t.Helper()
	dir := t.TempDir()
	p := Paths{Dir: dir, Socket: filepath.Join(dir, "socket"), Lock: filepath.Join(dir, "lock"), State: filepath.Join(dir, "state.json"), Log: filepath.Join(dir, "log")}
	lock, err := Lock(p)
	must(t, err)
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
		must(t, err)
		defer f.Close()
		files = append(files, f)
	}
	if _, err := io.WriteString(files[0], in); err != nil {
		t.Fatal(err)
	}
	if _, err := files[0].Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	code, err = work(ctx, p, op, args, files)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		return string(b)
	}
	return code, read("out"), read("err"), err
}

func TestStatus(t *testing.T) {
	t.Parallel()
	p := keep(t, newStub(), nil)
	s, err := Query(p)
	must(t, err)
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
	must(t, Down(context.Background(), p, func(s string) { t.Error(s) }))
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
	must(t, os.WriteFile(p.Socket, nil, 0o600))
	first, err := Lock(p)
	must(t, err)
	_, err = Lock(p)
	var up *UpError
	if !errors.As(err, &up) || !errors.Is(err, ErrUp) || up.PID != os.Getpid() || up.Since.IsZero() {
		t.Errorf("%v, want an *UpError with this process", err)
	}
	if held, err := Held(p); !held || err != nil {
		t.Errorf("while held: %t, %v", held, err)
	}
	must(t, first.Close())
	second, err := Lock(p)
	must(t, err)
	second.Close()
}

func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long-", 40))
	must(t, os.Mkdir(dir, 0o700))
	p := Paths{Socket: filepath.Join(dir, "socket")}
	l, err := listen(p)
	must(t, err)
	defer l.Close()
	c, err := dial(p)
	must(t, err)
	c.Close()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
