package scenario

import (
	"errors"
	"fmt"

	"fencepost/harness/record/history"
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

// nameRows: one row an attempt and one more.
func nameRows(p *Plan, place string) {
	n, _ := paxos.Attempts(p.Spec.Drill) // checkDrill has looked
	for i := range n + 1 {
		p.Locks = append(p.Locks, fmt.Sprintf("row-%02d.%s", i+1, place))
	}
}

func checkRows(p *Plan) error {
	attempts, err := paxos.Attempts(p.Spec.Drill)
	if want := attempts + 1; err == nil && len(p.Locks) != want {
		err = fmt.Errorf("%d locks, drill %s needs %d", len(p.Locks), p.Spec.Drill, want)
	}
	return err
}

func expectDrill(_ *Plan, x *history.Expect) { *x = paxos.Expect() }
