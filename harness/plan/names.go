package plan

import (
	"fmt"
	"regexp"

	"fencepost/harness/scenario"
	"fencepost/harness/target/paxos"
)

// rows is how many rows are competed for, and what they are called; a queue has none.
func rows(s *scenario.Spec) (n int, name string) {
	switch k := s.Kind(); {
	case k.Jobs:
		return 0, ""
	case k.Workers:
		return s.Workload.Locks(), "lock"
	}
	attempts, _ := paxos.Attempts(s.Drill) // Check has looked
	return attempts + 1, "row"
}

// name names what is competed for; place spreads it over the ring.
func (p *Plan) name(place string) {
	n, name := rows(&p.Spec)
	if n == 0 {
		p.Queue = "jobs." + place
	}
	for i := range n {
		p.Locks = append(p.Locks, fmt.Sprintf("%s-%02d.%s", name, i+1, place))
	}
}

var lockRule = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

func (p *Plan) checkNames() error {
	seen := map[string]bool{}
	for _, l := range p.Locks {
		if !lockRule.MatchString(l) || seen[l] {
			return fmt.Errorf("the lock name %q is not usable or not unique", l)
		}
		seen[l] = true
	}
	switch n, _ := rows(&p.Spec); {
	case n == 0 && (len(seen) > 0 || !lockRule.MatchString(p.Queue)):
		return fmt.Errorf("%d locks and queue %q: the job workload has no locks, and a queue", len(seen), p.Queue)
	case len(seen) != n && p.Spec.Drill != "":
		return fmt.Errorf("%d locks, drill %s needs %d", len(seen), p.Spec.Drill, n)
	case len(seen) != n:
		return fmt.Errorf("%d locks, contention %s needs %d", len(seen), p.Spec.Workload.Contention, n)
	}
	return nil
}
