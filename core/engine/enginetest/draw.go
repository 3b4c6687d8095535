package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/core/job"
	"fencepost/core/store/sim"
)

// Draw draws a run from its seed.
func Draw(seed uint64) Config {
	cfg := DrawPlain(seed)
	r := rand.New(rand.NewPCG(seed, 45))
	cfg.tooLong, cfg.otherBodies = r.IntN(3) == 0, r.IntN(2) == 0
	for n, e := range cfg.events {
		if e.kind == "pause" && r.IntN(2) == 0 {
			cfg.events[n].kind = "suspend"
		}
	}
	if cfg.clocksHeal {
		switch r.IntN(3) {
		case 0:
			cfg.wrongBy(2 * time.Hour)
		case 1: // less than what a retry has to wait
			cfg.wrongBy(time.Second + cfg.ttl/4)
		}
	}
	if cfg.faults != (sim.Faults{Latency: cfg.faults.Latency}) {
		cfg.faults.Twice = 0.1 * rand.New(rand.NewPCG(seed, 46)).Float64()
	}
	more := rand.New(rand.NewPCG(seed, 47))
	cfg.storms, cfg.queues = more.IntN(4) == 0, 1+max(more.IntN(5)-2, 0)
	cfg.wholePauses = more.IntN(4) == 0
	cfg.oddKeys, cfg.sequences = more.IntN(4) == 0, more.IntN(3) == 0
	if cfg.oddKeys || cfg.sequences {
		cfg.maxBytes = max(cfg.maxBytes, 10<<10)
	}
	if raises := rand.New(rand.NewPCG(seed, 48)); raises.IntN(4) == 0 && !cfg.wholePauses {
		cfg.raised = cfg.shards + 1 + raises.IntN(4)
	}
	if more.IntN(10) == 0 && cfg.dedupe == 14*cfg.ttl { // clocks are right
		cfg.forgets()
	}
	return cfg
}

// plain takes out what has a condition of its own.
func (c *Config) plain() {
	if c.again {
		c.dedupe, c.duration = 14*c.ttl, 12*c.ttl
	}
	c.wholePauses, c.oddKeys, c.sequences, c.again, c.raised = false, false, false, false, 0
}

// DrawPlain is Draw without what was added since a seed was kept for what it had found.
func DrawPlain(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 42))
	drift := []float64{0.01, 0.05, 0.1}[r.IntN(3)]
	ttl := time.Duration(500+r.IntN(1500)) * time.Millisecond
	cfg := Config{
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
		cfg.wrongClocks(r, 10*time.Minute)
	}
	moves := rand.New(rand.NewPCG(seed, 45))
	for range moves.IntN(6) - 2 { // none in half of all runs
		cfg.events = append(cfg.events, event{at: time.Duration(moves.Int64N(int64(cfg.duration))), length: time.Duration(moves.Int64N(int64(2 * ttl))), node: moves.IntN(cfg.nodes), kind: "move"})
	}
	cfg.schedules = rand.New(rand.NewPCG(seed, 43)).IntN(4)
	cfg.pauses = rand.New(rand.NewPCG(seed, 44)).IntN(3) == 0
	if cfg.schedules > 0 {
		cfg.maxBytes = max(cfg.maxBytes, 10<<10)
	}
	return cfg
}

