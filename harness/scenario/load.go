package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"

	"fencepost/scenarios"
)

// InputError is bad input: an unknown scenario, or a fault in a scenario file.
// Its text begins with the file and line where there is one.
type InputError struct{ Msg string }

func (e *InputError) Error() string { return e.Msg }

// Load returns a scenario by name (one of the built-in ones) or by path (a name
// with a slash or ending in .yaml).
func Load(name string) (*Spec, error) {
	if strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, ".yaml") {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, &InputError{err.Error()}
		}
		return Parse(name, b)
	}
	b, err := scenarios.Files.ReadFile(name + ".yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &InputError{fmt.Sprintf("unknown scenario %q; there are: %s (or give the path of a .yaml file)", name, strings.Join(Names(), ", "))}
	}
	if err != nil {
		return nil, err
	}
	return Parse("scenarios/"+name+".yaml", b)
}

// Names lists the built-in scenarios.
func Names() []string {
	files, _ := fs.Glob(scenarios.Files, "*.yaml") // the pattern is valid
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".yaml")
	}
	sort.Strings(files)
	return files
}

// Parse reads a scenario file; errors are *InputError with file and line.
func Parse(file string, b []byte) (*Spec, error) {
	var doc yaml.Node
	bad := func(err error) error { return &InputError{position(file, err)} }
	if err := yaml.NewDecoder(bytes.NewReader(b)).Decode(&doc); err != nil {
		return nil, bad(err)
	}
	if len(doc.Content) != 1 {
		return nil, bad(errors.New("line 1: empty file"))
	}
	var s Spec
	if err := decodeKnown(doc.Content[0], &s); err != nil {
		return nil, bad(err)
	}
	if err := s.extend(at(doc.Content[0], "extends")); err != nil {
		return nil, bad(err)
	}
	s.defaults()
	if err := s.validate(); err != nil {
		return nil, bad(err)
	}
	return &s, nil
}

// extend fills in what the scenario takes from another one.
func (s *Spec) extend(n *yaml.Node) error {
	if s.Extends == "" {
		return nil
	}
	base, err := Load(s.Extends)
	if err != nil {
		return lineErr(n, "extends: %v", err)
	}
	if base.Drill != "" {
		return lineErr(n, "extends: %s is a drill: it has no phases and faults", s.Extends)
	}
	if s.Phases == (Phases{}) {
		s.Phases = base.Phases
	}
	if len(s.Faults) == 0 && s.Swarm == nil {
		s.Faults, s.Swarm = base.Faults, base.Swarm
	}
	s.Extends = ""
	return nil
}

var lineOf = regexp.MustCompile(`(?s)^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (.*)$`)

// position turns "line 7: message" into "file:7: message".
func position(file string, err error) string {
	if m := lineOf.FindStringSubmatch(strings.TrimSpace(err.Error())); m != nil {
		return fmt.Sprintf("%s:%s: %s", file, m[1], m[2])
	}
	return file + ": " + err.Error()
}

// knownKeys refuses mapping keys that v's struct does not have, at every depth.
func knownKeys(n *yaml.Node, v any) error {
	return known(n, reflect.TypeOf(v))
}

var unmarshaler = reflect.TypeFor[yaml.Unmarshaler]()

func known(n *yaml.Node, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		fields := map[string]reflect.Type{}
		fieldsOf(t, fields)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			ft, ok := fields[key.Value]
			if !ok {
				names := make([]string, 0, len(fields))
				for f := range fields {
					names = append(names, f)
				}
				slices.Sort(names)
				return lineErr(key, "unknown key %q; known here: %s", key.Value, strings.Join(names, ", "))
			}
			if reflect.PointerTo(ft).Implements(unmarshaler) {
				continue // it checks itself
			}
			if err := known(n.Content[i+1], ft); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode && !reflect.PointerTo(t.Elem()).Implements(unmarshaler):
		for _, e := range n.Content {
			if err := known(e, t.Elem()); err != nil {
				return err
			}
		}
	}
	return nil
}

func fieldsOf(t reflect.Type, into map[string]reflect.Type) {
	for f := range t.Fields() {
		if !f.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if strings.Contains(opts, "inline") {
			fieldsOf(f.Type, into)
			continue
		}
		if name != "" && name != "-" {
			into[name] = f.Type
		}
	}
}
