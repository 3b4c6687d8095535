package history

import (
	"fmt"
	"math/bits"
	"strings"
)

// object is a kind of JSON object of the format: how one becomes a T, and what it must
// have. Reader, schema and docs are made from it.
type object[T any] struct {
	name, means string
	members     []member[T]
	// shapes are what it must and may have, "" for any of its members. If by is a member,
	// that depends on its value: then kinds say it.
	shapes string
	by     string
	kinds  []objectKind
	which  func(*T) string // the value of by

	at     map[string]int // members by name
	always []shape
	byKind map[string][]shape
}

// objectKind is the shapes of objects whose by has one of the values.
type objectKind struct{ values, shapes string }

// member is a field of an object.
type member[T any] struct {
	name, means string
	schema      string // of its value
	// nonzero is what its value must be beside that where it is required: as a rule
	// neither zero nor empty. "": required only means that it is there.
	nonzero string
	// read reads the value and reports whether it says anything: is not zero.
	read func(d *lineDecoder, v *T) (said bool, err error)
}

// mask is a set of an object's members.
type mask uint64

// shape is what an object must have, and all that it may have.
type shape struct {
	text      string
	need, all mask
	results   []string // of the member result, if it has one
}

// newObject compiles what o says of itself.
func newObject[T any](o object[T]) *object[T] {
	o.at = make(map[string]int, len(o.members))
	for i, m := range o.members {
		o.at[m.name] = i
	}
	if o.shapes == "" {
		o.shapes = o.by + " [*]"
	}
	o.always = o.parse("", o.shapes)
	o.byKind = map[string][]shape{}
	for _, k := range o.kinds {
		for _, value := range strings.Fields(k.values) {
			o.byKind[value] = o.parse(o.by+" ", k.shapes)
		}
	}
	return &o
}

// parse reads shapes with "or" between them, each of which begins with the fields of first.
// A shape is names of members, those in brackets optional, * for all others, result with
// the values that it may have: "key result=applied|inbox [sends]".
func (o *object[T]) parse(first, text string) (out []shape) {
	for _, s := range strings.Split(text, " or ") {
		out = append(out, o.parseOne(first+s))
	}
	return out
}

func (o *object[T]) parseOne(text string) shape {
	s := shape{text: text}
	optional := false
	for _, word := range strings.Fields(text) {
		optional = optional || strings.HasPrefix(word, "[")
		name, values, listed := strings.Cut(strings.Trim(word, "[]"), "=")
		if name == "*" {
			s.all = 1<<len(o.members) - 1
			continue
		}
		i, known := o.at[name]
		if !known {
			panic(fmt.Sprintf("history: %s has no field %q", o.name, name)) // of a table in this package
		}
		if listed {
			s.results = strings.Split(values, "|")
		}
		s.all |= 1 << i
		if !optional {
			s.need |= 1 << i
		}
	}
	return s
}

// decode reads an object: which members it has, and which of them say something.
func (o *object[T]) decode(d *lineDecoder, v *T) (has, said mask, err error) {
	if err := d.open('{'); err != nil {
		return 0, 0, err
	}
	for {
		name, more, err := d.name()
		if err != nil || !more {
			return has, said, err
		}
		i, known := o.at[string(name)]
		if !known {
			return 0, 0, fmt.Errorf("unknown field %q", name)
		}
		if has&(1<<i) != 0 {
			return 0, 0, fmt.Errorf("field %s is there twice", name)
		}
		has |= 1 << i
		m := &o.members[i]
		ok, err := m.read(d, v)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", m.name, err)
		}
		if ok || m.nonzero == "" {
			said |= 1 << i
		}
	}
}

// read is decode for an object whose shape is known by itself.
func (o *object[T]) read(d *lineDecoder, v *T) error {
	has, said, err := o.decode(d, v)
	if err != nil {
		return err
	}
	if o.by == "" || said&(1<<o.at[o.by]) == 0 {
		_, err := o.fits(o.always, has, said)
		return err
	}
	if _, err := o.fits(o.byKind[o.which(v)], has, said); err != nil {
		return fmt.Errorf("%s %w", o.which(v), err)
	}
	return nil
}

// fits finds the shape that an object has, or says what is wrong by the nearest.
func (o *object[T]) fits(shapes []shape, has, said mask) (*shape, error) {
	nearest, far := &shapes[0], 2*len(o.members)
	for i := range shapes {
		s := &shapes[i]
		if has&^s.all|s.need&^said == 0 {
			return s, nil
		}
		if d := bits.OnesCount64(uint64(has&^s.all)) + bits.OnesCount64(uint64(s.need&^said)); d < far {
			nearest, far = s, d
		}
	}
	extra, missing := has&^nearest.all, nearest.need&^said
	switch {
	case extra != 0:
		return nil, fmt.Errorf("has %s: it may have %s", o.names(extra), nearest.text)
	case missing&has != 0:
		return nil, fmt.Errorf("has no %s: it is zero or empty", o.names(missing&has))
	}
	return nil, fmt.Errorf("has no %s", o.names(missing))
}

func (o *object[T]) names(m mask) string {
	var out []string
	for ; m != 0; m &= m - 1 {
		out = append(out, o.members[bits.TrailingZeros64(uint64(m))].name)
	}
	return strings.Join(out, ", ")
}
