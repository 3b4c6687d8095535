package recorder

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fencepost/bench"
	"fencepost/bench/locks"
	"fencepost/core/clock"
	"fencepost/core/store/cassandra"
	"fencepost/core/store/sim"
	"fencepost/harness/record/history"
	"fencepost/harness/target/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"no contention":  {},
		"few rounds":     {Contention: locks.Low, Config: bench.Config{Rounds: 4}},
		"no threads":     {Contention: locks.Low, Threads: []int{0}},
		"threads twice":  {Contention: locks.Low, Threads: []int{8, 8}},
		"too many":       {Contention: locks.Low, Threads: []int{5000}},
		"a short window": {Contention: locks.Low, Config: bench.Config{Window: time.Millisecond}},
	} {
		if s, err := New(c); err == nil {
			t.Errorf("%s: accepted as %+v", name, s.Config)
		}
	}
}

func TestDefaultPlan(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Contention: locks.High})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, a := range s.plan.Arms {
		ids = append(ids, a.ID)
		for _, ref := range []string{a.Ceiling, a.Baseline, a.Control} {
			if other, err := s.plan.Arm(ref); ref != "" && (err != nil || other.Threads != a.Threads) {
				t.Errorf("%s refers to %q", a.ID, ref)
			}
		}
		if a.Control != "" {
			copied, _ := s.plan.Arm(a.Control)
			copied.ID, copied.Letter, copied.Name, copied.Control = a.ID, a.Letter, a.Name, a.Control
			if !reflect.DeepEqual(copied, a) {
				t.Errorf("the control %+v is no copy of %+v", a, copied)
			}
		}
	}
	want := []string{
		"C/1", "L/1", "R/1", "P/1", "RP/1", "L2/1", "C/8", "L/8", "R/8", "P/8", "RP/8", "L2/8", "C/32", "L/32", "R/32", "P/32", "RP/32", "L2/32",
	}
	if !slices.Equal(ids, want) {
		t.Errorf("arms %v, want %v", ids, want)
	}
	warm := s.Design().WarmUp
	if len(warm) != 5 || warm[4].Kind != kindBoth || warm[4].ID != "warmup-RP" {
		t.Errorf("the warm-up is %+v", warm)
	}
}

// measured is a whole benchmark on a simulated store, without links.
func measured(t *testing.T, c locks.Contention, spoil func(workload.Recorder) workload.Recorder) (r *bench.Result, dir string) {
	t.Helper()
	dir = t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{
			Contention: c, Threads: []int{1, 2}, Config: bench.Config{Rounds: 5, Window: 500 * time.Millisecond, Seed: 3}, withoutLinks: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.spoil = spoil
		session := sim.New().Connect("bench", 1)
		session.SetFaults(sim.Faults{Latency: 4 * time.Millisecond})
		env := &bench.Env{Locks: session, Clock: clock.Go(), Seed: 3, Dir: dir}
		if r, err = bench.Measure(t.Context(), s, env, bench.NewProgress(nil)); err != nil {
			t.Fatal(err)
		}
	})
	return r, dir
}

// TestWholeBenchmark: recorded arms do what the others do, and what they did is in their
// histories, whatever clients do to each other.
func TestWholeBenchmark(t *testing.T) {
	t.Parallel()
	for _, c := range []locks.Contention{locks.Low, locks.High} {
		r, dir := measured(t, c, nil)
		// That two equal things cost different on this machine says nothing here.
		other := slices.DeleteFunc(slices.Clone(r.Problems), func(p string) bool { return strings.Contains(p, "A/A control") })
		if len(r.Violations)+len(other) > 0 {
			t.Errorf("%s: problems %q, violations %q", c, other, r.Violations)
		}
		if !slices.ContainsFunc(r.Notes, func(n string) bool {
			return strings.Contains(n, "in 3 history files") && strings.Contains(n, "read back")
		}) {
			t.Errorf("%s: nothing was read back: %q", c, r.Notes)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", c, left, err)
		}
		if len(r.Met) != 2 { // without links one arm is compared, with 1 and 2 threads
			t.Errorf("%s: targets %+v", c, r.Met)
		}
		// Recording takes no virtual time.
		if got := r.Ratio("R/2", "L/2", bench.Sample.Rate).Median; got < 0.9 || got > 1.1 {
			t.Errorf("%s: recorded cycles have %v times the rate", c, got)
		}
		for _, line := range slices.Concat(r.Suite.Headlines(r), []string{r.Suite.Round(r.Samples)}) {
			t.Log(line)
		}
		if _, err := r.Report(bench.About{Name: "test"}); err != nil {
			t.Error(err)
		}
	}
}

