package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fencepost/core/store/sim"
)

// shrink makes a run smaller while it still breaks the rule: fewer faults of
// processes, fewer kinds of faults of the network, fewer jobs and shards. It tries
// at most so many runs and returns the smallest that it found.
func shrink(t *testing.T, cfg simConfig, rule string, most int) simConfig {
	t.Helper()
	for again := true; again && most > 0; {
		again = false
		for _, smaller := range reductions(cfg) {
			if most--; most < 0 {
				break
			}
			if _, red := runSim(t, smaller).violations[rule]; red {
				cfg, again = smaller, true
				break
			}
		}
	}
	return cfg
}

// reductions are the configurations one step smaller, the greatest steps first.
func reductions(c simConfig) (out []simConfig) {
	try := func(change func(c *simConfig)) {
		d := c
		d.events = slices.Clone(c.events)
		change(&d)
		out = append(out, d)
	}
	if c.faults != (sim.Faults{Latency: c.faults.Latency}) {
		try(func(d *simConfig) { d.faults = sim.Faults{Latency: c.faults.Latency} })
	}
	if len(c.events) > 1 {
		try(func(d *simConfig) { d.events = nil })
	}
	for n := range c.events {
		try(func(d *simConfig) { d.events = slices.Delete(d.events, n, n+1) })
	}
	if c.crashes > 0 {
		try(func(d *simConfig) { d.crashes = 0 })
		try(func(d *simConfig) { d.crashes-- })
	}
	for n := range chances(&c) {
		if *chances(&c)[n].p > 0 {
			try(func(d *simConfig) { *chances(d)[n].p = 0 })
		}
	}
	if c.jobs > 1 {
		try(func(d *simConfig) { d.jobs /= 2 })
		try(func(d *simConfig) { d.jobs-- })
	}
	if c.shards > 1 {
		try(func(d *simConfig) { d.shards = 1 })
	}
	return out
}

type chance struct {
	name string
	p    *float64
}

func chances(c *simConfig) []chance {
	f := &c.faults
	return []chance{{"lost requests", &f.LoseRequest}, {"lost replies", &f.LoseReply}, {"late requests", &f.Late},
		{"refusals", &f.Refuse}, {"server timeouts", &f.ServerTimeout}, {"stale reads", &f.StaleRead}}
}

// describe says what is left of a run.
func (c simConfig) describe() string {
	out := []string{fmt.Sprintf("seed %d, %d shards, %d jobs", c.seed, c.shards, c.jobs)}
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

// TestShrink: a red run becomes smaller and stays red by the same rule.
func TestShrink(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		if m.name != "ack before the tick is settled" {
			continue
		}
		cfg := configFor(1)
		m.plant(&cfg)
		small := shrink(t, cfg, m.rules[0], 60)
		if _, red := runSim(t, small).violations[m.rules[0]]; !red {
			t.Error("the shrunk run is not red")
		}
		if len(small.describe()) >= len(cfg.describe()) {
			t.Errorf("not smaller: %s, was %s", small.describe(), cfg.describe())
		}
		t.Logf("from %s\nto %s", cfg.describe(), small.describe())
	}
}
