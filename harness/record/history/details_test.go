package history

import (
	"encoding/json"
	"reflect"
	"testing"
	"unsafe"
)

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
