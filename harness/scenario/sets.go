package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"fencepost/internal/choice"
	"fencepost/scenarios"
)

// Plain is the set that changes nothing: the parameters in the scenario's file.
const Plain = "plain"

// AllSets in a scenario's workloads stands for every set of its kind that is not opt-in.
const AllSets = "all"

// Set is a named set of workload parameters. A scenario's runs draw one from their seed, so that
// one scenario sees the system under several workloads.
type Set struct {
	Name  string
	About string
	Kind  string // KindLocks or KindJobs: the scenarios that it fits
	// Cycles is the factor on the least numbers of cycles that a scenario demands; 1 unless
	// the file has another one.
	Cycles float64
	// OptIn: no seed draws it, unless a scenario names it; --workload fixes it.
	OptIn    bool
	workload *yaml.Node // what it says of the scenario's workload
}

// setFile is a set as its file has it.
type setFile struct {
	Name     string  `yaml:"name"`
	About    string  `yaml:"about"`
	Kind     string  `yaml:"kind"`
	Cycles   float64 `yaml:"cycles"`
	OptIn    bool    `yaml:"opt_in"`
	Workload overlay `yaml:"workload"`
}

// overlay is a mapping that is read when it is known what it is laid over.
type overlay struct{ node *yaml.Node }

// UnmarshalYAML keeps the mapping.
func (o *overlay) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return lineErr(n, "workload: keys of a scenario's workload")
	}
	o.node = n
	return nil
}

// setDir is where the sets are among the scenario files.
const setDir = "workloads"

// Sets are the built-in sets, by name.
func Sets() ([]Set, error) { return sets() }

var sets = sync.OnceValues(func() ([]Set, error) {
	files, err := fs.Glob(scenarios.Files, setDir+"/*.yaml")
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var out []Set
	for _, file := range files {
		b, err := scenarios.Files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		set, err := parseSet("scenarios/"+file, b)
		if err != nil {
			return nil, err
		}
		out = append(out, set)
	}
	return out, nil
})

// parseSet reads a set's file; errors are *InputError with file and line.
func parseSet(file string, b []byte) (Set, error) {
	bad := func(err error) (Set, error) { return Set{}, InFile(file, err) }
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(b)).Decode(&doc); err != nil {
		return bad(err)
	}
	if len(doc.Content) != 1 {
		return bad(errors.New("line 1: empty file"))
	}
	root := doc.Content[0]
	f := setFile{Cycles: 1}
	if err := Decode(root, &f); err != nil {
		return bad(err)
	}
	switch {
	case f.Name != strings.TrimSuffix(path.Base(file), ".yaml") || !nameRule.MatchString(f.Name) || f.Name == Plain || f.Name == AllSets:
		return bad(lineErr(At(root, "name"), "name %q: that of the file, and neither %s nor %s", f.Name, Plain, AllSets))
	case f.About == "":
		return bad(errors.New("about is missing: say in a sentence what is different"))
	case f.Kind != KindLocks && f.Kind != KindJobs:
		return bad(lineErr(At(root, "kind"), "%v", choice.Unknown("kind", f.Kind, KindLocks, KindJobs)))
	case !(f.Cycles > 0 && f.Cycles <= 1):
		return bad(lineErr(At(root, "cycles"), "cycles %v: a factor above 0, at most 1", f.Cycles))
	case f.Workload.node == nil:
		return bad(errors.New("workload is missing: the keys of a scenario's workload that are different"))
	}
	return Set{f.Name, f.About, f.Kind, f.Cycles, f.OptIn, f.Workload.node}, nil
}

// FindSet is a set by its name.
func FindSet(name string) (Set, error) {
	all, err := Sets()
	if err != nil {
		return Set{}, err
	}
	names := []string{Plain}
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Set{}, &InputError{choice.Unknown("workload", name, names...).Error()}
}

// Set is the name of the set that the scenario's workload has: Plain unless With changed it.
func (s *Spec) Set() string {
	if s.set == "" {
		return Plain
	}
	return s.set
}

