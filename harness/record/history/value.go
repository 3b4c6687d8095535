package history

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Bounds of numbers. What is in ms is scaled to ns and added to other times, tokens are
// counted on: with these nothing overflows.
const (
	maxInstant = 1 << 62           // ns: 146 years
	maxSpan    = 1_000_000_000_000 // ms: 31 years
	maxDate    = 4_000_000_000_000 // ms since 1970: the year 2096
	maxRate    = 1_000_000_000     // parts per million: a clock a thousand times too fast
	most       = 1 << 62           // versions, ids
	maxToken   = math.MaxInt64     // what a sink may have been shown
)

func text[T any](name, means string, at func(*T) *string) member[T] {
	return member[T]{name, means, `{"type": "string"}`, `{"minLength": 1}`, func(d *lineDecoder, v *T) (bool, error) {
		s, err := d.text()
		*at(v) = string(s)
		return len(s) > 0, err
	}}
}

// word is a name, which is never empty. A history has few of them: each is kept once.
func word[T any, S ~string](name, means string, at func(*T) *S) member[T] {
	m := wordOrNone(name, means, at)
	read := m.read
	m.schema, m.nonzero = `{"type": "string", "minLength": 1}`, "true"
	m.read = func(d *lineDecoder, v *T) (bool, error) {
		said, err := read(d, v)
		if err == nil && !said {
			err = errEmpty
		}
		return said, err
	}
	return m
}

var errEmpty = errors.New("is empty")

// wordOrNone is a name that may be empty, also where it is required.
func wordOrNone[T any, S ~string](name, means string, at func(*T) *S) member[T] {
	return member[T]{name, means, `{"type": "string"}`, "", func(d *lineDecoder, v *T) (bool, error) {
		s, err := d.text()
		*at(v) = S(d.names.one(s))
		return len(s) > 0, err
	}}
}

// oneOf is a text that is one of some.
func oneOf[T any, S ~string](name, means, values string, at func(*T) *S) member[T] {
	known := map[string]S{}
	for _, s := range strings.Fields(values) {
		known[s] = S(s)
	}
	schema := `{"enum": ["` + strings.Join(strings.Fields(values), `", "`) + `"]}`
	return member[T]{name, means, schema, "true", func(d *lineDecoder, v *T) (bool, error) {
		s, err := d.text()
		if err != nil {
			return false, err
		}
		one, ok := known[string(s)]
		if !ok {
			return false, fmt.Errorf("unknown %s %q", name, s)
		}
		*at(v) = one
		return true, nil
	}}
}

// whole is an integer from lo to hi.
func whole[T any, N ~int | ~int64](name string, lo, hi int64, means string, at func(*T) *N) member[T] {
	nonzero := `{"minimum": 1}`
	if lo < 0 {
		nonzero = `{"not": {"const": 0}}`
	}
	return member[T]{name, means, wholeSchema(lo, hi), nonzero, func(d *lineDecoder, v *T) (bool, error) {
		n, err := d.whole(lo, hi)
		*at(v) = N(n)
		return n != 0, err
	}}
}

func wholeSchema(lo, hi int64) string {
	return fmt.Sprintf(`{"type": "integer", "minimum": %d, "maximum": %d}`, lo, hi)
}

// real is a number of at least 0 and below the bound.
func real[T any](name string, below float64, means string, at func(*T) *float64) member[T] {
	schema := fmt.Sprintf(`{"type": "number", "minimum": 0, "exclusiveMaximum": %v}`, below)
	return member[T]{name, means, schema, `{"exclusiveMinimum": 0}`, func(d *lineDecoder, v *T) (bool, error) {
		x, err := d.real(below)
		*at(v) = x
		return x != 0, err
	}}
}

func boolean[T any](name, means string, at func(*T) *bool) member[T] {
	return member[T]{name, means, `{"type": "boolean"}`, `{"const": true}`, func(d *lineDecoder, v *T) (said bool, err error) {
		said, err = d.truth()
		*at(v) = said
		return said, err
	}}
}

// one is an object.
func one[T, U any](name, means string, o *object[U], at func(*T) **U) member[T] {
	return member[T]{name, means, reference(o.name), "true", func(d *lineDecoder, v *T) (bool, error) {
		*at(v) = new(U)
		return true, o.read(d, *at(v))
	}}
}

func reference(name string) string { return `{"$ref": "#/$defs/` + name + `"}` }

// list is a list of what element reads.
func list[T, U any](name, means, schema string, at func(*T) *[]U, element func(d *lineDecoder, u *U) error) member[T] {
	return member[T]{name, means, `{"type": "array", "items": ` + schema + `}`, `{"minItems": 1}`, func(d *lineDecoder, v *T) (bool, error) {
		l := at(v)
		err := d.each(func() error {
			*l = append(*l, *new(U))
			return element(d, &(*l)[len(*l)-1])
		})
		return len(*l) > 0, err
	}}
}

