package plan

import (
	"maps"
	"slices"

	"fencepost/harness/record/history"
	"fencepost/harness/scenario"
	"fencepost/harness/target/paxos"
	"fencepost/harness/target/system"
)

// Expectation is the history's note of what contention and plan demand.
func (p *Plan) Expectation() history.Expect {
	x := history.Expect{
		MinCycles: maps.Clone(p.Spec.Expect.MinCycles[p.Spec.Workload.Contention]),
		Success:   p.Spec.Expect.Success,
		Must:      p.Spec.Expect.Must,
		Sometimes: p.Spec.Expect.Sometimes,

		Exempt:          p.Spec.Expect.Exempt,
		RecoveryBoundMS: p.Spec.Expect.RecoveryBoundMS,
		Workers:         p.Spec.Workload.Workers,
		Progress:        p.progress(),
	}
	for _, t := range p.Spec.Expect.Thresholds {
		x.Thresholds = append(x.Thresholds, t.Noted(p.Spec.Workload.TTL.D()))
	}
	for _, st := range p.Steps {
		x.Faults = append(x.Faults, st.IDs...)
	}
	switch k := p.Spec.Kind(); {
	case k.Jobs:
		x.DrainBoundMS, x.RowsEnd = p.Spec.Workload.Jobs.Drain.D().Milliseconds(), true
	case !k.Workers:
		return paxos.Expect()
	}
	return x
}

// progress are the plan's demands, as the history's expect note has them.
func (p *Plan) progress() (out []history.Progress) {
	for _, x := range p.Spec.Expect.Progress {
		if x.Exempt == "" {
			out = append(out, x.Noted(p.Spec.Workload))
		}
	}
	return out
}

// DemandOf is what must get done under a fault, nil if nothing is said of it by name.
func (p *Plan) DemandOf(fault string) *scenario.Progress {
	for i := range p.Spec.Expect.Progress {
		if x := &p.Spec.Expect.Progress[i]; x.Fault == fault && x.Exempt == "" {
			return x
		}
	}
	return nil
}

// LastOf is the id of a fault's last injection in the plan.
func (p *Plan) LastOf(fault string) (id string) {
	for _, st := range p.Steps {
		if st.Fault == fault {
			id = st.IDs[len(st.IDs)-1]
		}
	}
	return id
}

// Demanded leaves out the points that a system does not come to, by design.
func Demanded(x history.Expect, sys system.System) history.Expect {
	unreached := func(point string) bool { return slices.Contains(sys.Unreached, point) }
	x.Must, x.Sometimes = slices.DeleteFunc(slices.Clone(x.Must), unreached), slices.DeleteFunc(slices.Clone(x.Sometimes), unreached)
	return x
}
