package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Schema is the JSON schema of a line: history.schema.json.
func Schema() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:fencepost:history:%d",`, FormatVersion)
	fmt.Fprintf(&b, `"title": "A line of a fencepost history file (format version %d)",`, FormatVersion)
	b.WriteString(`"description": "The first line of a file is a header, every other one an event. docs/history-format.md says more.",
		"if": {"required": ["format"]}, "then": {"$ref": "#/$defs/header"}, "else": {"$ref": "#/$defs/event"}, "$defs": {`)
	fmt.Fprintf(&b, `"header": %s, "event": %s`, headerObject.def(headerRules), eventObject.def(eventRules()...))
	for _, o := range described {
		fmt.Fprintf(&b, `, %q: %s`, o.title(), o.def())
	}
	b.WriteString("}}")
	v := jsontext.Value(b.String())
	if err := v.Compact(); err != nil || !v.IsValid() {
		panic(fmt.Sprintf("history: the schema is no JSON: %v", err)) // of tables in this package
	}
	return append(wrap(nil, v, ""), '\n')
}

// wrap adds a value to b, one of more than a line broken into its parts.
func wrap(b []byte, v jsontext.Value, indent string) []byte {
	const width = 150
	kind := v.Kind()
	if len(indent)+len(v) <= width || kind != '{' && kind != '[' {
		_ = v.Format(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)) // it is JSON
		return append(b, v...)
	}
	d := jsontext.NewDecoder(bytes.NewReader(v))
	_, _ = d.ReadToken()
	b = append(b, v[0])
	for i := 0; d.PeekKind() != kind+2; i++ { // what closes it
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '\n'), indent...), "  "...)
		if v[0] == '{' {
			name, _ := d.ReadValue()
			b = append(append(b, name...), ": "...)
		}
		part, _ := d.ReadValue()
		b = wrap(b, part.Clone(), indent+"  ")
	}
	return append(append(append(b, '\n'), indent...), v[len(v)-1])
}

// described are the objects within events, in the order in which the docs have them.
var described = []interface {
	title() string
	def(rules ...string) string
	page() string
}{
	versionObject, changeObject, jobObject, orderObject, scheduleObject, jobRowObject, bookObject, ledgerObject, faultObject, clockObject, lifeObject, hostObject, progressObject, askedObject, hitObject, statementObject,
	expectObject, agreementObject, successObject, thresholdObject,
}

func (o *object[T]) title() string { return o.name }

// def is the object's schema; rules are more of what must hold.
func (o *object[T]) def(rules ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"type": "object", "description": %q, "additionalProperties": false, "properties": {`, o.means)
	for i, m := range o.members {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `%q: %s, "description": %q}`, m.name, strings.TrimSuffix(m.schema, "}"), m.means)
	}
	b.WriteString("}")
	if o.by == "" {
		if fit := o.fit(o.always); fit != "" {
			rules = append(rules, fit)
		}
	} else {
		rules = append(rules, fmt.Sprintf(`{"required": [%q]}`, o.by))
		for _, k := range o.kinds {
			values := strings.Fields(k.values)
			rules = append(rules, fmt.Sprintf(`{"if": {"properties": {%q: {"enum": %s}}}, "then": %s}`, o.by, quoted(values), o.fit(o.byKind[values[0]])))
		}
	}
	if len(rules) > 0 {
		fmt.Fprintf(&b, `, "allOf": [%s]`, strings.Join(rules, ", "))
	}
	return b.String() + "}"
}

// fit is shapes as a schema, "" if they demand nothing.
func (o *object[T]) fit(shapes []shape) string {
	var any []string
	for i := range shapes {
		any = append(any, o.fitOne(&shapes[i]))
	}
	switch {
	case len(any) > 1:
		return `{"anyOf": [` + strings.Join(any, ", ") + "]}"
	case any[0] == "{}":
		return ""
	}
	return any[0]
}

func (o *object[T]) fitOne(s *shape) string {
	var need, all, narrow, parts []string
	for i, m := range o.members {
		if s.all&(1<<i) == 0 {
			continue
		}
		all = append(all, m.name)
		if s.need&(1<<i) != 0 {
			need = append(need, m.name)
		}
		switch {
		case m.name == "result" && s.results != nil:
			narrow = append(narrow, fmt.Sprintf(`"result": {"enum": %s}`, quoted(s.results)))
		case s.need&(1<<i) != 0 && m.nonzero != "" && m.nonzero != "true":
			narrow = append(narrow, fmt.Sprintf("%q: %s", m.name, m.nonzero))
		}
	}
	if len(need) > 0 {
		parts = append(parts, `"required": `+quoted(need))
	}
	if len(all) < len(o.members) {
		parts = append(parts, `"propertyNames": {"enum": `+quoted(all)+`}`)
	}
	if len(narrow) > 0 {
		parts = append(parts, `"properties": {`+strings.Join(narrow, ", ")+`}`)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func quoted(names []string) string {
	if names == nil {
		names = []string{}
	}
	b, _ := json.Marshal(names) // of strings
	return string(b)
}

// headerRules are what the reader demands of a header beside its shape.
var headerRules = fmt.Sprintf(`{"properties": {"format": {"const": %q}, "version": {"const": %d}, "proc": {"pattern": "^[^/]+$"}, "wall_time": {"format": "date-time"}}}`, Format, FormatVersion)

// eventRules are the forms, and what else the reader demands of an event by itself. In which
// file it is a schema of one line cannot say.
func eventRules() []string {
	var rules, ops []string
	for i := range forms {
		f := &forms[i]
		ops = append(ops, string(f.op))
		var has []string
		for _, t := range types {
			if f.compiled[t] != nil {
				has = append(has, string(t))
				rules = append(rules, fmt.Sprintf(`{"if": {"properties": {"op": {"const": %q}, "type": {"const": %q}}}, "then": %s}`, f.op, t, eventObject.fit(f.compiled[t])))
			}
		}
		proc := `{}`
		switch {
		case f.by == workers || f.op == NoteCrash || f.op == NoteClock:
			proc = `{"not": {"pattern": "^harness(/|$)"}}`
		case f.by == harnessOnly:
			proc = `{"pattern": "^harness(/|$)"}`
		}
		rules = append(rules, fmt.Sprintf(`{"if": {"properties": {"op": {"const": %q}}}, "then": {"properties": {"type": {"enum": %s}, "proc": %s}}}`, f.op, quoted(has), proc))
	}
	return append(rules,
		`{"properties": {"op": {"enum": `+quoted(ops)+`}}}`,
		`{"if": {"properties": {"result": {"const": "stale"}}, "required": ["result"]}, "then": {"required": ["seen"], "properties": {"seen": {"minimum": 1}}}}`,
		`{"if": {"properties": {"op": {"const": "update"}, "type": {"const": "invoke"}}}, "then": {"properties": {"changes": {"maxItems": 1, "items": {"required": ["job"]}}}}}`,
		`{"if": {"properties": {"changes": {"contains": {"not": {"required": ["job"]}}}}, "required": ["changes"]}, "then": {"required": ["wall_ms"], "properties": {"wall_ms": {"minimum": 1}}}}`,
		`{"properties": {"point": {"not": {"enum": `+quoted(derived)+`}}}}`,
	)
}
