package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fencepost/harness/fault"
	"fencepost/harness/record/history"
)

// Progress is what must get done while a fault is in force; see history.Progress.
type Progress struct {
	Fault string `yaml:"fault"`           // its name, or any
	Group string `yaml:"group,omitempty"` // targets, others; default all workers
	// MinCycles is by contention, as Expect's.
	MinCycles  map[string]int `yaml:"min_cycles,omitempty"`
	LongestGap Bound          `yaml:"longest_gap,omitempty"`
	// Exempt is why nothing is demanded, instead of all else.
	Exempt string `yaml:"exempt,omitempty"`
	line   int
}

// UnmarshalYAML keeps the line and checks what the demand itself can show.
func (p *Progress) UnmarshalYAML(n *yaml.Node) error {
	type plain Progress
	if err := Decode(n, (*plain)(p)); err != nil {
		return err
	}
	p.line = n.Line
	if p.Exempt != "" {
		if p.Fault == "" || p.Group != "" || len(p.MinCycles) > 0 || !p.LongestGap.IsZero() {
			return lineErr(n, "progress: exempt goes with the fault alone")
		}
		return nil
	}
	if p.LongestGap.IsZero() {
		return lineErr(n, "progress: longest_gap is missing: the time for which a lock or shard may be asked for without a success, such as 2.25 ttl (or exempt: why none can be demanded)")
	}
	for c, least := range p.MinCycles {
		if err := cmp.Or(ValidContention(c), p.Noted(Workload{TTL: 1e9, Contention: c}).Check()); err != nil || least < 0 {
			return lineErr(n, "progress: min_cycles: %s: %d: %v", c, least, cmp.Or(err, errors.New("not negative")))
		}
	}
	if err := p.Noted(Workload{TTL: 1e9}).Check(); err != nil {
		return lineErr(n, "%v", err)
	}
	return nil
}

// Noted is the demand as the history's expect note has it.
func (p Progress) Noted(w Workload) history.Progress {
	return history.Progress{Fault: p.Fault, Group: p.Group, MinCycles: p.MinCycles[w.Contention], LongestGapMS: p.LongestGap.D(w.TTL.D()).Milliseconds()}
}

// validateProgress: the fault is one of the scenario's, and a group refers to workers.
func (s *Spec) validateProgress() error {
	seen := map[string]bool{}
	for _, p := range s.Expect.Progress {
		bad := func(format string, args ...any) error {
			return &lineError{p.line, "progress: " + fmt.Sprintf(format, args...)}
		}
		names := map[string]bool{}
		aimed := false
		for _, st := range s.Faults {
			names[st.Fault] = true
			if st.Fault == p.Fault || p.Fault == history.AnyFault {
				aimed = aimed || aimsAtWorkers(st)
			}
		}
		switch {
		case seen[p.Fault]:
			return bad("fault %q has two entries", p.Fault)
		case len(names) == 0 && s.Swarm == nil:
			return bad("fault %q: the scenario has no faults", p.Fault)
		case p.Fault != history.AnyFault && !names[p.Fault]:
			return bad("the scenario has no fault %q; it has %s", p.Fault, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
		case p.Group != "" && !aimed:
			return bad("group %q: no such fault of the scenario is aimed at a worker", p.Group)
		}
		seen[p.Fault] = true
	}
	return nil
}

func aimsAtWorkers(st Step) bool {
	return slices.ContainsFunc(st.Targets, func(t string) bool {
		return t == fault.RandomWorker || t == fault.AllWorkers || strings.HasPrefix(t, "w")
	})
}
