//go:build integration

package field

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/bench"
	"fencepost/harness/env/sandbox"
	"fencepost/harness/target/system"
	"fencepost/internal/turn"
)

const insideEnv = "FENCEPOST_FIELD_TEST_INSIDE"

func TestMain(m *testing.M) {
	sandbox.Init()
	os.Exit(m.Run())
}

// TestWholeBenchmark measures a lock of the store whose turn it is, on real servers and by its real program.
func TestWholeBenchmark(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		if err := sandbox.Available(); err != nil {
			t.Skipf("this machine cannot run the sandbox: %v", err)
		}
		t.Setenv(insideEnv, "1")
		code, err := sandbox.Run(t.Context(), []string{"-test.run=^TestWholeBenchmark$", "-test.v=true", "-test.timeout=5m"})
		if err != nil || code != 0 {
			t.Errorf("inside the sandbox: exit code %d, %v", code, err)
		}
		return
	}
	day, _, err := turn.Today()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(Systems(), func(name string) bool {
		sys, err := system.Find(name)
		return err == nil && sys.Store != "" && sys.Child == "" && turn.HasStore(day, sys.Store)
	})
	if at < 0 {
		t.Fatal("no lock of the field is on a store whose turn it is")
	}
	lock := Systems()[at]
	network, err := sandbox.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Config: bench.Config{Rounds: bench.MinRounds, Window: 200 * time.Millisecond}, Systems: []string{lock, none}, BinDir: bin, Network: network, First: 3})
	if err != nil {
		t.Fatal(err)
	}
	s.cold = true
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("the benchmark hangs"))
	defer cancel()
	r, err := bench.Measure(ctx, s, &bench.Env{Seed: 3, Dir: t.TempDir()}, bench.NewProgress(nil))
	if err != nil {
		t.Fatal(err)
	}
	noise := func(p string) bool { return strings.HasPrefix(p, "A/A copies") } // of so short a run
	if len(r.Violations) != 0 || slices.ContainsFunc(r.Problems, func(p string) bool { return !noise(p) }) {
		t.Errorf("%v, %v", r.Violations, r.Problems)
	}
	numbers, err := r.Numbers()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		store := n.Cost("store_cpu_s_per_1000").Median
		if n.Rate.N != bench.MinRounds || n.Rate.Median == 0 || n.Cost("client_cpu_s_per_1000").Median == 0 || (store > 0) == strings.HasPrefix(n.Arm.ID, none) {
			t.Errorf("%s: %+v, %+v", n.Arm.ID, n.Rate, n.Costs)
		}
	}
	if h := s.Headlines(r); len(h) != 4 {
		t.Error(h)
	}
}
