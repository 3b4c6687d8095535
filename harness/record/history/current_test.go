package history

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

var update = flag.Bool("update", false, "write history.schema.json and the tables of docs/history-format.md")

const page = "../../../docs/history-format.md"

// TestSchemaIsCurrent: the schema is what the tables make of it.
func TestSchemaIsCurrent(t *testing.T) {
	have, err := os.ReadFile(schemaFile)
	switch want := schema(); {
	case err != nil:
		t.Fatal(err)
	case bytes.Equal(have, want):
	case *update:
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the tables of this package make: make docs", schemaFile)
	}
}

// TestPageIsCurrent: so are the tables of the page.
func TestPageIsCurrent(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	have := string(b)
	want := have
	for name, table := range tables() {
		begin, end := "<!-- "+name+": written by make docs from harness/record/history -->\n", "<!-- /"+name+" -->"
		before, rest, ok := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place between %q and %q", page, begin, end)
		}
		want = before + begin + "\n" + table + "\n" + end + after
	}
	switch {
	case have == want:
	case *update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the tables of this package say: make docs", page)
	}
}

// TestDetails: an event without details has all of them zero, a file tells nothing of how
// they are held, and a copy's details can be set without changing the original's.
func TestDetails(t *testing.T) {
	t.Parallel()
	var e Event
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Details]()) {
		out := reflect.ValueOf(&e).MethodByName(f.Name).Call(nil)
		if len(out) != 1 || out[0].Type() != f.Type || !out[0].IsZero() {
			t.Errorf("%s of an event without details is %v", f.Name, out)
		}
	}
	e = Event{TS: 1, Proc: "harness", Type: Note, Op: NotePhase, Details: &Details{Phase: "before"}}
	b, err := json.Marshal(e)
	if want := `{"ts":1,"proc":"harness","type":"note","op":"phase","phase":"before"}`; err != nil || string(b) != want {
		t.Errorf("%s (%v), want %s", b, err, want)
	}
	next := e
	next.OwnDetails().Phase = "fault"
	if e.Phase() != "before" || next.Phase() != "fault" {
		t.Errorf("original %q, copy %q", e.Phase(), next.Phase())
	}
}

// TestEventIsSmall: a million events are held at once.
func TestEventIsSmall(t *testing.T) {
	t.Parallel()
	if n := unsafe.Sizeof(Event{}); n > 288 {
		t.Errorf("an event takes %d bytes: what few events have belongs into Details", n)
	}
}
