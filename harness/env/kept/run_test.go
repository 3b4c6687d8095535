package kept

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/sandbox"
)

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
