package enginetest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"fencepost/core/engine"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// Plant makes a correct process a broken one: it changes its options, and returns what
// stands before its store.
type Plant func(w *World, s store.Shards, o *engine.Options) store.Shards

// Mutant is a scheduler with one mistake.
type Mutant struct {
	Name string
	// Rules are those of which one must find it.
	Rules []string
	// Under is what a run must be full of for it to show, one of Conditions; "" for nothing
	// in particular.
	Under string
	// Plant puts it into every process, World into what is around them. One may be nil.
	Plant Plant
	World func(c *Config)
}

// Draw draws a run of a seed with the mistake in it; false: this seed's run has troubles of
// its own that would hide it.
func (m Mutant) Draw(seed uint64) (c Config, ok bool) {
	if c = Draw(seed); c.beyond || c.poison {
		return c, false
	}
	if m.Under != "" {
		conditions[m.Under](&c)
	}
	if c.plant = m.Plant; m.World != nil {
		m.World(&c)
	}
	return c, true
}

// Seeds is within how many seeds it must be found, of at most so many.
func (m Mutant) Seeds(most uint64) uint64 {
	if m.Under == "days" {
		return min(most, 4)
	}
	return most
}

// Mutants are all that need no access to the engine's own parts.
func Mutants() []Mutant {
	all := slices.Concat(batchMutants, rowMutants, commandMutants, observerMutants, otherMutants, scheduleMutants)
	for _, m := range mistake.All {
		if m.Locks != nil {
			continue // the lock's
		}
		all = append(all, Mutant{Name: m.ID, Rules: m.Rules, Under: m.Under, Plant: shared(m)})
	}
	return all
}

// shared plants a mistake that real runs have too.
func shared(m mistake.Mistake) Plant {
	return func(_ *World, s store.Shards, o *engine.Options) store.Shards {
		p := mistake.Process{TTL: o.TTL, Members: s.(*sim.Session), Cell: "q"}
		if m.Engine != nil {
			m.Engine(p, o)
		}
		if m.Shards != nil {
			s = m.Shards(p, s)
		}
		return s
	}
}

// Conditions are the names of what a run can be full of, in order.
func Conditions() []string { return slices.Sorted(maps.Keys(conditions)) }

var conditions = map[string]func(*Config){
	// Many processes are struck in one way, and many replies are lost.
	"crash": struck("crash"),
	"stop":  struck("stop"),
	"cut":   struck("cut"),
	// Wall clocks are far apart.
	"clocks": func(c *Config) { c.wrongClocks(rand.New(rand.NewPCG(c.seed, 5))) },
	// There is much to be seen of schedules.
	"schedules": func(c *Config) { c.schedules, c.maxBytes = 4, max(c.maxBytes, 10<<10) },
	// Shards are paused.
	"pauses": func(c *Config) { c.pauses = true },
	// Each process claims many runs.
	"claims": func(c *Config) { c.jobs, c.duration, c.events, c.crashes = 150, 30*c.ttl, nil, 0 },
	// An outage is longer than the dedupe window, after many jobs have ended: there are many
	// pages to sweep afterwards.
	"sweeps": func(c *Config) {
		c.jobs, c.shards, c.crashes, c.schedules, c.pauses = 220, 1, 0, 0, false
		c.faults = sim.Faults{Latency: time.Millisecond}
		c.duration, c.dedupe = 110*c.ttl, 40*c.ttl
		c.events = []event{{at: 40 * c.ttl, length: 42 * c.ttl, kind: "outage"}}
	},
	// Jobs are forgotten while others run and processes crash.
	"retires": func(c *Config) {
		c.retires, c.jobs, c.shards, c.crashes, c.schedules, c.pauses = true, 150, 1, 3, 0, false
		c.faults = sim.Faults{Latency: time.Millisecond, LoseRequest: 0.1, LoseReply: 0.1, Late: 0.1, LateBy: 2 * c.ttl}
		c.duration, c.dedupe, c.maxDead, c.events = 60*c.ttl, 10*c.ttl, 0, nil
		for n := range 6 {
			c.events = append(c.events, event{at: time.Duration(n+1) * 9 * c.ttl, length: 2 * c.ttl, node: n % c.nodes,
				kind: []string{"crash", "pause", "cut"}[n%3]})
		}
	},
	// Five days, from the one before Berlin changes its clocks.
	"days": func(c *Config) {
		*c = DrawDays(5*c.seed, 5*24*time.Hour)
		c.zones, c.days = []string{"Europe/Berlin"}, 10
	},
}

func struck(kind string) func(*Config) {
	return func(c *Config) {
		c.drift, c.rates = 0.01, nil
		c.faults = sim.Faults{Latency: time.Millisecond, LoseReply: 0.3}
		c.events = nil
		for n := range 9 {
			c.events = append(c.events, event{at: time.Duration(n+1) * c.duration / 10, length: 2 * c.ttl, node: n % c.nodes, kind: kind})
		}
	}
}
