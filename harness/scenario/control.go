package scenario

import (
	"fmt"

	"fencepost/harness/fault"
)

// NeedsControl says why a scenario can run only on nodes that the harness may break,
// "" if it leaves them alone: its faults are of workers and of their links.
func (s *Spec) NeedsControl() string {
	switch k := s.Kind(); {
	case k.Control != "":
		return k.Control
	case len(s.Layout()) > 1:
		return "it needs " + s.Layout().Words() + ", and faults of the other one"
	case s.Swarm != nil:
		return "its swarm draws faults of nodes"
	}
	for _, st := range s.Faults {
		if _, err := fault.New(st.Spec); err != nil {
			return err.Error()
		}
		if fault.Of(st.Fault).On == fault.Node {
			return fmt.Sprintf("its fault %s is one of nodes", st.Fault)
		}
	}
	return ""
}

// WithoutControl names the scenarios that leave nodes alone.
func WithoutControl() ([]string, error) {
	var out []string
	for _, name := range Names() {
		s, err := Load(name)
		if err != nil {
			return nil, err
		}
		if s.NeedsControl() == "" {
			out = append(out, name)
		}
	}
	return out, nil
}
