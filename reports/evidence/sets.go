package evidence

import (
	"iter"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"fencepost/internal/choice"
)

// Scenario is what a set needs to know of one.
type Scenario struct {
	Name string
	// Contentions are the levels that it was made for; none means all.
	Contentions []string
	// Default is the level that it has by itself.
	Default string
}

// Set is a collection of scenarios, by patterns over their names.
type Set struct {
	Name  string
	About string
	// Only and Except are patterns (path.Match); no Only means all.
	Only, Except []string
}

// Sets are the collections that there are.
var Sets = []Set{
	{Name: "locks", About: "every scenario of the lock workload", Except: []string{"soak", "paxos-*", "jobs-*", "orders-*"}},
	{Name: "jobs", About: "every scenario of the job workload", Only: []string{"jobs-*"}},
	{Name: "orders", About: "every scenario of orders in PostgreSQL", Only: []string{"orders-*"}},
	{Name: "smoke", About: "three short ones, to see that all works", Only: []string{"steady", "kill-worker", "pause-worker"}},
	{Name: "paxos", About: "the drills of the lock store's own consensus", Only: []string{"paxos-*"}},
}

// FindSet returns a set by name.
func FindSet(name string) (Set, error) {
	var names []string
	for _, s := range Sets {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Set{}, choice.Unknown("set", name, names...)
}

// Of returns the scenarios of the set.
func (s Set) Of(all []Scenario) []Scenario {
	return slices.DeleteFunc(slices.Clone(all), func(c Scenario) bool {
		return len(s.Only) > 0 && !matches(s.Only, c.Name) || matches(s.Except, c.Name)
	})
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// levels are those wanted that the scenario was made for, or its own.
func (s Scenario) levels(wanted []string) []string {
	out := slices.DeleteFunc(slices.Clone(wanted), func(c string) bool {
		return len(s.Contentions) > 0 && !slices.Contains(s.Contentions, c)
	})
	if len(out) == 0 {
		return []string{s.Default}
	}
	return out
}

// Jobs lists scenarios x contentions x seeds on the core. Seeds are the outermost,
// so that a part of the list has every scenario.
func Jobs(scenarios []Scenario, contentions []string, first uint64, seeds int) []Job {
	var out []Job
	for i := range seeds {
		for _, s := range scenarios {
			for _, c := range s.levels(contentions) {
				out = append(out, Job{Scenario: s.Name, Contention: c, Seed: first + uint64(i), System: core})
			}
		}
	}
	return out
}

// Random yields jobs of random scenarios, contentions and seeds until the time
// is over: each run has a seed of its own and can be repeated alone.
func Random(scenarios []Scenario, contentions []string, rng *rand.Rand, until time.Time, now func() time.Time) iter.Seq[Job] {
	return func(yield func(Job) bool) {
		for len(scenarios) > 0 && now().Before(until) {
			s := scenarios[rng.IntN(len(scenarios))]
			levels := s.levels(contentions)
			j := Job{Scenario: s.Name, Contention: levels[rng.IntN(len(levels))], Seed: rng.Uint64N(1_000_000_000), System: core}
			if !yield(j) {
				return
			}
		}
	}
}