// dropping loses one in so many events that which chooses.
type dropping struct {
	workload.Recorder
	every int64
	n     atomic.Int64
	which func(history.Event) bool
}

func (d *dropping) Record(e history.Event) int64 {
	if d.which(e) && d.n.Add(1)%d.every == 0 {
		return d.Now()
	}
	return d.Recorder.Record(e)
}

// TestDroppingIsFound: a recorder that drops some events is no fast recorder.
func TestDroppingIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		which func(history.Event) bool
		want  string
	}{
		{"any", func(history.Event) bool { return true }, ": its history "},
		{"ends", func(e history.Event) bool { return e.Type == history.OK }, "does not have what its client did"},
		{"releases", func(e history.Event) bool { return e.Op == history.OpRelease && e.Type == history.OK }, `lines "release ok"`},
		{"calls", func(e history.Event) bool { return e.Op == history.OpLock && e.Type == history.Invoke }, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, dir := measured(t, locks.Low, func(rec workload.Recorder) workload.Recorder {
				return &dropping{Recorder: rec, every: 1000, which: c.which}
			})
			if r.ExitCode() != bench.ExitViolation || !strings.Contains(strings.Join(r.Violations, "; "), c.want) {
				t.Errorf("%q", r.Violations)
			}
			if kept, _ := filepath.Glob(filepath.Join(dir, "history", "*.jsonl")); len(kept) == 0 {
				t.Error("the histories are gone")
			}
		})
	}
}

// TestLinks: a session of an arm with links has no other way to the nodes.
func TestLinks(t *testing.T) {
	t.Parallel()
	node, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	go func() {
		for {
			c, err := node.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	s, err := New(Config{Contention: locks.Low})
	if err != nil {
		t.Fatal(err)
	}
	env := &bench.Env{Dir: t.TempDir(), Addrs: []bench.NodeAddr{{Name: "n1", IP: "10.0.0.1", Addr: node.Addr().String()}}}
	if err := s.Open(t.Context(), env); err == nil {
		t.Error("links without a database")
	}
	env.Dir = t.TempDir()
	env.Session = func(context.Context, ...func(*cassandra.Config)) (*cassandra.DB, error) {
		return nil, errors.New("none")
	}
	if err := s.Open(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	x, cfg := &arm{}, cassandra.Config{ContactPoints: []string{"10.0.0.9"}}
	if err := s.link(x, "w1", &cfg); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cfg.ContactPoints, []string{"10.0.0.1"}) {
		t.Errorf("contact points %v", cfg.ContactPoints)
	}
	if _, err := cfg.Dial(t.Context(), "10.0.0.2"); err == nil {
		t.Error("a way to a node without a link")
	}
	c, err := cfg.Dial(t.Context(), "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("this is no statement")
	if _, err := c.Write(text); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, len(text))); err != nil {
		t.Fatal(err)
	}
	if n := x.links[0].Counters(); n.ConnsOpened != 1 || n.Up.PassedBytes != int64(len(text)) {
		t.Errorf("the link carried %+v", n)
	}
	c.Close()
	if err := s.link(&arm{}, "w2", &cassandra.Config{TLS: &tls.Config{}}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.fabric.Close(), s.harness.Close()); err != nil {
		t.Error(err)
	}
	if len(s.unread) == 0 {
		t.Error("what is no statement was read")
	}
}