// Situations are what many runs together must have met, for their rules to say anything.
var Situations = []string{"crash", "stop", "pause", "suspend", "cut", "clock", "resend", "duplicate", "inbox-insert", "swept", "retired",
	"moved", "move-kept", "raised", "leveled", "emptied", "doubled", "hidden", "ordered",
	"tick-ok", "tick-fail", "tick-unknown", "takeover-ok", "takeover-fail", "takeover-unknown", "handover-ok",
	"enqueue-ok", "enqueue-fail", "enqueue-unknown", "job-completed", "job-dlq", "job-cancelled", "job-abandoned",
	"forward", "forward-ok", "cancel-ok", "cancelled-pending", "cancelled-running", "redriven", "step-redrive", "step-cancel",
	"judged-pause", "judged-resume", "pause-ok", "pause-fail", "pause-unknown", "halt-ok", "halt-partly", "taken-paused", "enqueued-paused", "held",
	"hastened", "hasten-due", "step-hasten", "hastened-dated", "hastened-retry",
	"step-rescue", "step-retry", "step-copied", "step-sweep", "step-refused", "step-lost", "step-handed", "step-duplicate",
	"crash-at-send", "crash-at-answer", "crash-at-settled", "crash-at-own", "crash-at-claim", "crash-at-start",
	"crash-at-finish", "crash-at-complete", "crash-at-enqueue", "crash-at-copied", "crash-at-fire",
	"judged-put-schedule", "judged-remove-schedule", "judged-enable", "judged-disable", "judged-trigger", "judged-fire", "judged-over",
	"misfire", "judged-backoff", "too-long", "duplicate-body",
	"missed", "skipped", "queued", "overlap", "void", "followed-completed", "followed-dlq", "followed-abandoned", "stopped-dlq",
	"relived", "plain-followed-completed", "plain-followed-dlq", "plain-stopped-dlq", "plain-stopped-cancelled"}

// Shrink makes a run smaller while it still breaks the rule: fewer faults of
// processes, fewer kinds of faults of the network, fewer jobs and shards. It tries
// at most so many runs and returns the smallest that it found.
func Shrink(t *testing.T, cfg Config, rule string, most int) Config {
	t.Helper()
	for again := true; again && most > 0; {
		again = false
		for _, smaller := range reductions(cfg) {
			if most--; most < 0 {
				break
			}
			if _, red := Run(t, smaller).Violations[rule]; red {
				cfg, again = smaller, true
				break
			}
		}
	}
	return cfg
}

// reductions are the configurations one step smaller, the greatest steps first.
func reductions(c Config) (out []Config) {
	try := func(change func(c *Config)) {
		d := c
		d.events = slices.Clone(c.events)
		change(&d)
		out = append(out, d)
	}
	if c.faults != (sim.Faults{Latency: c.faults.Latency}) {
		try(func(d *Config) { d.faults = sim.Faults{Latency: c.faults.Latency} })
	}
	if len(c.events) > 1 {
		try(func(d *Config) { d.events = nil })
	}
	for n := range c.events {
		try(func(d *Config) { d.events = slices.Delete(d.events, n, n+1) })
	}
	if c.crashes > 0 {
		try(func(d *Config) { d.crashes = 0 })
		try(func(d *Config) { d.crashes-- })
	}
	for n := range chances(&c) {
		if *chances(&c)[n].p > 0 {
			try(func(d *Config) { *chances(d)[n].p = 0 })
		}
	}
	if c.jobs > 1 {
		try(func(d *Config) { d.jobs /= 2 })
		try(func(d *Config) { d.jobs-- })
	}
	if c.raised > 0 {
		try(func(d *Config) { d.raised = 0 })
	}
	if c.queues > 1 {
		try(func(d *Config) { d.queues = 1 })
	}
	if c.shards > 1 {
		try(func(d *Config) { d.shards = 1 })
	}
	return out
}

type chance struct {
	name string
	p    *float64
}

func chances(c *Config) []chance {
	f := &c.faults
	return []chance{{"lost requests", &f.LoseRequest}, {"lost replies", &f.LoseReply}, {"late requests", &f.Late},
		{"refusals", &f.Refuse}, {"server timeouts", &f.ServerTimeout}, {"stale reads", &f.StaleRead}, {"second copies", &f.Twice}}
}

// String says what is left of a run.
func (c Config) String() string {
	out := []string{fmt.Sprintf("seed %d, %d queues, %d shards, %d jobs", c.seed, max(c.queues, 1), c.shards, c.jobs)}
	if c.raised > 0 {
		out = append(out, fmt.Sprintf("raised to %d shards at %s", c.raised, c.raiseAt()))
	}
	for _, e := range c.events {
		out = append(out, fmt.Sprintf("%s of w%d at %s for %s", e.kind, e.node, e.at, e.length))
	}
	if c.crashes > 0 {
		out = append(out, fmt.Sprintf("%d crashes at steps", c.crashes))
	}
	for _, x := range chances(&c) {
		if *x.p > 0 {
			out = append(out, fmt.Sprintf("%s %.0f %%", x.name, *x.p*100))
		}
	}
	return strings.Join(out, "; ")
}
