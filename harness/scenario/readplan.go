package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// PlanVersion is the version of plan.yaml that this tool writes and reads.
const PlanVersion = 1

// ReadPlan reads a plan that Write stored. The
// plan is carried out as it stands: nothing is drawn again, so neither a changed
// scenario nor a changed way of drawing makes it another one. Targets that are
// found when the fault is injected stay symbolic: the coordinator follows from the
// name of the run's first lock, which the plan holds. Errors are *InputError with
// file and line.
func ReadPlan(path string) (*Plan, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, &InputError{err.Error()}
	}
	bad := func(err error) (*Plan, error) { return nil, &InputError{position(path, err)} }
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(b)).Decode(&doc); err != nil {
		return bad(err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return bad(errors.New("line 1: not a plan"))
	}
	root := doc.Content[0]
	// The version first: what another one means by its keys is not known.
	var version struct {
		Version int `yaml:"version"`
	}
	if err := root.Decode(&version); err != nil {
		return bad(err)
	}
	if version.Version != PlanVersion {
		return bad(lineErr(at(root, "version"), "version %d; this tool reads version %d: replay it with the tool that made the run, or repeat the run by its seed", version.Version, PlanVersion))
	}
	var p Plan
	if err := decodeKnown(root, &p); err != nil {
		return bad(err)
	}
	if err := p.Spec.validate(); err != nil {
		return bad(err)
	}
	for _, key := range []string{"seed", "system", "scenario", "steps", "locks"} {
		if at(root, key) == root {
			return bad(lineErr(root, "%s is missing", key))
		}
	}
	if err := p.checkSteps(); err != nil {
		return bad(err)
	}
	if err := p.checkNames(); err != nil {
		return bad(lineErr(at(root, "locks"), "%v", err))
	}
	return &p, nil
}

// at is the value of a mapping's key, or the mapping if it has none.
func at(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return m
}

var targetRule = regexp.MustCompile(`^(?:[nw][1-9][0-9]?|coordinator|worker-at-point|sink)$`)

// checkSteps: everything is drawn, exists and has its injections' ids.
func (p *Plan) checkSteps() error {
	nodes := p.Spec.Layout().Nodes()
	ids := map[string]bool{}
	for _, st := range p.Steps {
		bad := func(format string, args ...any) error {
			return &lineError{st.line, fmt.Sprintf("step %s: ", st.Fault) + fmt.Sprintf(format, args...)}
		}
		if st.For == 0 {
			return bad("its duration is zero")
		}
		if len(st.Targets) == 0 {
			return bad("it has no targets")
		}
		targets := st.Targets
		if st.On != nil {
			targets = append(targets[:len(targets):len(targets)], st.On.Worker)
		}
		for _, t := range targets {
			if !targetRule.MatchString(t) {
				return bad("target %q: a plan has drawn targets, such as n1, w2 or coordinator", t)
			}
			if t[0] == 'n' && atoi(t[1:]) > nodes || t[0] == 'w' && atoi(t[1:]) > p.Spec.Workload.Workers {
				return bad("there is no %s among %d nodes and %d workers", t, nodes, p.Spec.Workload.Workers)
			}
		}
		want := st.Repeat
		if st.InTurn {
			want *= len(st.Targets)
		}
		if len(st.IDs) != want || want == 0 {
			return bad("%d ids for %d injections", len(st.IDs), want)
		}
		for _, id := range st.IDs {
			if id == "" || ids[id] {
				return bad("the id %q is empty or not unique", id)
			}
			ids[id] = true
		}
	}
	return nil
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
	return p.Spec.Kind().named(p)
}

// MarshalYAML writes the step with its ids. Left alone, yaml would write the ids
// only: it takes an inlined type that reads itself to write itself too.
func (s PlannedStep) MarshalYAML() (any, error) {
	type plain Step
	return struct {
		Step plain    `yaml:",inline"`
		IDs  []string `yaml:"ids"`
	}{plain(s.Step), s.IDs}, nil
}

// UnmarshalYAML reads the step and its ids, which are in one mapping.
func (s *PlannedStep) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return lineErr(n, "a step is a mapping")
	}
	step := *n
	step.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != "ids" {
			step.Content = append(step.Content, n.Content[i], n.Content[i+1])
		} else if err := n.Content[i+1].Decode(&s.IDs); err != nil {
			return err
		}
	}
	return s.Step.UnmarshalYAML(&step)
}
