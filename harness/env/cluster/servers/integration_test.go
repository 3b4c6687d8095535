//go:build integration

package servers

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/env/postgres"
	"fencepost/harness/env/sandbox"
	"fencepost/internal/turn"
)

const insideEnv = "FENCEPOST_SERVERS_TEST_INSIDE"

// TestServers takes the stores whose turn it is through what runs do to one. Servers that are not here
// are named: scripts/test-real has fetched those of the day.
func TestServers(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		if err := sandbox.Available(); err != nil {
			t.Skipf("this machine cannot run the sandbox: %v", err)
		}
		t.Setenv(insideEnv, "1")
		code, err := sandbox.Run(t.Context(), []string{"-test.run=^TestServers$", "-test.v=true", "-test.timeout=12m"})
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
	day, all, err := turn.Today()
	must(t, err)
	for _, k := range kinds {
		if !all && !turn.HasStore(day, k.Name) {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			if _, err := k.Find(ctx, cache); err != nil {
				t.Skipf("NOT TESTED: %v: %s", err, k.Fetch)
			}
			clocks := k.Cannot.ServerClock == ""
			if _, err := FindFaketime(cache); err != nil && clocks {
				t.Logf("NOT TESTED: the clocks of its servers: %v", err)
				clocks = false
			}
			c, err := Start(ctx, network, k, Config{LogDir: t.TempDir(), Clocks: clocks, Progress: func(s string) { t.Log(s) }})
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
	if c.faketime != "" {
		jumps(ctx, t, c, decides)
	}
	if c.Kind.Cannot.LoseData == "" {
		forgets(ctx, t, c, decides)
	}
	if c.Kind.Cannot.Promote == "" {
		failsOver(ctx, t, c)
	}
	if c.Kind.Name == postgresStandby.Name || c.Kind.Name == postgresSync.Name {
		waits(ctx, t, c)
	}
}

// jumps: a server's clock is set wrong while it runs, stays so in its next life, and is set right.
func jumps(ctx context.Context, t *testing.T, c *Cluster, n cluster.Node) {
	shows := func(want time.Duration) {
		t.Helper()
		now, err := c.Now(ctx, n.Name())
		must(t, err)
		if by := time.Until(now); (by - want).Abs() > 500*time.Millisecond {
			t.Errorf("the clock of %s is ahead by %s, want %s", n.Name(), by, want)
		}
	}
	shows(0)
	for _, offset := range []time.Duration{10 * time.Minute, -time.Hour} {
		must(t, c.SetClock(n.Name(), offset))
		shows(offset)
		must(t, c.Read(ctx, n.Name()))
	}
	must(t, n.Kill(ctx))
	must(t, n.Start(ctx))
	must(t, n.WaitReady(ctx))
	shows(-time.Hour)
	must(t, c.SetClock(n.Name(), 0))
	shows(0)
	must(t, c.WaitHealthy(ctx))
	if err := c.SetClock(n.Name(), 1500*time.Millisecond); err == nil {
		t.Error("a clock is set by a part of a second")
	}
}

// forgets: a server loses what it stored, and starts again with nothing.
func forgets(ctx context.Context, t *testing.T, c *Cluster, n cluster.Node) {
	taken, err := c.Mark(ctx, n.Name(), "a-mark")
	must(t, err)
	if taken != (c.Kind.Mark != nil) {
		t.Errorf("%s takes a key: %t", n.Name(), taken)
	}
	if err := c.Lose(n.Name()); err == nil {
		t.Error("it loses its data while it runs")
	}
	must(t, n.Kill(ctx))
	must(t, n.Start(ctx))
	must(t, n.WaitReady(ctx))
	if taken {
		if there, err := c.Marked(ctx, n.Name(), "a-mark"); err != nil || !there {
			t.Errorf("a server that is killed forgets a key: %v", err)
		}
	}
	must(t, n.Kill(ctx))
	must(t, c.Lose(n.Name()))
	if stored, err := c.Stored(n.Name()); stored || err != nil {
		t.Errorf("%s has data still: %v", n.Name(), err)
	}
	must(t, n.Start(ctx))
	must(t, n.WaitReady(ctx))
	must(t, c.WaitHealthy(ctx))
	if taken {
		if there, err := c.Marked(ctx, n.Name(), "a-mark"); err != nil || there {
			t.Errorf("%s still has the key: %v", n.Name(), err)
		}
	}
	eventually(ctx, t, "a read through "+n.Name(), func(ctx context.Context) error { return c.Read(ctx, n.Name()) })
}

// failsOver: the replica takes its primary's place, which follows it then; and back.
func failsOver(ctx context.Context, t *testing.T, c *Cluster) {
	for _, way := range [][2]int{{0, 1}, {1, 0}} {
		old, next := c.Nodes()[way[0]], c.Nodes()[way[1]]
		if taken, err := c.Mark(ctx, next.Name(), "a-key"); taken || err != nil {
			t.Errorf("the replica %s takes a key: %t, %v", next.Name(), taken, err)
		}
		must(t, old.Kill(ctx))
		must(t, c.Promote(ctx, next.Name()))
		if leader, err := c.Leader(ctx, "a_run"); err != nil || leader != next.IP() {
			t.Errorf("the leader is %s, %v, want %s", leader, err, next.IP())
		}
		key := "written-to-" + next.Name()
		if taken, err := c.Mark(ctx, next.Name(), key); !taken || err != nil {
			t.Errorf("the new primary takes no key: %v", err)
		}
		must(t, old.Start(ctx))
		must(t, old.WaitReady(ctx))
		role, err := c.Role(ctx, old.Name())
		must(t, err)
		if role.Primary || !role.InSync {
			t.Errorf("the old primary says %q", role.Text)
		}
		eventually(ctx, t, "the old primary has the key", func(ctx context.Context) error {
			there, err := c.Marked(ctx, old.Name(), key)
			if err == nil && !there {
				err = errors.New("it has not")
			}
			return err
		})
	}
}

// waits: a primary with a synchronous standby commits nothing without it, one with another does. A
// promoted one commits alone, and waits again once it is followed.
func waits(ctx context.Context, t *testing.T, c *Cluster) {
	commit := func(i int) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		s := c.site()
		conn, err := pgx.Connect(ctx, postgres.ConnString(s.Addr(i), postgres.SecretIn(s.Dirs[i])))
		must(t, err)
		defer conn.Close(context.Background())
		_, err = conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS commits (n bigint); INSERT INTO commits VALUES (1)")
		return err
	}
	without := func(primary int, standby cluster.Node) {
		t.Helper()
		must(t, standby.Pause(ctx))
		err := commit(primary)
		if waited := errors.Is(err, context.DeadlineExceeded); waited != (c.Kind.Name == postgresSync.Name) || !waited && err != nil {
			t.Errorf("%s: a commit without its standby %s: %v", c.Kind.Name, standby.Name(), err)
		}
		must(t, standby.Resume(ctx))
		must(t, c.WaitHealthy(ctx))
		must(t, commit(primary))
	}
	old, next := c.Nodes()[0], c.Nodes()[1]
	without(0, next)
	must(t, old.Kill(ctx))
	must(t, c.Promote(ctx, next.Name()))
	must(t, commit(1))
	must(t, old.Start(ctx))
	must(t, old.WaitReady(ctx))
	without(1, old)
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
