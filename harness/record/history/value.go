package history

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
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

// ranges are the least and largest of integers.
var ranges = map[string][2]int64{
	"instant": {0, maxInstant}, "span": {0, maxSpan}, "offset": {-maxSpan, maxSpan}, "date": {0, maxDate},
	"rate": {-999_999, maxRate}, "count": {0, most}, "amount": {-most, most}, "token": {0, maxToken},
}

// value is a kind of values.
type value struct {
	schema string
	// nonzero is what the schema of a required one has beside that: as a rule it is neither
	// zero nor empty. "": required only means that it is there.
	nonzero string
	// read reads a value and reports whether it says anything: is not zero.
	read func(d *lineDecoder, v reflect.Value) (said bool, err error)
}

// valueOf is the kind of a field's values, by its type and tags:
//
//	of:"put disable"  a text that is one of these
//	is:"name"         a text that is never empty. A history has few: each is kept once
//	is:"names"        a list of names
//	is:"spans"        a list of integers of that range
//	is:"properties"   a list of properties that can be promised
//	is:"span"         an integer of one of the ranges
//	below:"0.5"       a number of at least 0 and below this
//	is:"zero"         beside another: it may be zero or empty where it is required
//
// A pointer to a number is to one that may be zero, and is another fact if it is not there.
func valueOf(name string, f reflect.StructField, objects map[reflect.Type]*object) value {
	is := strings.Fields(f.Tag.Get("is"))
	v := value{}
	switch of, is := f.Tag.Get("of"), append(is, "")[0]; f.Type.Kind() {
	case reflect.String:
		switch {
		case of != "":
			v = oneOf(name, strings.Fields(of))
		case is == "name":
			v = word
		default:
			v = text
		}
	case reflect.Bool:
		v = boolean
	case reflect.Int, reflect.Int64:
		r, known := ranges[is]
		if !known {
			panic(fmt.Sprintf("history: %s has no range", name)) // of a table in this package
		}
		v = whole(r[0], r[1])
	case reflect.Float64:
		below, err := strconv.ParseFloat(f.Tag.Get("below"), 64)
		if err != nil {
			panic(fmt.Sprintf("history: %s: %v", name, err)) // of a table in this package
		}
		v = real(below)
	case reflect.Pointer:
		v = pointer(objects[f.Type.Elem()])
	case reflect.Map:
		if v = byName(whole(0, maxSpan), nil); f.Type.Elem().Kind() == reflect.String {
			v = byName(word, Promisable)
		}
	case reflect.Slice:
		switch o := objects[f.Type.Elem()]; {
		case o != nil:
			v = list(o.value())
		case is == "spans":
			v = list(whole(0, maxSpan))
		case f.Type.Elem().Kind() == reflect.Int64:
			v = list(whole(1, maxInstant))
		case is == "names":
			v = list(word)
		case is == "properties":
			v = promises()
		default:
			v = list(text)
		}
	}
	if slices.Contains(is, "zero") {
		v.nonzero = ""
		if v.schema == word.schema {
			v.schema, v.read = text.schema, readName
		}
	}
	return v
}

var text = value{`{"type": "string"}`, `{"minLength": 1}`, func(d *lineDecoder, v reflect.Value) (bool, error) {
	s, err := d.text()
	v.SetString(string(s))
	return len(s) > 0, err
}}

var word = value{`{"type": "string", "minLength": 1}`, "true", func(d *lineDecoder, v reflect.Value) (bool, error) {
	said, err := readName(d, v)
	if err == nil && !said {
		err = errors.New("is empty")
	}
	return said, err
}}

func readName(d *lineDecoder, v reflect.Value) (bool, error) {
	s, err := d.text()
	v.SetString(d.names.one(s))
	return len(s) > 0, err
}

func oneOf(name string, values []string) value {
	known := map[string]string{}
	for _, s := range values {
		known[s] = s
	}
	return value{`{"enum": ["` + strings.Join(values, `", "`) + `"]}`, "true", func(d *lineDecoder, v reflect.Value) (bool, error) {
		s, err := d.text()
		if err != nil {
			return false, err
		}
		one, ok := known[string(s)]
		if !ok {
			return false, fmt.Errorf("unknown %s %q", name, s)
		}
		v.SetString(one)
		return true, nil
	}}
}

