package plan

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"fencepost/harness/scenario"
)

// Version is the version of plan.yaml that this tool writes and reads.
const Version = 1

// Read reads a plan that Write stored. The
// plan is carried out as it stands: nothing is drawn again, so neither a changed
// scenario nor a changed way of drawing makes it another one. Targets that are
// found when the fault is injected stay symbolic: the coordinator follows from the
// name of the run's first lock, which the plan holds. Errors are *scenario.InputError with
// file and line.
func Read(path string) (*Plan, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, &scenario.InputError{Msg: err.Error()}
	}
	bad := func(err error) (*Plan, error) { return nil, scenario.InFile(path, err) }
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
	if version.Version != Version {
		return bad(scenario.AtLine(scenario.At(root, "version").Line, "version %d; this tool reads version %d: "+
			"replay it with the tool that made the run, or repeat the run by its seed", version.Version, Version))
	}
	var p Plan
	if err := scenario.Decode(root, &p); err != nil {
		return bad(err)
	}
	if err := p.Spec.Check(); err != nil {
		return bad(err)
	}
	for _, key := range []string{"seed", "system", "scenario", "steps", "locks"} {
		if scenario.At(root, key) == root {
			return bad(scenario.AtLine(root.Line, "%s is missing", key))
		}
	}
	if err := p.checkSteps(); err != nil {
		return bad(err)
	}
	if err := p.checkNames(); err != nil {
		return bad(scenario.AtLine(scenario.At(root, "locks").Line, "%v", err))
	}
	return &p, nil
}

var targetRule = regexp.MustCompile(`^(?:[nw][1-9][0-9]?|coordinator|worker-at-point|sink|queues)$`)

// checkSteps: everything is drawn, exists and has its injections' ids.
func (p *Plan) checkSteps() error {
	nodes := p.Spec.Layout().Nodes()
	ids := map[string]bool{}
	for _, st := range p.Steps {
		bad := func(format string, args ...any) error {
			return scenario.AtLine(st.Line(), "step %s: %s", st.Fault, fmt.Sprintf(format, args...))
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
			if t[0] == 'n' && number(t) > nodes || t[0] == 'w' && number(t) > p.Spec.Workload.Workers {
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

// MarshalYAML writes the step with its ids. Left alone, yaml would write the ids
// only: it takes an inlined type that reads itself to write itself too.
func (s Step) MarshalYAML() (any, error) {
	type plain scenario.Step
	return struct {
		Step plain    `yaml:",inline"`
		IDs  []string `yaml:"ids"`
	}{plain(s.Step), s.IDs}, nil
}

// UnmarshalYAML reads the step and its ids, which are in one mapping.
func (s *Step) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return scenario.AtLine(n.Line, "a step is a mapping")
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

// number is that of a target such as n12.
func number(target string) int {
	n, _ := strconv.Atoi(target[1:]) // targetRule has looked
	return n
}
