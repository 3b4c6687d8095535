package locks

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/bench"
	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/harness/target/system"
	"fencepost/reports"
)

// simulated measures the arms of a system in a simulated store, without plain writes, and returns
// the violations that the audit of locks found.
func simulated(t *testing.T, name string, seed uint64) (reports.BenchResult, []string) {
	t.Helper()
	v, ok := FindVariant(name)
	if !ok {
		t.Fatalf("no variant %s", name)
	}
	s, err := New(Config{
		Config: bench.Config{Rounds: bench.MinRounds, Window: time.Second, Seed: seed}, Contention: Low, Threads: []int{4},
		TTLs: []time.Duration{6 * time.Second}, Variant: v,
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, sim.Faults{})
	s.env, s.ceiling, s.cycles = &bench.Env{Locks: w.session, Clock: clock.Go(), Seed: seed}, NewCeiling(w.session, 6*time.Second), &Cycles{w.audit}
	r := &bench.Result{Suite: s, Design: s.Design()}
	var found []string
	for i, a := range s.plan.Arms {
		if a.Kind == "write" {
			continue
		}
		subject, err := s.Subject(a, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		for round := range bench.MinRounds {
			sample, err := subject.Window(t.Context(), bench.Window{Arm: a, Rate: 20, Round: round + 1, Length: time.Second, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			r.Samples = append(r.Samples, sample)
		}
		if err := subject.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Finish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	found = append(found, r.Violations...)
	b, err := r.Report(bench.About{Name: r.Name, Command: name})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range b.Arms {
		for i := range a.Rounds {
			a.Rounds[i].Cost = &reports.BenchCost{Ops: a.Rounds[i].Done, Spent: map[string]float64{reports.SpentLWTs: float64(a.Rounds[i].LWTs)}}
		}
	}
	return b, found
}

// TestRenewsTwice: the variant costs an LWT of each cycle with a renewal and nothing else, the audit
// has nothing to object to, and a comparison finds it there alone.
func TestRenewsTwice(t *testing.T) {
	t.Parallel()
	results := map[string]reports.BenchResult{}
	for name, want := range map[string]map[string]float64{
		Core:                  {"C/4": 1, "L/4/6s": 2, "L2/4/6s": 2, "LR/4/6s": 3},
		"broken/renews-twice": {"C/4": 1, "L/4/6s": 2, "L2/4/6s": 2, "LR/4/6s": 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, found := simulated(t, name, uint64(len(name)))
			results[name] = b
			if len(found) > 0 {
				t.Errorf("%s: the audit found %q", name, found)
			}
			ns, err := b.Numbers()
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range ns {
				w, measured := want[n.Arm.ID]
				if !measured {
					continue
				}
				if n.LWTs.Min != w || n.LWTs.Max != w || n.OK == 0 {
					t.Errorf("%s, %s: %v to %v LWTs for each of %d cycles, want %v", name, n.Arm.ID, n.LWTs.Min, n.LWTs.Max, n.OK, w)
				}
				delete(want, n.Arm.ID)
			}
			if len(want) > 0 {
				t.Errorf("%s: not measured: %v", name, want)
			}
		})
	}
	older, newer := results[Core], results["broken/renews-twice"]
	if older.Name != "low" || newer.Name != "low-renews-twice" || !strings.Contains(newer.About, "broken/renews-twice") {
		t.Errorf("%q and %q, about %q", older.Name, newer.Name, newer.About)
	}
	c, err := reports.CompareBenches(older, newer)
	if err != nil {
		t.Fatal(err)
	}
	worse := c.Worse()
	if len(worse) != 1 || worse[0].Arm != "LR/4/6s" || worse[0].Quantity != "lwt_per_op" {
		t.Errorf("worse is %+v, want the LWTs of LR alone", worse)
	}
	if word, text := c.Conclusion(); word != "FAIL" {
		t.Errorf("%s: %s", word, text)
	}
}

// TestRenewalFails: a lease that could not be renewed is given back, and its cycle is not ok.
func TestRenewalFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Faults{})
		s := w.lock()
		s.(*locker).renew = func(context.Context, *lock.Lease) error { return &store.Error{Outcome: store.Fail} }
		got := w.run(s, bench.Arm{ID: "LR", Kind: "renew", Threads: 2, TTL: 6 * time.Second}, High, 2*time.Second)
		// Without a release there would be one cycle in a ttl.
		if got.OK != 0 || got.Fail < 100 {
			t.Errorf("%d ok, %d failed; want no one ok, and hundreds of others", got.OK, got.Fail)
		}
		if found := w.end(s, grants); len(found) > 0 {
			t.Error(found)
		}
	})
}

// TestRenewalsAreLost: what is unknown of them leaves no lock held and no grant missing.
func TestRenewalsAreLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, sim.Faults{LoseReply: 0.02, LoseRequest: 0.01, ServerTimeout: 0.02, Refuse: 0.02})
		s := w.lock()
		s.(*locker).renew = Variant{}.renewal()
		got := w.run(s, bench.Arm{ID: "LR", Kind: "renew", Threads: 4, TTL: 6 * time.Second}, Medium, 20*time.Second)
		if got.OK == 0 || got.Sent.Unknown == 0 {
			t.Errorf("%d ok, %d requests unknown; want both", got.OK, got.Sent.Unknown)
		}
		if found := w.end(s, grants); len(found) > 0 {
			t.Error(found)
		}
	})
}

// TestVariantsAreNoMistakes: no directed run is made of them, as no check can see them.
func TestVariantsAreNoMistakes(t *testing.T) {
	t.Parallel()
	for _, name := range Systems()[1:] {
		if !strings.HasPrefix(name, "broken/") {
			t.Errorf("%s does not say that it is broken", name)
		}
		if slices.ContainsFunc(system.Directed(), func(s system.System) bool { return s.Name == name }) {
			t.Errorf("%s is a known-broken variant too", name)
		}
	}
	if v, ok := FindVariant("lock-per-job"); ok {
		t.Errorf("%+v is measured in place of another system", v)
	}
}
