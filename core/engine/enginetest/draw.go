package enginetest

import (
	"math/rand/v2"
	"time"

	"fencepost/core/job"
	"fencepost/core/store/sim"
)

// Draw draws a run from its seed.
func Draw(seed uint64) Config {
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
		cfg.wrongClocks(r)
	}
	cfg.schedules = rand.New(rand.NewPCG(seed, 43)).IntN(4)
	cfg.pauses = rand.New(rand.NewPCG(seed, 44)).IntN(3) == 0
	if cfg.schedules > 0 {
		cfg.maxBytes = max(cfg.maxBytes, 10<<10)
	}
	return cfg
}

// Situations are what many runs together must have met, for their rules to say anything.
var Situations = []string{"crash", "stop", "pause", "cut", "clock", "resend", "duplicate", "inbox-insert", "swept", "retired",
	"leveled", "emptied",
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
