package kept

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/sandbox"
)

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
		must(t, err)
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

// TestExecWithFiles: a command gets the client's other files, in their order.
func TestExecWithFiles(t *testing.T) {
	t.Parallel()
	p := keep(t, newStub(), nil)
	dir := t.TempDir()
	var files []*os.File
	for _, name := range []string{"in", "out", "err", "a", "b"} {
		f, err := os.Create(filepath.Join(dir, name))
		must(t, err)
		defer f.Close()
		files = append(files, f)
	}
	code, err := work(context.Background(), p, opExec, []string{"sh", "-c", "echo third >&3; echo fourth >&4"}, files)
	if err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	for name, want := range map[string]string{"a": "third\n", "b": "fourth\n", "err": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	// A run is the daemon's own: it has no use for more, and must not lose them.
	if _, err := work(context.Background(), p, opRun, []string{"chaos"}, files); err == nil {
		t.Error("a run took more files")
	}
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
	must(t, err)
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	script := "trap 'echo >" + mark + "; exit' TERM; echo ready; while :; do sleep 0.01; done"
	conn, err := ask(p, hello{Op: opExec, Args: []string{"sh", "-c", script}, Dir: "/", Env: os.Environ()}, []*os.File{null, w, w})
	w.Close()
	must(t, err)
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
	must(t, err)
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
	nothing := func(context.Context, Request, cluster.Cluster, *sandbox.Network) int { return 0 }
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
		p := keep(t, c, nothing)
		_, _, _, err := call(context.Background(), t, p, opRun, "", "chaos")
		if err == nil || !strings.Contains(err.Error(), "n2 does not answer") || !strings.Contains(err.Error(), "fencepost down") {
			t.Errorf("%v", err)
		}
	})
	t.Run("another build", func(t *testing.T) {
		t.Parallel()
		d := &daemon{cluster: newStub(), handler: nothing, exe: "mine"}
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
