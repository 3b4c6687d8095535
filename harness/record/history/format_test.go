package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"fencepost/internal/docpage"

	"github.com/go-json-experiment/json/jsontext"
)

// meanings are the comments above the fields of this package's structs.
var meanings = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	files, _ := filepath.Glob("*.go") // the pattern is sound
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			panic(err) // it has been compiled
		}
		ast.Inspect(file, func(n ast.Node) bool {
			typ, _ := n.(*ast.TypeSpec)
			if typ == nil {
				return true
			}
			if s, ok := typ.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					if len(f.Names) == 1 {
						out[typ.Name.Name+"."+f.Names[0].Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
					}
				}
			}
			return false
		})
	}
	return out
})

// meaning is what the comment above a member's field says.
func (o *object) meaning(m member) string {
	typ := reflect.TypeOf(o.of)
	field := typ.FieldByIndex(m.path)
	if len(m.path) > 1 {
		typ = typ.Field(m.path[0]).Type.Elem()
	}
	return meanings()[typ.Name()+"."+field.Name]
}

// schema is the JSON schema of a line: history.schema.json.
func schema() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:fencepost:history:%d",`, FormatVersion)
	fmt.Fprintf(&b, `"title": "A line of a fencepost history file (format version %d)",`, FormatVersion)
	b.WriteString(`"description": "The first line of a file is a header, every other one an event. docs/history-format.md says more.",
		"if": {"required": ["format"]}, "then": {"$ref": "#/$defs/header"}, "else": {"$ref": "#/$defs/event"}, "$defs": {`)
	fmt.Fprintf(&b, `"header": %s, "event": %s`, headerObject.def(headerRules), eventObject.def(eventRules()...))
	for _, o := range objects[2:] {
		fmt.Fprintf(&b, `, %q: %s`, o.name, o.def())
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

// def is the object's schema; rules are more of what must hold.
func (o *object) def(rules ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"type": "object", "description": %q, "additionalProperties": false, "properties": {`, o.means)
	for i, m := range o.members {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `%q: %s, "description": %q}`, m.name, strings.TrimSuffix(m.schema, "}"), o.meaning(m))
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
			rules = append(rules, when(fmt.Sprintf(`%q: {"enum": %s}`, o.by, quoted(values)), o.fit(o.byKind[values[0]])))
		}
	}
	if len(rules) > 0 {
		fmt.Fprintf(&b, `, "allOf": [%s]`, strings.Join(rules, ", "))
	}
	return b.String() + "}"
}

// fit is shapes as a schema, "" if they demand nothing.
func (o *object) fit(shapes []shape) string {
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

func (o *object) fitOne(s *shape) string {
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
var headerRules = fmt.Sprintf(`{"properties": {"format": {"const": %q}, "version": {"const": %d}, `, Format, FormatVersion) +
	`"proc": {"pattern": "^[^/]+$"}, "wall_time": {"format": "date-time"}}}`

// when is a rule for objects with these values.
func when(values, then string) string {
	return `{"if": {"properties": {` + values + `}}, "then": ` + then + `}`
}

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
				rules = append(rules, when(fmt.Sprintf(`"op": {"const": %q}, "type": {"const": %q}`, f.op, t), eventObject.fit(f.compiled[t])))
			}
		}
		proc := `{}`
		switch {
		case f.op == NoteClock: // of a worker, or the host
		case f.by == workers || f.op == NoteCrash:
			proc = `{"not": {"pattern": "^harness(/|$)"}}`
		case f.by == harnessOnly:
			proc = `{"pattern": "^harness(/|$)"}`
		}
		may := fmt.Sprintf(`{"properties": {"type": {"enum": %s}, "proc": %s}}`, quoted(has), proc)
		rules = append(rules, when(fmt.Sprintf(`"op": {"const": %q}`, f.op), may))
	}
	return append(rules,
		`{"properties": {"op": {"enum": `+quoted(ops)+`}}}`,
		`{"if": {"properties": {"result": {"const": "stale"}}, "required": ["result"]},
			"then": {"required": ["seen"], "properties": {"seen": {"minimum": 1}}}}`,
		when(`"op": {"const": "update"}, "type": {"const": "invoke"}`,
			`{"properties": {"changes": {"maxItems": 1, "items": {"required": ["job"]}}}}`),
		`{"if": {"properties": {"changes": {"contains": {"not": {"required": ["job"]}}}}, "required": ["changes"]},
			"then": {"required": ["wall_ms"], "properties": {"wall_ms": {"minimum": 1}}}}`,
		`{"properties": {"point": {"not": {"enum": `+quoted(derived)+`}}}}`,
	)
}

// tables are the tables of docs/history-format.md by the name of their place on the page.
func tables() map[string]string {
	var inner strings.Builder
	for _, o := range objects[2:] {
		inner.WriteString(o.page())
	}
	return map[string]string{
		"header":     headerObject.table(headerObject.always),
		"operations": operationsTable(),
		"notes":      notesTable(),
		"fields":     eventObject.table(nil),
		"objects":    inner.String(),
	}
}

func operationsTable() string {
	var b strings.Builder
	b.WriteString("| op | file | line | what it is | invoke | ok | fail, unknown |\n|---|---|---|---|---|---|---|\n")
	for i := range forms {
		if f := &forms[i]; f.note == "" {
			line := "beside"
			if f.main {
				line = "main"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | `%s` | %s | %s |\n", f.op, f.by, line, f.means, f.invoke, code(f.ok), code(f.other))
		}
	}
	return b.String()
}

func notesTable() string {
	var b strings.Builder
	b.WriteString("| op | file | what it says | fields |\n|---|---|---|---|\n")
	for i := range forms {
		if f := &forms[i]; f.note != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.op, f.by, f.means, code(f.note))
		}
	}
	return b.String()
}

// code is shapes as a table shows them, where a bar ends a cell.
func code(shapes string) string {
	return "`" + strings.NewReplacer("|", `\|`, " or ", "` or `").Replace(shapes) + "`"
}

// page is a heading and the object's table.
func (o *object) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#### `%s`\n\n%s.\n\n", o.name, strings.ToUpper(o.means[:1])+o.means[1:])
	if len(o.always) > 1 {
		fmt.Fprintf(&b, "It has %s.\n\n", code(o.shapes))
	}
	if o.by == "" {
		return b.String() + o.table(o.always) + "\n"
	}
	fmt.Fprintf(&b, "| `%s` | beside it |\n|---|---|\n", o.by)
	for _, k := range o.kinds {
		fields := "nothing"
		if k.shapes != "" {
			fields = code(k.shapes)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.ReplaceAll(k.values, " ", ", "), fields)
	}
	return b.String() + "\n" + o.table(nil) + "\n"
}

// table has a row for each member; a single shape says which are required.
func (o *object) table(shapes []shape) string {
	var b strings.Builder
	b.WriteString("| field | value | meaning |\n|---|---|---|\n")
	for i, m := range o.members {
		optional := ""
		if len(shapes) == 1 && shapes[0].need&(1<<i) == 0 {
			optional = "optional: "
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s%s |\n", m.name, valueWords([]byte(m.schema)), optional, o.meaning(m))
	}
	return b.String()
}

// valueWords says a value's schema in words.
func valueWords(schema []byte) string {
	var s struct {
		Type       string
		Enum       []string
		Items      json.RawMessage
		Additional json.RawMessage `json:"additionalProperties"`
		Pointer    string          `json:"$ref"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		panic(fmt.Sprintf("history: %s: %v", schema, err)) // of a table in this package
	}
	switch {
	case s.Pointer != "":
		name := s.Pointer[strings.LastIndexByte(s.Pointer, '/')+1:]
		return fmt.Sprintf("[%s](#%s)", name, name)
	case s.Enum != nil:
		return strings.Join(s.Enum, ", ")
	case s.Type == "array":
		return "list of " + valueWords(s.Items)
	case s.Type == "object":
		return valueWords(s.Additional) + " by name"
	case s.Type == "string":
		return "text"
	}
	return s.Type
}

// TestSchemaIsCurrent: the schema is what the tables make of it.
func TestSchemaIsCurrent(t *testing.T) {
	docpage.File(t, "harness/record/history/"+schemaFile, schema())
}

// TestPageIsCurrent: so are the tables of the page.
func TestPageIsCurrent(t *testing.T) {
	for name, table := range tables() {
		docpage.Check(t, "history-format.md", name, table)
	}
}
