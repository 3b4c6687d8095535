package mutation

import "time"

// Limit is the CPU time that a step of a subset may use. Without a mutant it must pass in half of it.
const Limit = 60 * time.Second

// Step is a test binary and what it is called with.
type Step struct {
	Dir  string
	Args []string
}

// Subsets are the tests that judge a package's mutants, fastest first. A package without a row is judged by its own tests.
var Subsets = map[string][]Step{
	"core/lock": {
		{"core/lock", []string{"-test.skip=^TestSimulation"}},
		{"core/lock", []string{"-test.run=^TestSimulation$", "-sim.seeds=400"}},
	},
	"core/schedule": {{"core/schedule", nil}},
	"core/sink": {
		{"core/sink", nil},
		{"core/sink/sinktest", nil},
		{"core/sink/bolt", nil},
	},
	"core/store": {
		{"core/store", nil},
		{"core/store/sim", nil},
		{"core/lock", []string{"-test.run=^Test(Simulation|Refusal|RenewalThroughRefusals|ServerTimeout|UnsettledAtTheDeadline|Settle|RaiseFence|RestoredLocks)$", "-sim.seeds=40"}},
		{"core/engine", []string{"-test.run=^Test(Simulation|OptionsAtTheirLimits)$", "-sim.seeds=10"}},
	},
	"core/engine": {
		{"core/engine", []string{"-test.run=^TestSimulation$", "-sim.seeds=60"}},
		{"core/engine", []string{"-test.skip=^(TestSimulation|TestSeeds|TestReplay|TestCalendar|TestShrink|TestConditions)"}},
		{"core/engine", []string{"-test.run=^TestCalendar$", "-sim.calendars=1"}},
	},
}

// SubsetOf are the steps for a package.
func SubsetOf(dir string) []Step {
	if s, ok := Subsets[dir]; ok {
		return s
	}
	return []Step{{dir, nil}}
}
