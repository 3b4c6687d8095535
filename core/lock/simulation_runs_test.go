package lock_test

import (
	"flag"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"fencepost/core/lock"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

var (
	simSeeds = flag.Uint64("sim.seeds", 1500, "number of simulated runs")
	simFirst = flag.Uint64("sim.first", 1, "first seed: -sim.first N -sim.seeds 1 replays run N")
)

// configFor draws a run from its seed.
func configFor(seed uint64) simConfig {
	r := rand.New(rand.NewPCG(seed, 42))
	drift := []float64{0.01, 0.05, 0.1}[r.IntN(3)]
	cfg := simConfig{
		seed: seed, processes: 2 + r.IntN(2), clients: 1 + r.IntN(3), resources: 1 + r.IntN(2),
		ttl: time.Duration(500+r.IntN(2500)) * time.Millisecond, drift: drift,
		rates:    []float64{1 - drift, 1 + drift, 1},
		duration: time.Duration(10+r.IntN(20)) * time.Second,
	}
	cfg.faults = sim.Faults{
		Latency:     time.Duration(1+r.IntN(20)) * time.Millisecond,
		LoseRequest: 0.15 * r.Float64(), LoseReply: 0.15 * r.Float64(), Late: 0.15 * r.Float64(),
		LateBy: time.Duration(r.Int64N(int64(3 * cfg.ttl))),
		Refuse: 0.1 * r.Float64(), ServerTimeout: 0.1 * r.Float64(), StaleRead: 0.2 * r.Float64(),
	}
	if r.IntN(8) == 0 {
		cfg.faults = sim.Faults{Latency: cfg.faults.Latency} // a quiet run
	}
	return cfg
}

// TestSimulation: no seed may break a rule, and all together must have met
// every situation that the rules are about.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds := *simSeeds
	if testing.Short() {
		seeds = min(seeds, 200)
	}
	total := map[string]int{}
	for seed := *simFirst; seed < *simFirst+seeds; seed++ {
		violations, counts := runSim(t, configFor(seed))
		for rule, what := range violations {
			t.Errorf("seed %d: %s: %s (replay: -run TestSimulation -sim.first %d -sim.seeds 1)", seed, rule, what, seed)
		}
		for k, v := range counts {
			total[k] += v
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d runs: %v", seeds, total)
	if seeds < 1000 { // the rarest is met once in some 200 runs
		return
	}
	for _, must := range []string{"grant", "takeover", "resend", "lost", "abandoned", "late-grant", "crash", "cut",
		"acquire-ok", "acquire-fail", "acquire-unknown", "renew-ok", "renew-fail", "renew-unknown",
		"release-ok", "release-fail", "release-unknown", "read-ok"} {
		if total[must] == 0 {
			t.Errorf("no run met %q: the simulation does not test it", must)
		}
	}
}

// TestSimulationFindsPlantedBugs: a test that cannot fail proves nothing. Each
// planted bug must be found, by the rule that is about it, within some seeds.
func TestSimulationFindsPlantedBugs(t *testing.T) {
	t.Parallel()
	type bug struct {
		rules []string
		plant func(cfg *simConfig)
	}
	bugs := map[string]bug{
		"condition without the beat": {[]string{"exclusive"}, func(c *simConfig) {
			c.setup = func(s *sim.Store) {
				s.Match = func(row, from *store.Version) bool {
					if row == nil || from == nil {
						return row == from
					}
					a, b := *row, *from
					a.Beat, b.Beat = 0, 0
					return a == b
				}
			}
		}},
		"condition on the holder only": {[]string{"chain", "fail"}, func(c *simConfig) {
			c.setup = func(s *sim.Store) {
				s.Match = func(row, from *store.Version) bool {
					return row == nil && from == nil || row != nil && from != nil && row.Holder == from.Holder
				}
			}
		}},
		"release deletes the row": {[]string{"token", "chain"}, func(c *simConfig) {
			c.setup = func(s *sim.Store) {
				s.Write = func(_ *store.Version, to store.Version) *store.Version {
					if to.Holder == "" {
						return nil
					}
					return &to
				}
			}
		}},
		"rejections show a wrong attempt": {[]string{"fail"}, func(c *simConfig) {
			c.setup = func(s *sim.Store) {
				s.Reject = func(row, _ *store.Version) *store.Version {
					if row == nil {
						return nil
					}
					wrong := *row
					wrong.Attempt = "wrong"
					return &wrong
				}
			}
		}},
		"applied answer read as rejected": {[]string{"fail"}, func(c *simConfig) {
			c.plant = func(_ *world, _ *process, o *lock.Options, s store.Locks) store.Locks {
				return mistake.Locks{Locks: s, Do: func(c mistake.CAS) (store.CASResult, error) {
					res, err := c.Send()
					return store.CASResult{Row: res.Row}, err
				}}
			}
		}},
		"attempt ids repeat": {[]string{"ok", "exclusive"}, func(c *simConfig) {
			c.plant = func(_ *world, _ *process, o *lock.Options, s store.Locks) store.Locks {
				o.NewID = func() string { return "00000000-0000-4000-8000-000000000000" }
				return s
			}
		}},
		"clocks worse than declared": {[]string{"exclusive"}, func(c *simConfig) {
			c.drift, c.rates = 0.001, []float64{0.5, 2, 1}
		}},
		"no margin": {[]string{"exclusive"}, func(c *simConfig) {
			c.drift, c.rates = 0.0001, []float64{0.9, 1.1}
		}},
	}
	for _, m := range mistake.All {
		if m.Locks != nil {
			bugs[m.ID] = bug{m.Rules, func(c *simConfig) {
				c.plant = func(_ *world, _ *process, _ *lock.Options, s store.Locks) store.Locks {
					return m.Locks(mistake.Process{TTL: c.ttl}, s)
				}
			}}
		}
	}
	for name, bug := range bugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const seeds = 600
			for seed := uint64(1); seed <= seeds; seed++ {
				cfg := configFor(seed)
				bug.plant(&cfg)
				violations, _ := runSim(t, cfg)
				for _, rule := range bug.rules {
					if what, ok := violations[rule]; ok {
						t.Logf("found with seed %d by %q: %s", seed, rule, what)
						return
					}
				}
			}
			t.Errorf("not found by any of %v within %d seeds", bug.rules, seeds)
		})
	}
}
