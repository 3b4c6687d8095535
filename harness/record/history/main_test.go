package history

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// TestMain doubles as a process that must not write much.
func TestMain(m *testing.M) {
	if file := os.Getenv(limitedEnv); file != "" {
		os.Exit(recordLimited(file))
	}
	goleak.VerifyTestMain(m)
}

// every is a file with each operation, end and note, and all fields set that belong to it, as
// the recorder writes them: a worker's and behind it the harness's.
const every = "testdata/every.jsonl"

// everyEvent has the events of a life in that file, in the order in which they are recorded.
func everyEvent(t testing.TB, life string) (out []Event) {
	t.Helper()
	b, err := os.ReadFile(every)
	if err != nil {
		t.Fatal(err)
	}
	var head Header
	for line := range bytes.Lines(b) {
		var e Event
		if bytes.HasPrefix(line, []byte(`{"format"`)) {
			err = json.Unmarshal(line, &head)
		} else if err = json.Unmarshal(line, &e); head.Proc == life {
			out = append(out, e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// record writes events with a real Recorder and returns the file.
func record(t testing.TB, header Header, events []Event) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "history.jsonl")
	r, err := NewRecorder(name, header)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		r.Record(e)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}
