package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fencepost/core/store/sim"
)

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
		{"refusals", &f.Refuse}, {"server timeouts", &f.ServerTimeout}, {"stale reads", &f.StaleRead}}
}

// String says what is left of a run.
func (c Config) String() string {
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
