package history

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaFile = "history.schema.json"

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t *testing.T, line []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSchemaAcceptsWhatTheRecorderWrites: every operation, end and note, as a
// real recorder writes it.
func TestSchemaAcceptsWhatTheRecorderWrites(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	name := record(t, Header{Run: "r", Proc: "w1.1", DriftBound: 0.01, MarginBaseMS: 100, System: "core", Promises: []string{"P1", "P14"}}, everyEvent("w1.1"))
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(b) {
		n++
		if err := schema.Validate(parse(t, line)); err != nil {
			t.Errorf("line %d: %s: %v", n, line, err)
		}
	}
	if n != len(everyEvent("w1.1"))+1 {
		t.Errorf("%d lines", n)
	}
	if _, err := ReadFiles(name); err != nil {
		t.Errorf("the reader refuses it: %v", err)
	}
}

// TestEveryEventIsComplete: the events of these tests contain each operation,
// note and field of the format, so that the other tests speak about all of it.
func TestEveryEventIsComplete(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	ops := map[Op]bool{}
	for _, e := range everyEvent("w1.1") {
		ops[e.Op] = true
		e.TS = 1
		for _, v := range []reflect.Value{reflect.ValueOf(e), reflect.ValueOf(*e.details())} {
			for i := range v.NumField() {
				if !v.Field(i).IsZero() {
					used[v.Type().Field(i).Name] = true
				}
			}
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Event]()) {
		if !used[f.Name] && f.Name != "File" && f.Name != "Line" {
			t.Errorf("no event has %s", f.Name)
		}
	}
	for _, op := range constants(t, "Op") {
		if !ops[Op(op)] {
			t.Errorf("no event of %q", op)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	version := `{"fence":1,"beat":0,"attempt":"a","holder":"h","ttl_ms":1}`
	for name, line := range map[string]string{
		"no ts":                     `{"proc":"w1.1","type":"note","op":"exit"}`,
		"ts of zero":                `{"ts":0,"proc":"w1.1","type":"note","op":"exit"}`,
		"no proc":                   `{"ts":1,"type":"note","op":"exit"}`,
		"unknown field":             `{"ts":1,"proc":"w1.1","type":"note","op":"exit","colour":"red"}`,
		"unknown type":              `{"ts":1,"proc":"w1.1","type":"maybe","op":"exit"}`,
		"unknown operation":         `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"steal","key":"l"}`,
		"note as an operation":      `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"exit"}`,
		"operation as a note":       `{"ts":1,"proc":"w1.1","type":"note","op":"acquire"}`,
		"invoke without id":         `{"ts":1,"proc":"w1.1","type":"invoke","op":"lock","key":"l"}`,
		"CAS without to":            `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"renew","key":"l","from":` + version + `}`,
		"version without ttl":       `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"renew","key":"l","from":{"fence":1,"beat":0,"attempt":"a","holder":"h"},"to":` + version + `}`,
		"effect without decided_at": `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"effect","key":"r","issuer":"l","token":1,"effect_key":"k","value":1}`,
		"lock without token":        `{"ts":1,"proc":"w1.1","id":1,"type":"ok","op":"lock","key":"l"}`,
		"read without row":          `{"ts":1,"proc":"w1.1","id":1,"type":"ok","op":"read","key":"l"}`,
		"get without value":         `{"ts":1,"proc":"w1.1","id":1,"type":"ok","op":"get","key":"r"}`,
		"effect without result":     `{"ts":1,"proc":"w1.1","id":1,"type":"ok","op":"effect","key":"r"}`,
		"unknown result":            `{"ts":1,"proc":"w1.1","id":1,"type":"ok","op":"effect","key":"r","result":"fine"}`,
		"stale without seen":        `{"ts":1,"proc":"w1.1","id":1,"type":"fail","op":"effect","key":"r","result":"stale"}`,
		"start without decided_at":  `{"ts":1,"proc":"w1.1","type":"note","op":"start","key":"l","token":1}`,
		"answer to nobody":          `{"ts":1,"proc":"harness","type":"note","op":"answer","key":"r","result":"applied"}`,
		"answer to a lock call":     `{"ts":1,"proc":"harness","type":"note","op":"answer","key":"r","asked":{"op":"lock","worker":"w1","sent":1}}`,
		"hit by nobody":             `{"ts":1,"proc":"harness","type":"note","op":"hit","key":"l","point":"effect-sent","hit":{"id":1}}`,
		"witness of nothing":        `{"ts":1,"proc":"harness","type":"note","op":"witness"}`,
		"phase without its name":    `{"ts":1,"proc":"harness","type":"note","op":"phase"}`,
		"fault without action":      `{"ts":1,"proc":"harness","type":"note","op":"fault","fault":{"id":"f1","name":"kill"}}`,
		"clock without its state":   `{"ts":1,"proc":"w1.1","type":"note","op":"clock"}`,
		"clock that stands still":   `{"ts":1,"proc":"w1.1","type":"note","op":"clock","clock":{"rate_ppm":-1000000}}`,
		"success of nothing":        `{"ts":1,"proc":"harness","type":"note","op":"expect","expect":{"success":[{"want":"some"}]}}`,
		"success of two windows":    `{"ts":1,"proc":"harness","type":"note","op":"expect","expect":{"success":[{"phase":"fault","fault":"f1","want":"some"}]}}`,
		"success of two groups":     `{"ts":1,"proc":"harness","type":"note","op":"expect","expect":{"success":[{"phase":"fault","group":"targets","workers":["w1"],"want":"some"}]}}`,
		"success of no known group": `{"ts":1,"proc":"harness","type":"note","op":"expect","expect":{"success":[{"phase":"fault","group":"all","want":"some"}]}}`,
		"threshold of nothing":      `{"ts":1,"proc":"harness","type":"note","op":"expect","expect":{"thresholds":[{"max_ms":5}]}}`,
		"threshold of two":          `{"ts":1,"proc":"harness","type":"note","op":"expect","expect":{"thresholds":[{"recovery":"first","lateness":"p99","max_ms":5}]}}`,
		"threshold without a bound": `{"ts":1,"proc":"harness","type":"note","op":"expect","expect":{"thresholds":[{"recovery":"first"}]}}`,
		"latency without a phase":   `{"ts":1,"proc":"harness","type":"note","op":"expect","expect":{"thresholds":[{"latency":"lock","quantile":"p99","max_ms":5}]}}`,
		"accept without key":        `{"ts":1,"proc":"harness","type":"note","op":"ledger","key":"r","ledger":{"seq":1,"kind":"accept","issuer":"l","token":1}}`,
		"take without ttl":          `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"take","key":"s","from":` + version + `,"to":` + version + `}`,
		"tick without from":         `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"tick","key":"s","to":` + version + `}`,
		"claim without its run":     `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"tick","key":"s","from":` + version + `,"to":` + version + `,"changes":[{"job":"j","do":"claim"}]}`,
		"unknown change":            `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"tick","key":"s","from":` + version + `,"to":` + version + `,"changes":[{"job":"j","do":"lose"}]}`,
		"fire of a job":             `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"tick","key":"s","from":` + version + `,"to":` + version + `,"changes":[{"job":"j","do":"fire","schedule":"k","last_ms":1}]}`,
		"fire up to nowhere":        `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"tick","key":"s","from":` + version + `,"to":` + version + `,"changes":[{"do":"fire","schedule":"k"}]}`,
		"enqueue of no job":         `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"tick","key":"s","from":` + version + `,"to":` + version + `,"changes":[{"do":"enqueue","schedule":"k"}]}`,
		"pause of a job":            `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"tick","key":"s","from":` + version + `,"to":` + version + `,"changes":[{"do":"pause","job":"j"}]}`,
		"schedule of nothing":       `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"schedule","key":"k"}`,
		"put without a distance":    `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"schedule","key":"k","schedule":{"queue":"q","shard":"s","do":"put"}}`,
		"enqueue without its job":   `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"enqueue","key":"j"}`,
		"enqueue without a result":  `{"ts":1,"proc":"w1.1","id":1,"type":"ok","op":"enqueue","key":"j"}`,
		"update without a change":   `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"update","key":"l"}`,
		"update of two jobs":        `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"update","key":"l","changes":[{"job":"j","do":"dlq"},{"job":"k","do":"dlq"}]}`,
		"run without its attempt":   `{"ts":1,"proc":"w1.1","type":"note","op":"start","key":"j","issuer":"s","token":1,"decided_at":1,"due_ms":1,"wall_ms":1}`,
		"job row without its state": `{"ts":1,"proc":"harness","type":"note","op":"row","key":"j","issuer":"s","job_row":{"kind":"job"}}`,
		"book row without a table":  `{"ts":1,"proc":"harness","type":"note","op":"book","book":{"order":"o"}}`,
		"order without its price":   `{"ts":1,"proc":"w1.1","id":1,"type":"invoke","op":"enqueue","key":"j","job":{"queue":"q","shard":"s","kind":"k","max_attempts":1,"order":{"id":"o","item":"i","quantity":1}}}`,
		"other format":              `{"format":"jepsen","version":1}`,
		"later version":             `{"format":"fencepost-history","version":2,"run":"r","proc":"w1.1","pid":1,"host":"h","boot_id":"b","wall_time":"2025-01-02T03:04:05Z","ts":1,"drift_bound":0.01,"margin_base_ms":1}`,
		"header without boot":       `{"format":"fencepost-history","version":1,"run":"r","proc":"w1.1","pid":1,"host":"h","wall_time":"2025-01-02T03:04:05Z","ts":1,"drift_bound":0.01,"margin_base_ms":1}`,
		"promise of nothing known":  `{"format":"fencepost-history","version":1,"run":"r","proc":"w1.1","pid":1,"host":"h","boot_id":"b","wall_time":"2025-01-02T03:04:05Z","ts":1,"drift_bound":0.01,"margin_base_ms":1,"promises":["P15"]}`,
		"an array":                  `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if schema.Validate(parse(t, []byte(line))) == nil {
				t.Errorf("accepted: %s", line)
			}
		})
	}
}

// TestSchemaAndStructsAgree: the schema has exactly the fields of the Go types,
// and requires none that the encoder may omit or omits none that it requires.
func TestSchemaAndStructsAgree(t *testing.T) {
	t.Parallel()
	defs := schemaDefs(t)
	for name, typ := range map[string]reflect.Type{
		"header": reflect.TypeFor[Header](), "event": reflect.TypeFor[Event](), "version": reflect.TypeFor[Version](),
		"fault": reflect.TypeFor[Fault](), "ledger": reflect.TypeFor[LedgerEntry](), "expect": reflect.TypeFor[Expect](),
		"success": reflect.TypeFor[Success](), "statement": reflect.TypeFor[Statement](), "clock": reflect.TypeFor[Clock](), "asked": reflect.TypeFor[Asked](), "hit": reflect.TypeFor[Hit](),
		"change": reflect.TypeFor[Change](), "job": reflect.TypeFor[Job](), "job_row": reflect.TypeFor[JobRow](), "threshold": reflect.TypeFor[Threshold](),
	} {
		var all, always []string
		for _, f := range reflect.VisibleFields(typ) {
			tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == "-" || f.Anonymous {
				continue
			}
			all = append(all, tag)
			if opts != "omitempty" {
				always = append(always, tag)
			}
		}
		def := defs[name]
		var properties []string
		for p := range def.Properties {
			properties = append(properties, p)
		}
		if !sameSet(all, properties) {
			t.Errorf("%s: the type has %v, the schema %v", name, all, properties)
		}
		if !sameSet(always, def.Required) {
			t.Errorf("%s: the encoder always writes %v, the schema requires %v", name, always, def.Required)
		}
		if def.Additional == nil || *def.Additional {
			t.Errorf("%s: the schema lets unknown fields through", name)
		}
	}
	if got, want := append(defs["operation"].Enum, defs["note"].Enum...), constants(t, "Op"); !sameSet(got, want) {
		t.Errorf("operations and notes: the schema has %v, the code %v", got, want)
	}
	var types struct{ Enum []string }
	if err := json.Unmarshal(defs["event"].Properties["type"], &types); err != nil || !sameSet(types.Enum, constants(t, "Type")) {
		t.Errorf("types: the schema has %v, the code %v (%v)", types.Enum, constants(t, "Type"), err)
	}
}

type schemaDef struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Additional *bool                      `json:"additionalProperties"`
	Enum       []string                   `json:"enum"`
}

func schemaDefs(t *testing.T) map[string]schemaDef {
	t.Helper()
	b, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	out := map[string]schemaDef{}
	for name, raw := range s.Defs {
		var d schemaDef
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = d
	}
	return out
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	sort.Strings(a)
	sort.Strings(b)
	return slices.Equal(a, b)
}

// constants returns the values of event.go's constants of a named type.
func constants(t *testing.T, typ string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			id, ok := v.Type.(*ast.Ident)
			if !ok || id.Name != typ {
				continue
			}
			for _, x := range v.Values {
				s, err := strconv.Unquote(x.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, s)
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("no constants of type %s in event.go", typ)
	}
	return out
}

// TestDocumentedExample: the example of docs/history-format.md is a history.
func TestDocumentedExample(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/history-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "```\n{")
	example, _, found := strings.Cut("{"+rest, "```")
	if !found {
		t.Fatal("no example")
	}
	if h, err := Read(strings.NewReader(example), "example"); err != nil || len(h.Operations()) != 2 {
		t.Errorf("%v", err)
	}
	schema := compileSchema(t)
	for line := range strings.Lines(example) {
		if err := schema.Validate(parse(t, []byte(line))); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, op := range constants(t, "Op") {
		if !strings.Contains(string(b), "`"+op+"`") {
			t.Errorf("%q is not documented", op)
		}
	}
}
