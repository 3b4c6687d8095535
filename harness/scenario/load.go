package scenario

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fencepost/internal/choice"
	"fencepost/scenarios"
)

// InputError is bad input: an unknown scenario, or a fault in a scenario file.
// Its text begins with the file and line where there is one.
type InputError struct{ Msg string }

func (e *InputError) Error() string { return e.Msg }

// Load returns a scenario by name (one of the built-in ones) or by path (a name
// with a slash or ending in .yaml).
func Load(name string) (*Spec, error) { return load(name, nil) }

// load is Load for the scenarios of a chain, each of which extends the next.
func load(name string, chain []string) (*Spec, error) {
	if strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, ".yaml") {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, &InputError{err.Error()}
		}
		return parse(name, b, chain)
	}
	b, err := scenarios.Files.ReadFile(name + ".yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &InputError{choice.Unknown("scenario", name, Names()...).Error() + " (or give the path of a .yaml file)"}
	}
	if err != nil {
		return nil, err
	}
	return parse("scenarios/"+name+".yaml", b, chain)
}

// Names lists the built-in scenarios.
func Names() []string {
	files, _ := fs.Glob(scenarios.Files, "*.yaml") // the pattern is valid
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".yaml")
	}
	slices.Sort(files)
	return files
}

// Parse reads a scenario file; errors are *InputError with file and line.
func Parse(file string, b []byte) (*Spec, error) { return parse(file, b, nil) }

func parse(file string, b []byte, chain []string) (*Spec, error) {
	var doc yaml.Node
	bad := func(err error) error { return InFile(file, err) }
	if err := yaml.NewDecoder(bytes.NewReader(b)).Decode(&doc); err != nil {
		return nil, bad(err)
	}
	if len(doc.Content) != 1 {
		return nil, bad(errors.New("line 1: empty file"))
	}
	s := Spec{file: file}
	if err := Decode(doc.Content[0], &s); err != nil {
		return nil, bad(err)
	}
	if err := s.extend(file, chain, At(doc.Content[0], "extends")); err != nil {
		return nil, bad(err)
	}
	s.defaults()
	if err := cmp.Or(s.Check(), s.demands()); err != nil {
		return nil, bad(placed(doc.Content[0], err))
	}
	return &s, nil
}

// extend fills in what the scenario takes from another one.
func (s *Spec) extend(file string, chain []string, n *yaml.Node) error {
	if s.Extends == "" {
		return nil
	}
	if abs, err := filepath.Abs(file); err == nil {
		file = abs // one file is one link of the chain, however it is named
	}
	if slices.Contains(chain, file) {
		return lineErr(n, "extends: %s comes back to this file: a scenario cannot extend itself", s.Extends)
	}
	base, err := load(s.Extends, append(chain, file))
	if err != nil {
		return lineErr(n, "extends: %v", err)
	}
	if !base.Kind().Workers {
		return lineErr(n, "extends: %s is a drill: it has no phases and faults", s.Extends)
	}
	if s.Phases == (Phases{}) {
		s.Phases = base.Phases
	}
	if len(s.Faults) == 0 && s.Swarm == nil {
		s.Faults, s.Swarm = base.Faults, base.Swarm
		s.Cluster = base.Cluster // their targets are there
	}
	s.Extends = ""
	return nil
}

// keyError is an error of what stands under keys.
type keyError struct {
	keys []string
	err  error
}

func (e *keyError) Error() string { return strings.Join(e.keys, ": ") + ": " + e.err.Error() }

func (e *keyError) Unwrap() error { return e.err }

// within says under which keys the error is.
func within(err error, keys ...string) error {
	if err == nil {
		return nil
	}
	if inner, ok := err.(*keyError); ok {
		return &keyError{append(keys, inner.keys...), inner.err}
	}
	return &keyError{keys, err}
}

// placed gives an error of the whole the line of what it is about.
func placed(root *yaml.Node, err error) error {
	var line *lineError
	if errors.As(err, &line) || strings.HasPrefix(err.Error(), "line ") {
		return err
	}
	n := root
	var key *keyError
	if errors.As(err, &key) {
		for _, k := range key.keys {
			n = At(n, k)
		}
	}
	return lineErr(n, "%v", err)
}

var lineOf = regexp.MustCompile(`(?s)^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (.*)$`)

// InFile is an *InputError that turns "line 7: message" into "file:7: message".
func InFile(file string, err error) error {
	if m := lineOf.FindStringSubmatch(strings.TrimSpace(err.Error())); m != nil {
		return &InputError{fmt.Sprintf("%s:%s: %s", file, m[1], m[2])}
	}
	return &InputError{file + ": " + err.Error()}
}

var unmarshaler = reflect.TypeFor[yaml.Unmarshaler]()

// known refuses mapping keys that a type's struct does not have, at every depth.
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
				return lineErr(key, "%v", choice.Unknown("key", key.Value, slices.Sorted(maps.Keys(fields))...))
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

// At is the value of a mapping's key, or the mapping if it has none.
func At(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return m
}
