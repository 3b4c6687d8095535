//go:build integration

package servers

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/env/sandbox"
)

const insideEnv = "FENCEPOST_SERVERS_TEST_INSIDE"

// TestServers takes each store whose servers are here through what runs do to one. Those that
// are not are named: scripts/test-real fetches them in turn.
func TestServers(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		if err := sandbox.Available(); err != nil {
			t.Skipf("this machine cannot run the sandbox: %v", err)
		}
		t.Setenv(insideEnv, "1")
		code, err := sandbox.Run(t.Context(), []string{"-test.run=^TestServers$", "-test.v=true", "-test.timeout=8m"})
		if err != nil || code != 0 {
			t.Errorf("inside the sandbox: exit code %d, %v", code, err)
		}
		return
	}
	cache, err := cluster.CacheDir()
	must(t, err)
	network, err := sandbox.NewNetwork()
	must(t, err)
	defer network.Close()
	for _, k := range kinds {
		t.Run(k.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if _, err := k.Find(ctx, cache); err != nil {
				t.Skipf("NOT TESTED: %v: %s", err, k.Fetch)
			}
			c, err := Start(ctx, network, k, Config{LogDir: t.TempDir(), Progress: func(s string) { t.Log(s) }})
			must(t, err)
			defer func() {
				if err := c.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			lives(ctx, t, c)
		})
	}
}

// lives is the story of a store.
func lives(ctx context.Context, t *testing.T, c *Cluster) {
	leader, err := c.Leader(ctx, "a_run")
	must(t, err)
	at := slices.IndexFunc(c.Nodes(), func(n cluster.Node) bool { return n.IP() == leader })
	if at < 0 {
		t.Fatalf("the leader %s is none of the servers", leader)
	}
	decides := c.Nodes()[at]
	for _, n := range c.Nodes() {
		must(t, c.Read(ctx, n.Name()))
	}
	for _, l := range c.Links().All() {
		opened := l.Counters().ConnsOpened
		for _, back := range c.Links().Between(l.To(), l.From()) { // of a pair one may open all
			if back.Purpose() == l.Purpose() {
				opened += back.Counters().ConnsOpened
			}
		}
		if opened == 0 && !between(c.Kind, l) {
			t.Errorf("neither %s nor its other direction has carried a connection", l.Name())
		}
	}

	// Without the one that decides the rest goes on, if the store says so.
	must(t, decides.Kill(ctx))
	if err := c.Read(ctx, decides.Name()); err == nil {
		t.Errorf("%s is dead and answers", decides.Name())
	}
	if c.Kind.Spare > 0 {
		for _, n := range c.Nodes() {
			if n.Name() != decides.Name() {
				eventually(ctx, t, "a read without "+decides.Name(), func(ctx context.Context) error { return c.Read(ctx, n.Name()) })
			}
		}
	}
	must(t, decides.Start(ctx))
	must(t, decides.WaitReady(ctx))

	must(t, decides.Pause(ctx))
	must(t, decides.Standing())
	must(t, decides.Resume(ctx))
	must(t, c.WaitHealthy(ctx))

	if c.Kind.NoQuorum != nil {
		minority(ctx, t, c)
	}
	must(t, decides.Stop(ctx))
	must(t, decides.Start(ctx))
	must(t, c.WaitHealthy(ctx))
}

// minority cuts a server off: it says itself that it sees no quorum, and sees one again.
func minority(ctx context.Context, t *testing.T, c *Cluster) {
	alone := c.Nodes()[0].Name()
	must(t, c.Read(ctx, alone))
	var ends []link.End
	for _, n := range c.Nodes()[1:] {
		ends = append(ends, c.Links().Flow(alone, n.Name())...)
		ends = append(ends, c.Links().Flow(n.Name(), alone)...)
	}
	must(t, link.SetEnds(ctx, ends, link.Mode{Kind: link.Stall}))
	eventually(ctx, t, alone+" says that it sees no quorum", func(ctx context.Context) error {
		if err := c.Read(ctx, alone); !c.NoQuorum(err) {
			return &answerError{text: "it says " + strings.TrimSpace(errText(err))}
		}
		return nil
	})
	must(t, c.Read(ctx, c.Nodes()[1].Name()))
	must(t, link.SetEnds(ctx, ends, link.Mode{Kind: link.Pass}))
	eventually(ctx, t, "a read through "+alone, func(ctx context.Context) error { return c.Read(ctx, alone) })
}

func errText(err error) string {
	if err == nil {
		return "nothing is wrong"
	}
	return err.Error()
}

// between: two followers of ZooKeeper have nothing to say to each other but in elections.
func between(k Kind, l *link.Link) bool { return k.Name == zookeeper.Name && l.Purpose() == "" }

func eventually(ctx context.Context, t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	for until := time.Now().Add(40 * time.Second); ; {
		once, cancel := context.WithTimeout(ctx, 15*time.Second)
		err := try(once)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(until) || ctx.Err() != nil {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