func whole(lo, hi int64) value {
	nonzero := `{"minimum": 1}`
	if lo < 0 {
		nonzero = `{"not": {"const": 0}}`
	}
	schema := fmt.Sprintf(`{"type": "integer", "minimum": %d, "maximum": %d}`, lo, hi)
	return value{schema, nonzero, func(d *lineDecoder, v reflect.Value) (bool, error) {
		n, err := d.whole(lo, hi)
		v.SetInt(n)
		return n != 0, err
	}}
}

func real(below float64) value {
	schema := fmt.Sprintf(`{"type": "number", "minimum": 0, "exclusiveMaximum": %v}`, below)
	return value{schema, `{"exclusiveMinimum": 0}`, func(d *lineDecoder, v reflect.Value) (bool, error) {
		x, err := d.real(below)
		v.SetFloat(x)
		return x != 0, err
	}}
}

var boolean = value{`{"type": "boolean"}`, `{"const": true}`, func(d *lineDecoder, v reflect.Value) (said bool, err error) {
	said, err = d.truth()
	v.SetBool(said)
	return said, err
}}

// value is an object that stands in another.
func (o *object) value() value { return value{`{"$ref": "#/$defs/` + o.name + `"}`, "true", o.read} }

// pointer is to an object, or without one to an integer.
func pointer(o *object) value {
	to := whole(math.MinInt64, math.MaxInt64)
	to.nonzero = ""
	if o != nil {
		to = o.value()
	}
	return value{to.schema, to.nonzero, func(d *lineDecoder, v reflect.Value) (bool, error) {
		v.Set(reflect.New(v.Type().Elem()))
		_, err := to.read(d, v.Elem())
		return true, err
	}}
}

func list(element value) value {
	return value{`{"type": "array", "items": ` + element.schema + `}`, `{"minItems": 1}`, func(d *lineDecoder, v reflect.Value) (bool, error) {
		err := d.each(func() error {
			n := v.Len()
			v.Grow(1)
			v.SetLen(n + 1)
			_, err := element.read(d, v.Index(n))
			return err
		})
		return v.Len() > 0, err
	}}
}

// byName is an object whose members are values by name; known, if not nil, are the properties
// that the names may be.
func byName(element value, known []string) value {
	schema := `{"type": "object", "additionalProperties": ` + element.schema + `}`
	if known != nil {
		schema = `{"type": "object", "propertyNames": ` + oneOf("", known).schema + `, "additionalProperties": ` + element.schema + `}`
	}
	return value{schema, `{"minProperties": 1}`, func(d *lineDecoder, v reflect.Value) (bool, error) {
		v.Set(reflect.MakeMap(v.Type()))
		if err := d.open('{'); err != nil {
			return false, err
		}
		for {
			b, more, err := d.name()
			if err != nil || !more {
				return v.Len() > 0, err
			}
			name := d.names.one(b)
			key, one := reflect.ValueOf(name), reflect.New(v.Type().Elem()).Elem()
			switch _, err := element.read(d, one); {
			case v.MapIndex(key).IsValid():
				return false, fmt.Errorf("%s is there twice", name)
			case err != nil:
				return false, fmt.Errorf("%s: %w", name, err)
			case known != nil && !slices.Contains(known, name):
				return false, fmt.Errorf("unknown property %q", name)
			}
			v.SetMapIndex(key, one)
		}
	}}
}

// Promisable are the properties that a system can promise; P14 and P15 count whatever it
// promises.
var Promisable = []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14", "P16", "P17"}

// promises is a list of properties.
func promises() value {
	all := list(oneOf("property", Promisable))
	schema := strings.TrimSuffix(all.schema, "}") + `, "minItems": 1}`
	return value{schema, all.nonzero, func(d *lineDecoder, v reflect.Value) (bool, error) {
		any, err := all.read(d, v)
		if err == nil && !any {
			err = errors.New("is empty: leave it out to promise all")
		}
		return any, err
	}}
}
