package engine_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/store/sim"
	"fencepost/internal/race"
)

var (
	simSeeds   = flag.Uint64("sim.seeds", 200, "number of simulated runs")
	simFirst   = flag.Uint64("sim.first", 1, "first seed: -sim.first N -sim.seeds 1 replays run N")
	simReplays = flag.Uint64("sim.replays", 4, "seeds that are run ten times each, to the same history")
	simShrink  = flag.Int("sim.shrink", 100, "runs to spend on making a red run smaller")
	simLanes   = flag.Int("sim.lanes", 2, "runs at once")
)

// configFor draws a run from its seed.
func configFor(seed uint64) simConfig {
	r := rand.New(rand.NewPCG(seed, 42))
	drift := []float64{0.01, 0.05, 0.1}[r.IntN(3)]
	ttl := time.Duration(500+r.IntN(1500)) * time.Millisecond
	cfg := simConfig{
		seed: seed, nodes: 3, shards: 1 + r.IntN(3), jobs: 8 + r.IntN(18), slots: 1 + r.IntN(6),
		maxOps: 8 + r.IntN(26), maxLoaded: 3 + r.IntN(30), page: 1 + r.IntN(10),
		ttl: ttl, drift: drift, rates: []float64{1 - drift, 1 + drift, 1},
		horizon: ttl/2 + time.Duration(r.Int64N(int64(3*ttl))), dedupe: 14 * ttl, duration: 12 * ttl,
		skew:    []time.Duration{0, time.Duration(r.Int64N(int64(ttl))), -time.Duration(r.Int64N(int64(ttl)))},
		crashes: r.IntN(4), retry: job.Exponential(ttl/8, 2, ttl),
	}
	cfg.retires = seed%2 == 0
	cfg.trimEvery, cfg.maxDead = 1+int(seed%3), 80
	cfg.maxBytes = 4<<10 + int(seed%4)*(3<<10)
	cfg.faults = sim.Faults{
		Latency:     time.Duration(1+r.IntN(10)) * time.Millisecond,
		LoseRequest: 0.1 * r.Float64(), LoseReply: 0.15 * r.Float64(), Late: 0.1 * r.Float64(),
		LateBy: time.Duration(r.Int64N(int64(3 * ttl))),
		Refuse: 0.1 * r.Float64(), ServerTimeout: 0.1 * r.Float64(), StaleRead: 0.2 * r.Float64(),
	}
	if r.IntN(8) == 0 {
		cfg.faults = sim.Faults{Latency: cfg.faults.Latency} // a quiet network
	}
	for range r.IntN(5) {
		cfg.events = append(cfg.events, event{
			at: time.Duration(r.Int64N(int64(cfg.duration))), length: time.Duration(r.Int64N(int64(3 * ttl))),
			node: r.IntN(cfg.nodes), kind: []string{"crash", "stop", "pause", "cut"}[r.IntN(4)],
		})
	}
	switch r.IntN(10) {
	case 0: // clocks that are worse than declared: numbers alone protect
		cfg.beyond, cfg.drift, cfg.rates = true, 0.001, []float64{0.6, 1.5, 1}
	case 1:
		cfg.poison = true
		cfg.setup = func(s *sim.Store) { s.Refuses = poisonous }
	case 2, 3:
		cfg.wrongClocks(r)
	}
	cfg.schedules = rand.New(rand.NewPCG(seed, 43)).IntN(4)
	cfg.pauses = rand.New(rand.NewPCG(seed, 44)).IntN(3) == 0
	if cfg.schedules > 0 {
		cfg.maxBytes = max(cfg.maxBytes, 10<<10)
	}
	return cfg
}

