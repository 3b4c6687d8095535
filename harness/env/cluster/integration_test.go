//go:build integration

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/link"
	"fencepost/harness/env/sandbox"
)

// holdEnv makes this test binary start a cluster, say so and wait, as a tool
// would that is then killed.
const holdEnv = "FENCEPOST_CLUSTER_TEST_HOLD"

func init() { acts[holdEnv] = hold }

func hold(string) int {
	if !sandbox.Inside() {
		code, err := sandbox.Run(context.Background(), os.Args[1:])
		if err != nil {
			fmt.Println(err)
			return 1
		}
		return code
	}
	network, err := sandbox.NewNetwork()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	l, err := StartLocal(context.Background(), network, LocalConfig{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ns, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(ns, l.scratch.Dir)
	select {}
}

// inSandbox runs the test again inside a sandbox and reports how it ended there;
// inside, it returns true.
func inSandbox(t *testing.T) bool {
	t.Helper()
	if os.Getenv("FENCEPOST_CLUSTER_TEST_INSIDE") != "" {
		return true
	}
	if sandbox.Inside() {
		t.Skip("needs a sandbox of its own, and this is inside one: run it outside")
	}
	if err := sandbox.Available(); err != nil {
		t.Skipf("this machine cannot run the sandbox: %v", err)
	}
	t.Setenv("FENCEPOST_CLUSTER_TEST_INSIDE", "1")
	code, err := sandbox.Run(t.Context(), []string{"-test.run=^" + t.Name() + "$", "-test.v=true", "-test.timeout=8m"})
	if err != nil || code != 0 {
		t.Errorf("inside the sandbox: exit code %d, %v", code, err)
	}
	return false
}

// startLocal starts a cluster that ends with the test.
func startLocal(ctx context.Context, t *testing.T, config LocalConfig) *Local {
	t.Helper()
	network, err := sandbox.NewNetwork()
	must(t, err)
	t.Cleanup(func() { network.Close() })
	config.LogDir, config.Progress = t.TempDir(), func(s string) { t.Log(s) }
	l, err := StartLocal(ctx, network, config)
	must(t, err)
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestLocalCluster(t *testing.T) {
	if !inSandbox(t) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	began := time.Now()
	l := startLocal(ctx, t, LocalConfig{PaxosVariant: PaxosV2})
	t.Logf("start: %s", time.Since(began))
	one, two, three := l.nodes[0], l.nodes[1], l.nodes[2]

	step := func(name string, f func(t *testing.T)) {
		if t.Failed() {
			return
		}
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			f(t)
			t.Logf("%s", time.Since(began))
		})
	}
	// unready fails if the node becomes ready although it must not.
	unready := func(t *testing.T, n *localNode) {
		t.Helper()
		short, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		if err := n.WaitReady(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want no answer", n.Name(), err)
		}
	}

	step("every internode connection runs through its link", func(t *testing.T) {
		all := l.Links().All()
		if len(all) != 6 {
			t.Fatalf("%d links, want 6", len(all))
		}
		for _, lk := range all {
			if c := lk.Counters(); c.ConnsOpened == 0 {
				t.Errorf("%s: no connection: %+v", lk.Name(), c)
			}
		}
	})
	step("a paused node is stopped, the others go on", func(t *testing.T) {
		must(t, two.Pause(ctx))
		two.mustBe(t, Paused, true)
		must(t, one.WaitReady(ctx))
		must(t, three.WaitReady(ctx))
		must(t, two.Resume(ctx))
		two.mustBe(t, Running, true)
		must(t, l.WaitHealthy(ctx))
	})
	step("a killed node comes back", func(t *testing.T) {
		pid := three.PID()
		must(t, three.Kill(ctx))
		three.mustBe(t, Killed, false)
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
		must(t, one.WaitReady(ctx))
		must(t, three.Start(ctx))
		must(t, l.WaitHealthy(ctx))
	})
	step("what was acknowledged survives a SIGKILL", func(t *testing.T) {
		if acked, lost := l.killAfterWrites(ctx, t); lost > 0 {
			t.Errorf("%d of %d acknowledged writes are lost", lost, acked)
		}
	})
	step("without a quorum nothing is ready", func(t *testing.T) {
		must(t, two.Kill(ctx))
		must(t, three.Pause(ctx))
		unready(t, one)
		must(t, three.Resume(ctx))
		must(t, two.Start(ctx))
		must(t, l.WaitHealthy(ctx))
	})
	step("an isolated node is not ready, the others are", func(t *testing.T) {
		must(t, link.SetEnds(ctx, link.Ends(l.Links().Of("n1")), link.Mode{Kind: link.Drop}))
		unready(t, one)
		must(t, two.WaitReady(ctx))
		must(t, three.WaitReady(ctx))
		must(t, l.Links().Heal(ctx))
		must(t, l.WaitHealthy(ctx))
	})
	step("a node stopped in good order comes back", func(t *testing.T) {
		must(t, two.Stop(ctx))
		two.mustBe(t, Stopped, false)
		must(t, two.Start(ctx))
		must(t, l.WaitHealthy(ctx))
	})
	step("after the end nothing is left", func(t *testing.T) {
		must(t, l.Close(ctx))
		for _, n := range l.nodes {
			n.mustBe(t, Killed, false)
			if b, err := os.ReadFile(n.LogFile()); err != nil || !strings.Contains(string(b), "Startup complete") {
				t.Errorf("the log of %s is gone or empty: %v", n.Name(), err)
			}
		}
		if _, err := os.Stat(l.scratch.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the data is left: %v", err)
		}
		links, err := os.ReadDir("/sys/class/net")
		if err == nil && slices.ContainsFunc(links, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "fp-n") }) {
			t.Errorf("interfaces are left: %v", links)
		}
	})
}

