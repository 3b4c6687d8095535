package plan

import (
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
)

// Choose is the scenario with the set of parameters of a run: the one named, or, for "", the one
// that the seed draws. Only for the core is one drawn. What another system's run must show is
// known for the parameters in the scenario's file, or for those that its Red names. An unknown
// set, or one of another kind, is a *scenario.InputError.
func Choose(s *scenario.Spec, seed uint64, name string, sys system.System) (*scenario.Spec, error) {
	if name != "" {
		return s.With(name)
	}
	if r := sys.Red; r != nil && r.Workload != "" && r.Scenario == s.Name {
		return s.With(r.Workload)
	}
	draws, err := s.Draws()
	if err != nil {
		return nil, err
	}
	if sys.Name != system.Core {
		draws = draws[:1]
	}
	// From a stream of its own: the rest of a plan is what it was.
	return s.With(draws[workload.Rand(seed, "workload").IntN(len(draws))])
}
