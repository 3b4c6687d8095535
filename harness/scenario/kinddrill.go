package scenario

import (
	"errors"

	"fencepost/harness/target/paxos"
)

func checkDrill(s *Spec) error {
	if _, err := paxos.Attempts(s.Drill); err != nil {
		return within(err, "drill")
	}
	x := s.Expect
	demands := len(x.MinCycles) + len(x.Success) + len(x.Must) + len(x.Sometimes) + len(x.Progress) + len(x.Thresholds) + len(x.Exempt) + int(x.RecoveryBoundMS)
	if s.Workload != (Workload{}) || s.Phases != (Phases{}) || len(s.Faults) > 0 || s.Swarm != nil || demands != 0 {
		return errors.New("a scenario with a drill has no workload, phases, faults or expect: the drill says what happens")
	}
	return nil
}