// The database's own default loses acknowledged writes when a process is killed:
// the step above can fail. A kill right after a marker loses nothing, hence several
// rounds. For scripts/nightly.
func TestPeriodicCommitLogLosesWrites(t *testing.T) {
	const rounds = 6
	if !inSandbox(t) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	l := startLocal(ctx, t, LocalConfig{CommitLog: CommitLogPeriodic})
	for range rounds {
		if _, lost := l.killAfterWrites(ctx, t); lost > 0 {
			return
		}
	}
	t.Errorf("no acknowledged write was lost in %d rounds", rounds)
}

// killAfterWrites writes rows, each to one replica, kills n1 in the middle of it and
// starts it again. It returns how many writes were acknowledged, by whichever node,
// and how many of them are lost.
func (l *Local) killAfterWrites(ctx context.Context, t *testing.T) (acked, lost int) {
	t.Helper()
	one, three := l.nodes[0], l.nodes[2]
	// All nodes must know the table before the first write: the schema is made by a
	// session that sees all of them.
	cfg := cassandra.Config{Port: l.CQLPort(), Keyspace: "survive"}
	for _, n := range l.nodes {
		cfg.ContactPoints = append(cfg.ContactPoints, n.IP())
	}
	must(t, cassandra.Migrate(ctx, cfg, cassandra.Replication{Class: "SimpleStrategy", Factor: 1}))
	all, err := cassandra.Open(ctx, cfg)
	must(t, err)
	err = all.Exec(ctx, "CREATE TABLE IF NOT EXISTS written (k bigint PRIMARY KEY)")
	all.Close()
	must(t, err)
	cfg.ContactPoints, cfg.Pin = []string{three.IP()}, three.IP()
	db, err := cassandra.Open(ctx, cfg)
	must(t, err)
	defer db.Close()
	const writers, before = 8, 600 // rows before the kill, all writers together
	var next, done atomic.Int64
	next.Store(time.Now().UnixMilli() * 10_000) // other rows in each round
	var mu sync.Mutex
	var rows []int64
	stop := make(chan struct{})
	enough := make(chan struct{})
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				k := next.Add(1)
				if db.Exec(ctx, "INSERT INTO written (k) VALUES (?)", k) != nil {
					continue // n1 is gone
				}
				mu.Lock()
				rows = append(rows, k)
				mu.Unlock()
				if done.Add(1) == before {
					close(enough)
				}
			}
		})
	}
	select {
	case <-enough:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	err = one.Kill(ctx)
	close(stop)
	wg.Wait()
	must(t, err)
	// n1 being ready says nothing of whether n3, through which the rows are read, has
	// noticed that it is back: each row has one replica.
	must(t, errors.Join(one.Start(ctx), l.WaitHealthy(ctx)))
	// It may also notice only now that n1 was gone: what counts is the answer, not the first try.
	patience, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for i, k := range rows {
		read := func() ([]map[string]any, error) {
			return db.Query(patience, false, "SELECT k FROM written WHERE k = ?", k)
		}
		got, err := read()
		for err != nil && patience.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			got, err = read()
		}
		must(t, err)
		if len(got) == 0 {
			t.Logf("lost: row %d, acknowledged as number %d", k, i+1)
			lost++
		}
	}
	t.Logf("%d writes acknowledged, %d lost", len(rows), lost)
	return len(rows), lost
}

func TestKilledToolLeavesNothing(t *testing.T) {
	if sandbox.Inside() {
		t.Skip("needs a sandbox of its own, and this is inside one: run it outside")
	}
	if err := sandbox.Available(); err != nil {
		t.Skipf("this machine cannot run the sandbox: %v", err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), holdEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	ns, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the tool said %q, %v", line, err)
	}
	if n := usersOf(t, ns); n != 5 { // init, tool, three nodes
		t.Errorf("%d processes are in the sandbox, want 5", n)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	// The kernel takes a moment for three JVMs.
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for usersOf(t, ns) != 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d processes are left in the sandbox", usersOf(t, ns))
		}
	}
	// Data has no owner any more, and the next start takes it away.
	cache, err := CacheDir()
	must(t, err)
	s, err := NewScratch(cache)
	must(t, err)
	defer s.Close()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
}

// usersOf counts the processes in a mount namespace.
func usersOf(t *testing.T, ns string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/mnt")
	must(t, err)
	n := 0
	for _, l := range links {
		if got, err := os.Readlink(l); err == nil && got == ns {
			n++
		}
	}
	return n
}
