package history

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Tables are the tables of docs/history-format.md by the name of their place on the page.
func Tables() map[string]string {
	var inner strings.Builder
	for _, o := range described {
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
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | `%s` | %s | %s |\n", f.op, f.by, line, f.means, f.invoke, code(f.ok), code(f.fail))
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
func (o *object[T]) page() string {
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
func (o *object[T]) table(shapes []shape) string {
	var b strings.Builder
	b.WriteString("| field | value | meaning |\n|---|---|---|\n")
	for i, m := range o.members {
		optional := ""
		if len(shapes) == 1 && shapes[0].need&(1<<i) == 0 {
			optional = "optional: "
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s%s |\n", m.name, valueWords([]byte(m.schema)), optional, m.means)
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