// sweepSeeds runs f for many seeds, some at once, and returns when all are done or
// f reports that enough was seen.
func sweepSeeds(first, n uint64, lanes int, f func(seed uint64) (enough bool)) {
	var mu sync.Mutex
	next, stop := first, false
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				over := stop || seed >= first+n
				mu.Unlock()
				if over {
					return
				}
				if f(seed) {
					mu.Lock()
					stop = true
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
}

// TestSimulation: no seed may break a rule, and all together must have met
// every situation that the rules are about.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds := *simSeeds
	if testing.Short() || race.Enabled {
		seeds = min(seeds, 50)
	}
	var mu sync.Mutex
	total := map[string]int{}
	begun := time.Now()
	sweepSeeds(*simFirst, seeds, *simLanes, func(seed uint64) bool {
		cfg := configFor(seed)
		r := runSim(t, cfg)
		for rule, what := range r.violations {
			t.Errorf("seed %d: %s: %s (replay: -run 'TestSimulation$' -sim.first %d -sim.seeds 1)\nsmallest run found: %s",
				seed, rule, what, seed, shrink(t, cfg, rule, *simShrink).describe())
		}
		mu.Lock()
		defer mu.Unlock()
		for k, v := range r.counts {
			total[k] += v
		}
		return t.Failed()
	})
	if t.Failed() {
		return
	}
	t.Logf("%d runs, %.1f a second: %s", seeds, float64(seeds)/time.Since(begun).Seconds(), inOrder(total))
	if seeds < 1000 { // the rarest is met once in some hundred runs
		return
	}
	for _, must := range situations {
		if total[must] == 0 {
			t.Errorf("no run met %q: the simulation does not test it", must)
		}
	}
}

// TestSeedsThatFoundSomething: each of them broke a rule once.
func TestSeedsThatFoundSomething(t *testing.T) {
	t.Parallel()
	for seed, what := range map[uint64]string{
		3973: "a backlog in one shard had all slots of the process",
		492:  "claims that the store refuses lost their slots to other shards before they were tried alone",
		6960: "what waited behind an occurrence whose job existed was fired a step later than it could be",
		9157: "a page that came between the setting back of a clock and the next plan was read by the old reckoning",
		576:  "a run whose row was moved while its shard was paused was taken for claimed",
		1637: "a command was told what had been looked up for one that had gone, before the job came",
		9821: "a run ended in the future, as the clock was set back before that was settled",
	} {
		for rule, violation := range runSim(t, configFor(seed)).violations {
			t.Errorf("seed %d, where once %s: %s: %s", seed, what, rule, violation)
		}
	}
}

func inOrder(counts map[string]int) string {
	var out []string
	for k, v := range counts {
		out = append(out, fmt.Sprintf("%s %d", k, v))
	}
	sort.Strings(out)
	return fmt.Sprint(out)
}

var situations = []string{"crash", "stop", "pause", "cut", "clock", "resend", "duplicate", "inbox-insert", "swept", "retired", "leveled", "emptied",
	"tick-ok", "tick-fail", "tick-unknown", "takeover-ok", "takeover-fail", "takeover-unknown", "handover-ok",
	"enqueue-ok", "enqueue-fail", "enqueue-unknown", "job-completed", "job-dlq", "job-cancelled", "job-abandoned",
	"forward", "forward-ok", "cancel-ok", "cancelled-pending", "cancelled-running", "redriven", "step-redrive", "step-cancel",
	"judged-pause", "judged-resume", "pause-ok", "pause-fail", "pause-unknown", "taken-paused", "enqueued-paused", "held",
	"hastened", "hasten-due", "step-hasten", "hastened-dated", "hastened-retry",
	"step-rescue", "step-retry", "step-copied", "step-sweep", "step-refused", "step-lost", "step-handed", "step-duplicate",
	"crash-at-send", "crash-at-answer", "crash-at-settled", "crash-at-own", "crash-at-claim", "crash-at-start",
	"crash-at-finish", "crash-at-complete", "crash-at-enqueue", "crash-at-copied", "crash-at-fire",
	"judged-put-schedule", "judged-remove-schedule", "judged-enable", "judged-disable", "judged-trigger", "judged-fire", "judged-over",
	"misfire", "missed", "skipped", "queued", "overlap", "void", "followed-completed", "followed-dlq", "followed-abandoned", "stopped-dlq"}

// TestReplay: a seed's runs are the same to the nanosecond.
func TestReplay(t *testing.T) {
	t.Parallel()
	hashes := map[string]bool{}
	for seed := uint64(1); seed <= *simReplays; seed++ {
		first := runSim(t, configFor(seed)).hash
		for n := range 9 {
			if again := runSim(t, configFor(seed)).hash; again != first {
				t.Fatalf("seed %d: run %d has history %s, the first one %s", seed, n+2, again, first)
			}
		}
		hashes[first] = true
	}
	if len(hashes) != int(*simReplays) {
		t.Error("two seeds have the same history")
	}
}
