package mutation

import (
	"fmt"
	"time"
)

// Limit is the most CPU time that tests of a subset may use together. Without a mutant each must pass in half of it.
const Limit = 60 * time.Second

// Step is tests of a package: those that Run matches and Skip does not, called with Args.
type Step struct {
	Dir       string
	Run, Skip string
	Args      []string
}

func (s Step) String() string {
	return fmt.Sprintf("%s -run %q -skip %q %v", s.Dir, s.Run, s.Skip, s.Args)
}

// Subsets are the tests that judge a package's mutants, fastest first. A package without a row is judged by its own tests.
var Subsets = map[string][]Step{
	"core/lock": {
		{Dir: "core/lock", Skip: "^TestSimulation"},
		{Dir: "core/lock", Run: "^TestSimulation$", Args: seeds(400)},
	},
	"core/schedule": {{Dir: "core/schedule"}},
	"core/sink": {
		{Dir: "core/sink"},
		{Dir: "core/sink/sinktest"},
		{Dir: "core/sink/bolt"},
	},
	"core/store": {
		{Dir: "core/store"},
		{Dir: "core/store/sim"},
		{Dir: "core/lock", Run: "^Test(Simulation|Refusal|RenewalThroughRefusals|ServerTimeout|UnsettledAtTheDeadline|Settle|RaiseFence|RestoredLocks)$", Args: seeds(40)},
		{Dir: "core/engine", Run: "^Test(Simulation|OptionsAtTheirLimits)$", Args: seeds(10)},
	},
	"core/engine": {
		{Dir: "core/engine", Run: "^TestSimulation$", Args: seeds(5)},
		{Dir: "core/engine", Skip: "^(TestSimulation|TestSeeds|TestReplay|TestCalendar|TestShrink|TestConditions)"},
		{Dir: "core/engine", Run: "^TestSimulation$", Args: seeds(60)},
		{Dir: "core/engine", Run: "^TestCalendar$", Args: []string{"-sim.calendars=1"}},
	},
}

func seeds(n int) []string { return []string{fmt.Sprintf("-sim.seeds=%d", n)} }

// SubsetOf are the steps for a package.
func SubsetOf(dir string) []Step {
	if s, ok := Subsets[dir]; ok {
		return s
	}
	return []Step{{Dir: dir}}
}