func objects[T, U any](name, means string, o *object[U], at func(*T) *[]U) member[T] {
	return list(name, means, reference(o.name), at, o.read)
}

// words is a list of words that are not empty.
func words[T any](name, means string, at func(*T) *[]string) member[T] {
	return list(name, means, `{"type": "string", "minLength": 1}`, at, func(d *lineDecoder, s *string) error {
		b, err := d.text()
		if err == nil && len(b) == 0 {
			err = errEmpty
		}
		*s = d.names.one(b)
		return err
	})
}

// lines are of a text, some of which may be empty.
func lines[T any](name, means string, at func(*T) *[]string) member[T] {
	return list(name, means, `{"type": "string"}`, at, func(d *lineDecoder, s *string) error {
		b, err := d.text()
		*s = string(b)
		return err
	})
}

// instants is a list of times.
func instants[T any](name, means string, at func(*T) *[]int64) member[T] {
	return list(name, means, wholeSchema(1, maxInstant), at, func(d *lineDecoder, n *int64) (err error) {
		*n, err = d.whole(1, maxInstant)
		return err
	})
}

// bare is a member that may be zero or empty where it is required.
func bare[T any](m member[T]) member[T] {
	m.nonzero = ""
	return m
}

// number is an integer that may be zero, and is another fact if it is not there.
func number[T any, N int | int64](name, means string, at func(*T) **N) member[T] {
	return member[T]{name, means, wholeSchema(math.MinInt64, math.MaxInt64), "", func(d *lineDecoder, v *T) (bool, error) {
		i, err := d.whole(math.MinInt64, math.MaxInt64)
		n := N(i)
		*at(v) = &n
		return true, err
	}}
}

// byName is an object whose members are values by name.
func byName[T, V any](name, means, schema string, at func(*T) *map[string]V, value func(d *lineDecoder) (V, error)) member[T] {
	return member[T]{name, means, schema, `{"minProperties": 1}`, func(d *lineDecoder, v *T) (bool, error) {
		m := map[string]V{}
		*at(v) = m
		if err := d.open('{'); err != nil {
			return false, err
		}
		for {
			b, more, err := d.name()
			if err != nil || !more {
				return len(m) > 0, err
			}
			key := d.names.one(b)
			if _, twice := m[key]; twice {
				return false, fmt.Errorf("%s is there twice", key)
			}
			if m[key], err = value(d); err != nil {
				return false, fmt.Errorf("%s: %w", key, err)
			}
		}
	}}
}

// numbers are counts by name.
func numbers[T any](name, means string, at func(*T) *map[string]int) member[T] {
	schema := `{"type": "object", "additionalProperties": ` + wholeSchema(0, maxSpan) + `}`
	return byName(name, means, schema, at, func(d *lineDecoder) (int, error) {
		n, err := d.whole(0, maxSpan)
		return int(n), err
	})
}

// reasons are texts by property.
func reasons[T any](name, means string, at func(*T) *map[string]string) member[T] {
	schema := `{"type": "object", "propertyNames": ` + property.schema + `, "additionalProperties": {"type": "string", "minLength": 1}}`
	m := byName(name, means, schema, at, func(d *lineDecoder) (string, error) {
		s, err := d.text()
		if err == nil && len(s) == 0 {
			err = errEmpty
		}
		return string(s), err
	})
	read := m.read
	m.read = func(d *lineDecoder, v *T) (bool, error) {
		said, err := read(d, v)
		for id := range *at(v) {
			if err == nil && !slices.Contains(Promisable, id) {
				err = fmt.Errorf("unknown property %q", id)
			}
		}
		return said, err
	}
	return m
}

// Promisable are the properties that a system can promise; P14 and P15 count whatever it
// promises.
var Promisable = []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14", "P16", "P17"}

// property is one of them.
var property = oneOf("property", "", strings.Join(Promisable, " "), func(s *string) *string { return s })

// promised is a list of properties.
func promised[T any](name, means string, at func(*T) *[]string) member[T] {
	m := list(name, means, property.schema, at, func(d *lineDecoder, s *string) error {
		_, err := property.read(d, s)
		return err
	})
	read := m.read
	m.read = func(d *lineDecoder, v *T) (bool, error) {
		any, err := read(d, v)
		if err == nil && !any {
			err = errors.New("is empty: leave it out to promise all")
		}
		return any, err
	}
	m.schema = strings.TrimSuffix(m.schema, "}") + `, "minItems": 1}`
	return m
}
