package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"fencepost/internal/race"
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

// TestRecorderWritesEvery: the recorder writes each event as the file has it, and schema and
// reader accept that.
func TestRecorderWritesEvery(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(every)
	if err != nil {
		t.Fatal(err)
	}
	schema := compileSchema(t)
	var lines [][]byte
	for _, proc := range []string{"w1.1", Harness} {
		head := Header{Run: "r", Proc: proc, DriftBound: 0.01, MarginBaseMS: 100, DedupeMS: 5, System: "core", Promises: []string{"P1", "P14"}}
		name := record(t, head, everyEvent(t, proc))
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(bytes.NewReader(b), name); err != nil {
			t.Errorf("the reader refuses it: %v", err)
		}
		lines = append(lines, slices.Collect(bytes.Lines(b))...)
	}
	all := slices.Collect(bytes.Lines(want))
	if len(lines) != len(all) {
		t.Fatalf("%d lines of %d", len(lines), len(all))
	}
	for i, line := range lines {
		if err := schema.Validate(parse(t, line)); err != nil {
			t.Errorf("line %d: %s: %v", i+1, line, err)
		}
		if !bytes.HasPrefix(line, []byte(`{"format"`)) && !bytes.Equal(line, all[i]) {
			t.Errorf("%s:%d: written as\n%s", every, i+1, line)
		}
	}
}

// TestEveryEventIsComplete: the events of these tests contain each operation,
// note and field of the format, so that the other tests speak about all of it.
func TestEveryEventIsComplete(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	ops := map[Op]bool{}
	for _, e := range append(everyEvent(t, "w1.1"), everyEvent(t, Harness)...) {
		ops[e.Op] = true
		for _, v := range []reflect.Value{reflect.ValueOf(e), reflect.ValueOf(*e.details())} {
			for i := range v.NumField() {
				if !v.Field(i).IsZero() {
					used[v.Type().Field(i).Name] = true
				}
			}
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Event]()) {
		if !used[f.Name] && f.Name != "File" && f.Name != "Line" && !f.Anonymous {
			t.Errorf("no event has %s", f.Name)
		}
	}
	for _, op := range constants(t, "Op") {
		if !ops[Op(op)] {
			t.Errorf("no event of %q", op)
		}
		if formOf[Op(op)] == nil {
			t.Errorf("%q has no form", op)
		}
	}
	field, _ := reflect.TypeFor[Event]().FieldByName("Type")
	if got, want := strings.Fields(field.Tag.Get("of")), constants(t, "Type"); !sameSet(got, want) {
		t.Errorf("types: %v, the code has %v", got, want)
	}
	if len(ops) != len(forms) {
		t.Errorf("%d operations and notes, %d forms", len(ops), len(forms))
	}
}

// accepts says whether the reader takes a line of a file that it may be in.
func accepts(line []byte) error {
	var e Event
	d := newLineDecoder()
	d.line(line)
	has, said, err := eventObject.decode(d, reflect.ValueOf(&e).Elem())
	if err := cmp.Or(err, d.over()); err != nil {
		return err
	}
	file := Life(e.Proc)
	if f := formOf[e.Op]; f != nil && f.by == harnessOnly {
		file = Harness
	}
	return check(&e, has, said, file)
}

