package fault

import (
	"context"
	"errors"
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
	must(t, err)
	exe, err := os.Executable()
	must(t, err)
	links := link.NewFabric(link.Options{})
	f, err := fleet.New(fleet.Config{
		Binaries: []string{exe}, Workers: n, Links: links, HistoryDir: dir, LogDir: dir, Recorder: rec,
		Worker: workload.Config{Run: "r", Variant: variant, Clients: 1, Locks: []string{"lock-01"}, TTL: time.Second},
	})
	must(t, err)
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
	must(t, f.Start(t.Context()))
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
		proofs
	}{
		"kill":             {spec: Spec{Fault: "kill-worker"}, proofs: proofs{proven: true, probe: "the kernel has no such process any more"}},
		"kill nobody":      {spec: Spec{Fault: "kill-worker"}, inert: FamilyKill, proofs: proofs{probe: "w1.1 (pid "}},
		"stop":             {spec: Spec{Fault: "stop-worker"}, inert: FamilyKill, proofs: proofs{probe: "still runs, in state"}},
		"pause":            {spec: Spec{Fault: "pause-worker"}, proofs: proofs{proven: true, probe: "stands still after"}},
		"pause nobody":     {spec: Spec{Fault: "pause-worker"}, inert: FamilyPause, proofs: proofs{probe: "does not stand still"}},
		"suspend":          {spec: Spec{Fault: "suspend"}, proofs: proofs{proven: true, probe: "stands still after", healed: true, after: "they sent none of the ticks that came every 20 ms before and come again: w1 (by its own word"}},
		"suspend nobody":   {spec: Spec{Fault: "suspend"}, inert: FamilySuspend, proofs: proofs{probe: "does not stand still", after: "by timers that were to stand still"}},
		"timers go on":     {spec: Spec{Fault: "suspend"}, variant: deaf, proofs: proofs{proven: true, probe: "stands still after", after: "by timers that were to stand still"}},
		"a fast clock":     {spec: Spec{Fault: "clock", RatePPM: 9000}, lasts: 3 * time.Second, proofs: proofs{proven: true, probe: "(+9000 ppm is meant); w2.1"}},
		"a slow clock":     {spec: Spec{Fault: "clock", RatePPM: -9000}, lasts: 3 * time.Second, proofs: proofs{proven: true, probe: "(-9000 ppm is meant)"}},
		"no clock":         {spec: Spec{Fault: "clock", RatePPM: 9000}, inert: FamilyClock, lasts: time.Second, proofs: proofs{probe: "its lease clock runs"}},
		"a deaf clock":     {spec: Spec{Fault: "clock", RatePPM: 9000}, variant: deaf, lasts: time.Second, proofs: proofs{probe: "its lease clock runs"}},
		"too short to say": {spec: Spec{Fault: "clock", RatePPM: 9000}, proofs: proofs{probe: "too few to time it by"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := workersOf(t, 2, c.variant)
			env.Inert = c.inert
			c.spec.Targets = []string{"w1", "w2"}
			mustProve(t, env, c.spec, c.lasts, c.proofs)
			for _, w := range env.Fleet.Workers() {
				if s := w.ProcessState(); s == "" || s == "T" {
					t.Errorf("%s is in state %q when it is over", w.Name(), s)
				}
			}
		})
	}
}

// A client that was told to stay is seen to have stayed by its claim.
func TestSlowJobStays(t *testing.T) {
	t.Parallel()
	const ttl, hold, who = 6 * time.Second, 9 * time.Second, "w1.1/c2"
	start := time.Unix(1000, 0)
	mine := func(renewed time.Duration) Claim {
		return Claim{By: who, Token: 7, Written: start.Add(renewed * time.Millisecond), TTL: ttl}
	}
	other := func(by string, token int64, written time.Duration) Claim {
		return Claim{By: by, Token: token, Written: start.Add(written * time.Millisecond), TTL: ttl}
	}
	ledger := func(entries int64) Claim { return Claim{By: "the ledger", Token: entries, Anonymous: true, TTL: ttl} }
	type look struct {
		at  time.Duration
		see Claim
		err error
	}
	blind := errors.New("no node answers")
	for name, c := range map[string]struct {
		first  Claim
		looks  []look
		proven bool
		text   string
	}{
		"renewed to the end":        {mine(0), []look{{2100, mine(2000), nil}, {4100, mine(4000), nil}, {8900, mine(8000), nil}}, true, "for 8.9 s of the 9.0 s for which it was to stay, with 3 renewals"},
		"released at the end":       {mine(0), []look{{8850, mine(8000), nil}, {8950, other("", 7, 8900), nil}}, true, "8.8 s"},
		"left at once":              {mine(0), []look{{0, mine(0), nil}, {100, other("", 7, 30), nil}}, false, "then nobody had it: it did not stay"},
		"left, and another got it":  {mine(0), []look{{100, other("w2.1/c1", 8, 40), nil}}, false, "then w2.1/c1 had it: it did not stay"},
		"left after the ttl":        {mine(0), []look{{6500, mine(6000), nil}, {6600, other("", 7, 6550), nil}}, false, "it did not stay"},
		"its lease ran out":         {mine(0), []look{{2100, mine(2000), nil}, {8000, mine(2000), nil}, {8100, other("w2.1/c1", 8, 8050), nil}}, true, "took it over 6.0 s after the last renewal"},
		"taken over before the ttl": {mine(0), []look{{2100, mine(2000), nil}, {7700, other("w2.1/c1", 8, 7700), nil}}, false, "it did not stay"},
		"seen again at the end":     {mine(0), []look{{100, mine(0), nil}, {4000, Claim{}, blind}, {8900, mine(8000), nil}}, true, "8.9 s"},
		"never seen again":          {mine(0), []look{{100, mine(0), nil}, {4000, Claim{}, blind}}, false, "the rows could not be read (no node answers)"},
		"another had it":            {other("w2.1/c1", 8, 0), nil, false, "which the rows say w2.1/c1 had"},
		"nobody had it":             {Claim{}, nil, false, "which the rows say nobody had"},
		"the ledger stands still":   {ledger(3), []look{{8900, ledger(3), nil}}, true, "8.9 s"},
		"the ledger grows at once":  {ledger(3), []look{{100, ledger(4), nil}}, false, "it did not stay"},
		"… when the lease is over":  {ledger(3), []look{{6100, ledger(3), nil}, {6200, ledger(4), nil}}, true, "its lease had run out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{})
			close(done)
			a := &activeSlowJob{
				env: &Env{Stay: func(context.Context, string) (Claim, error) { return Claim{}, nil }}, hit: Hit{Proc: who, Key: "lock-01", Hold: hold},
				first: c.first, latest: c.first, since: start, last: start, cancel: func() {}, done: done,
			}
			for _, l := range c.looks {
				if a.saw(l.see, l.err, start.Add(l.at*time.Millisecond)) {
					break
				}
			}
			shows(t, a.Probe(t.Context()), c.proven, c.text)
		})
	}
}