// Draws are the sets that a seed may draw, Plain first.
func (s *Spec) Draws() ([]string, error) {
	if !slices.Contains(s.Workloads, AllSets) {
		return append([]string{Plain}, s.Workloads...), nil
	}
	all, err := Sets()
	if err != nil {
		return nil, err
	}
	out := []string{Plain}
	for _, set := range all {
		if set.Kind == s.Kind().Name && !set.OptIn {
			out = append(out, set.Name)
		}
	}
	return out, nil
}

// With is the scenario with the parameters of a set. The scenario itself is as it was. Errors:
// an unknown set, one of another kind, parameters that the scenario cannot have.
func (s *Spec) With(name string) (*Spec, error) {
	out := *s
	out.set = name
	if name == Plain {
		return &out, nil
	}
	set, err := FindSet(name)
	if err != nil {
		return nil, err
	}
	if k := s.Kind().Name; set.Kind != k {
		return nil, &InputError{fmt.Sprintf("%s: workload %s is one of %s, and the scenario one of %s", s.Name, name, set.Kind, k)}
	}
	if out.Workload, err = s.Workload.over(set.workload); err != nil {
		return nil, InFile("scenarios/"+setDir+"/"+name+".yaml", err)
	}
	out.Expect = s.Expect.times(set.Cycles)
	if err := out.Check(); err != nil {
		return nil, &InputError{fmt.Sprintf("%s with workload %s: %v", s.Name, name, err)}
	}
	return &out, nil
}

// over is the workload with the keys of a mapping laid over it, at every depth. Errors have lines
// of the mapping.
func (w Workload) over(keys *yaml.Node) (out Workload, err error) {
	// All values are in what is written, so that no default comes in when it is read.
	var base yaml.Node
	if err := base.Encode(w); err != nil {
		return out, err
	}
	lay(&base, keys)
	err = base.Decode(&out)
	return out, err
}

// lay puts the keys of a mapping over those of another one.
func lay(base, keys *yaml.Node) {
	for i := 0; i+1 < len(keys.Content); i += 2 {
		key, value := keys.Content[i], keys.Content[i+1]
		old := At(base, key.Value)
		switch {
		case old == base:
			base.Content = append(base.Content, key, value)
		case old.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			lay(old, value)
		default:
			*old = *value
		}
	}
}

// times is the expectation with its least numbers of cycles multiplied; none becomes 0 by it.
func (e Expect) times(factor float64) Expect {
	scaled := func(n int) int { return int(math.Ceil(float64(n) * factor)) }
	out := e
	out.MinCycles = map[string]map[string]int{}
	for contention, phases := range e.MinCycles {
		out.MinCycles[contention] = map[string]int{}
		for phase, n := range phases {
			out.MinCycles[contention][phase] = scaled(n)
		}
	}
	out.Progress = slices.Clone(e.Progress)
	for i, p := range out.Progress {
		least := map[string]int{}
		for contention, n := range p.MinCycles {
			least[contention] = scaled(n)
		}
		out.Progress[i].MinCycles = least
	}
	return out
}

// checkWorkloads refuses sets that the scenario cannot have.
func (s *Spec) checkWorkloads() error {
	if s.set != "" && s.set != Plain {
		return nil // one is chosen: the others need not fit beside it
	}
	for i, name := range s.Workloads {
		switch {
		case s.Kind().Name != KindLocks && s.Kind().Name != KindJobs:
			return fmt.Errorf("a scenario of %s has no sets of parameters", s.Kind().Name)
		case name == Plain:
			return fmt.Errorf("%s is always one of them", Plain)
		case slices.Contains(s.Workloads[:i], name) || name == AllSets && len(s.Workloads) > 1:
			return fmt.Errorf("%s: each set once, or %s alone", name, AllSets)
		case name == AllSets:
			continue
		}
		if _, err := FindSet(name); err != nil {
			return err
		}
	}
	draws, err := s.Draws()
	if err != nil {
		return err
	}
	for _, name := range draws[1:] {
		plain := *s
		plain.Workloads = nil // they are being checked
		if _, err := plain.With(name); err != nil {
			return err
		}
	}
	return nil
}