// TestRefuses: by the schema and by the reader.
func TestRefuses(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	version := `{"fence":1,"beat":0,"attempt":"a","holder":"h","ttl_ms":1}`
	worker, harness := `{"ts":1,"proc":"w1.1","id":1,"type":"`, `{"ts":1,"proc":"harness","type":"note","op":"`
	tick := worker + `invoke","op":"tick","key":"s","from":` + version + `,"to":` + version + `,"changes":`
	expect := harness + `expect","expect":`
	head := `{"format":"fencepost-history","version":1,"run":"r","proc":"w1.1","pid":1,"host":"h",`
	for name, line := range map[string]string{
		"no ts":                     `{"proc":"w1.1","type":"note","op":"exit"}`,
		"ts of zero":                `{"ts":0,"proc":"w1.1","type":"note","op":"exit"}`,
		"no proc":                   `{"ts":1,"type":"note","op":"exit"}`,
		"unknown field":             `{"ts":1,"proc":"w1.1","type":"note","op":"exit","colour":"red"}`,
		"unknown type":              `{"ts":1,"proc":"w1.1","type":"maybe","op":"exit"}`,
		"unknown operation":         worker + `invoke","op":"steal","key":"l"}`,
		"note as an operation":      worker + `invoke","op":"exit"}`,
		"operation as a note":       `{"ts":1,"proc":"w1.1","type":"note","op":"acquire"}`,
		"invoke without id":         `{"ts":1,"proc":"w1.1","type":"invoke","op":"lock","key":"l"}`,
		"CAS without to":            worker + `invoke","op":"renew","key":"l","from":` + version + `}`,
		"version without ttl":       worker + `invoke","op":"renew","key":"l","from":{"fence":1,"beat":0,"attempt":"a","holder":"h"},"to":` + version + `}`,
		"effect without decided_at": worker + `invoke","op":"effect","key":"r","issuer":"l","token":1,"effect_key":"k","value":1}`,
		"lock without token":        worker + `ok","op":"lock","key":"l"}`,
		"read without row":          worker + `ok","op":"read","key":"l"}`,
		"get without value":         worker + `ok","op":"get","key":"r"}`,
		"effect without result":     worker + `ok","op":"effect","key":"r"}`,
		"unknown result":            worker + `ok","op":"effect","key":"r","result":"fine"}`,
		"stale without seen":        worker + `fail","op":"effect","key":"r","result":"stale"}`,
		"start without decided_at":  `{"ts":1,"proc":"w1.1","type":"note","op":"start","key":"l","token":1}`,
		"answer to nobody":          harness + `answer","key":"r","result":"applied"}`,
		"answer to a lock call":     harness + `answer","key":"r","asked":{"op":"lock","worker":"w1","sent":1}}`,
		"hit by nobody":             harness + `hit","key":"l","point":"effect-sent","hit":{"id":1}}`,
		"arm for no fault":          harness + `arm","point":"effect-sent","armed":{"since":1}}`,
		"witness of nothing":        harness + `witness"}`,
		"phase without its name":    harness + `phase"}`,
		"fault without action":      harness + `fault","fault":{"id":"f1","name":"kill"}}`,
		"host without its numbers":  harness + `host"}`,
		"clock without its state":   `{"ts":1,"proc":"w1.1","type":"note","op":"clock"}`,
		"life without its end":      harness + `life"}`,
		"life of no known kind":     harness + `life","life":{"kind":"daemon","name":"d"}}`,
		"life of two ends":          harness + `life","life":{"kind":"worker","name":"w1.1","code":0,"signal":"SIGKILL"}}`,
		"life asked by nobody":      harness + `life","life":{"kind":"worker","name":"w1.1","asked":"SIGTERM"}}`,
		"clock that stands still":   `{"ts":1,"proc":"w1.1","type":"note","op":"clock","clock":{"rate_ppm":-1000000}}`,
		"success of nothing":        expect + `{"success":[{"want":"some"}]}}`,
		"success of two windows":    expect + `{"success":[{"phase":"fault","fault":"f1","want":"some"}]}}`,
		"success of two groups":     expect + `{"success":[{"phase":"fault","group":"targets","workers":["w1"],"want":"some"}]}}`,
		"success of no known group": expect + `{"success":[{"phase":"fault","group":"all","want":"some"}]}}`,
		"threshold of nothing":      expect + `{"thresholds":[{"max_ms":5}]}}`,
		"threshold of two":          expect + `{"thresholds":[{"recovery":"first","lateness":"p99","max_ms":5}]}}`,
		"threshold without a bound": expect + `{"thresholds":[{"recovery":"first"}]}}`,
		"latency without a phase":   expect + `{"thresholds":[{"latency":"lock","quantile":"p99","max_ms":5}]}}`,
		"accept without key":        harness + `ledger","key":"r","ledger":{"seq":1,"kind":"accept","issuer":"l","token":1}}`,
		"take without ttl":          worker + `invoke","op":"take","key":"s","from":` + version + `,"to":` + version + `}`,
		"tick without from":         worker + `invoke","op":"tick","key":"s","to":` + version + `}`,
		"claim without its run":     tick + `[{"job":"j","do":"claim"}]}`,
		"unknown change":            tick + `[{"job":"j","do":"lose"}]}`,
		"fire of a job":             tick + `[{"job":"j","do":"fire","schedule":"k","last_ms":1}]}`,
		"fire up to nowhere":        tick + `[{"do":"fire","schedule":"k"}]}`,
		"enqueue of no job":         tick + `[{"do":"enqueue","schedule":"k"}]}`,
		"pause of a job":            tick + `[{"do":"pause","job":"j"}]}`,
		"schedule of nothing":       worker + `invoke","op":"schedule","key":"k"}`,
		"put without a distance":    worker + `invoke","op":"schedule","key":"k","schedule":{"queue":"q","shard":"s","do":"put"}}`,
		"enqueue without its job":   worker + `invoke","op":"enqueue","key":"j"}`,
		"enqueue without a result":  worker + `ok","op":"enqueue","key":"j"}`,
		"update without a change":   worker + `invoke","op":"update","key":"l"}`,
		"update of two jobs":        worker + `invoke","op":"update","key":"l","changes":[{"job":"j","do":"dlq"},{"job":"k","do":"dlq"}]}`,
		"run without its attempt":   `{"ts":1,"proc":"w1.1","type":"note","op":"start","key":"j","issuer":"s","token":1,"decided_at":1,"due_ms":1,"wall_ms":1}`,
		"job row without its state": harness + `row","key":"j","issuer":"s","job_row":{"kind":"job"}}`,
		"book row without a table":  harness + `book","book":{"order":"o"}}`,
		"order without its price":   worker + `invoke","op":"enqueue","key":"j","job":{"queue":"q","shard":"s","kind":"k","max_attempts":1,"order":{"id":"o","item":"i","quantity":1}}}`,
		"other format":              `{"format":"jepsen","version":1}`,
		"later version":             `{"format":"fencepost-history","version":2,"run":"r","proc":"w1.1","pid":1,"host":"h","boot_id":"b","wall_time":"2025-01-02T03:04:05Z","ts":1,"drift_bound":0.01,"margin_base_ms":1}`,
		"header without boot":       head + `"wall_time":"2025-01-02T03:04:05Z","ts":1,"drift_bound":0.01,"margin_base_ms":1}`,
		"promise of nothing known":  head + `"boot_id":"b","wall_time":"2025-01-02T03:04:05Z","ts":1,"drift_bound":0.01,"margin_base_ms":1,"promises":["P15"]}`,
		"an array":                  `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if schema.Validate(parse(t, []byte(line))) == nil {
				t.Errorf("the schema accepts %s", line)
			}
			if strings.HasPrefix(line, `{"format"`) {
				if _, err := Read(strings.NewReader(line+"\n"), "f"); err == nil {
					t.Errorf("the reader accepts %s", line)
				}
				return
			}
			if accepts([]byte(line)) == nil {
				t.Errorf("the reader accepts %s", line)
			}
		})
	}
}

// TestReaderAndSchemaAgree: about each event of the format, with each of its fields gone,
// empty, null or of another kind, and with each field that it has not, at any depth.
func TestReaderAndSchemaAgree(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	schema := compileSchema(t)
	events := append(everyEvent(t, "w1.1"), everyEvent(t, Harness)...)
	samples := samples{}
	for _, e := range events {
		samples.collect("", asMap(t, e))
	}
	lines, taken, done := 0, 0, map[string]bool{}
	for _, e := range events {
		line := asMap(t, e)
		samples.vary("", line, done, func() {
			b, err := json.Marshal(line)
			if err != nil {
				t.Fatal(err)
			}
			refused, err := schema.Validate(parse(t, b)), accepts(b)
			if (refused == nil) != (err == nil) {
				t.Errorf("%s\nthe schema says %v\nthe reader says %v", b, refused, err)
			}
			lines++
			if err == nil {
				taken++
			}
		})
	}
	if taken < lines/50 || taken > lines/2 {
		t.Errorf("%d of %d lines are accepted: they test little", taken, lines)
	}
}

func asMap(t *testing.T, e Event) map[string]any {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// samples are values of all fields that the objects have which are called so.
type samples map[string]map[string]any

func (s samples) collect(object string, m map[string]any) {
	if s[object] == nil {
		s[object] = map[string]any{"colour": "red"}
	}
	for name, v := range m {
		s[object][name] = v
		for _, inner := range objectsIn(v) {
			s.collect(name, inner)
		}
	}
}

// objectsIn are the objects that a value is or lists.
func objectsIn(v any) (out []map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		return []map[string]any{v}
	case []any:
		for _, x := range v {
			out = append(out, objectsIn(x)...)
		}
	}
	return out
}

// vary calls try with m changed in each way, and changes it back. Objects within m that
// have the same fields as one before are left as they are.
func (s samples) vary(object string, m map[string]any, done map[string]bool, try func()) {
	like := fmt.Sprint(object, slices.Sorted(maps.Keys(m)))
	if object != "" && done[like] {
		return
	}
	done[like] = true
	for _, name := range slices.Sorted(maps.Keys(s[object])) {
		old, had := m[name]
		if !had {
			m[name] = s[object][name]
			try()
			delete(m, name)
			continue
		}
		for _, v := range []any{
			nil, 0, -1, json.Number("9223372036854775807"), json.Number("9223372036854775808"), 0.3, "", "applied", true, false,
			[]any{}, []any{""}, map[string]any{},
		} {
			m[name] = v
			try()
		}
		delete(m, name)
		try()
		m[name] = old
		for _, inner := range objectsIn(old) {
			s.vary(name, inner, done, try)
		}
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
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
	b, err := os.ReadFile("../../../docs/history-format.md")
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
