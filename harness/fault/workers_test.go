package fault

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/workload"
)

// workersOf starts workers of a variant.
func workersOf(t *testing.T, n int, variant string) *Env {
	t.Helper()
	dir := t.TempDir()
	rec, err := history.NewRecorder(filepath.Join(dir, "harness.jsonl"), history.Header{Run: "r", Proc: history.Harness})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	links := link.NewFabric(link.Options{})
	f, err := fleet.New(fleet.Config{
		Binaries: []string{exe}, Workers: n, Links: links, HistoryDir: dir, LogDir: dir, Recorder: rec,
		Worker: workload.Config{Run: "r", Variant: variant, Clients: 1, Locks: []string{"lock-01"}, TTL: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := f.Stop(ctx); err != nil {
			t.Error(err)
		}
		if err := links.Close(); err != nil {
			t.Error(err)
		}
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return (&Env{Fleet: f, WorkerLinks: links}).Ready()
}

// Faults of processes and clocks are seen when they were done, and when they were not.
func TestFaultsOfWorkersMustProveThemselves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec    Spec
		inert   Family
		variant string
		lasts   time.Duration // ticks need some time to tell a rate
		probe   string        // of the text
		proven  bool
		after   string // of the text afterwards, "" for none
		healed  bool
	}{
		"kill":             {spec: Spec{Fault: "kill-worker"}, proven: true, probe: "the kernel has no such process any more"},
		"kill nobody":      {spec: Spec{Fault: "kill-worker"}, inert: FamilyKill, probe: "w1.1 (pid "},
		"stop":             {spec: Spec{Fault: "stop-worker"}, inert: FamilyKill, probe: "still runs, in state"},
		"pause":            {spec: Spec{Fault: "pause-worker"}, proven: true, probe: "stands still after"},
		"pause nobody":     {spec: Spec{Fault: "pause-worker"}, inert: FamilyPause, probe: "does not stand still"},
		"suspend":          {spec: Spec{Fault: "suspend"}, proven: true, probe: "stands still after", healed: true, after: "they sent none of the ticks that came every 20 ms before and come again: w1 (by its own word"},
		"suspend nobody":   {spec: Spec{Fault: "suspend"}, inert: FamilySuspend, probe: "does not stand still", after: "by timers that were to stand still"},
		"timers go on":     {spec: Spec{Fault: "suspend"}, variant: deaf, proven: true, probe: "stands still after", after: "by timers that were to stand still"},
		"a fast clock":     {spec: Spec{Fault: "clock", RatePPM: 9000}, lasts: 3 * time.Second, proven: true, probe: "(+9000 ppm is meant); w2.1"},
		"a slow clock":     {spec: Spec{Fault: "clock", RatePPM: -9000}, lasts: 3 * time.Second, proven: true, probe: "(-9000 ppm is meant)"},
		"no clock":         {spec: Spec{Fault: "clock", RatePPM: 9000}, inert: FamilyClock, lasts: time.Second, probe: "its lease clock runs"},
		"a deaf clock":     {spec: Spec{Fault: "clock", RatePPM: 9000}, variant: deaf, lasts: time.Second, probe: "its lease clock runs"},
		"too short to say": {spec: Spec{Fault: "clock", RatePPM: 9000}, probe: "too few to time it by"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := workersOf(t, 2, c.variant)
			env.Inert = c.inert
			c.spec.Targets = []string{"w1", "w2"}
			mustProve(t, env, c.spec, c.lasts, proofs{c.proven, c.probe, c.healed, c.after})
			for _, w := range env.Fleet.Workers() {
				if s := w.ProcessState(); s == "" || s == "T" {
					t.Errorf("%s is in state %q when it is over", w.Name(), s)
				}
			}
		})
	}
}
