package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func header(run, proc, boot string) Header {
	return Header{Format: Format, Version: FormatVersion, Run: run, Proc: proc, Host: "h", BootID: boot, WallTime: "2025-01-02T03:04:05Z", TS: 1}
}

// encode is a file as its lines.
func encode(t testing.TB, head Header, events ...Event) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	if err := enc.Encode(head); err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if err := enc.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// TestTornLastLine: a file may end anywhere within its last line. Everything
// before it is kept, and what is torn is counted, unless it is whole all the same.
func TestTornLastLine(t *testing.T) {
	t.Parallel()
	events := everyEvent(t, "w1.1")[:6]
	whole := encode(t, header("r", "w1.1", "b"), events...)
	lastLine := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for cut := lastLine; cut <= len(whole); cut++ {
		h, err := Read(bytes.NewReader(whole[:cut]), "f")
		if err != nil {
			t.Fatalf("cut %d bytes into the last line: %v", cut-lastLine, err)
		}
		want, torn := len(events)-1, 1
		switch {
		case cut == lastLine:
			torn = 0
		case cut >= len(whole)-1: // only the newline is missing, or nothing
			want, torn = len(events), 0
		}
		if len(h.Events) != want || h.Torn != torn {
			t.Errorf("cut %d bytes into the last line: %d events, %d torn, want %d and %d", cut-lastLine, len(h.Events), h.Torn, want, torn)
		}
	}
}

// TestMalformed: anything else is refused with file and line.
func TestMalformed(t *testing.T) {
	t.Parallel()
	good := string(encode(t, header("r", "w1.1", "b")))
	run := string(encode(t, header("r", Harness, "b")))
	note := `{"ts":5,"proc":"w1.1","type":"note","op":"exit"}` + "\n"
	invoke := `{"ts":5,"proc":"w1.1/c1","id":1,"type":"invoke","op":"lock","key":"l"}` + "\n"
	effect := `{"ts":5,"proc":"w1.1/c1","id":1,"type":"invoke","op":"effect","key":"r","issuer":"l","token":2,` +
		`"effect_key":"k","value":1,"decided_at":4}` + "\n"
	crash := func(proc string) string {
		return fmt.Sprintf(`{"ts":5,"proc":%q,"type":"note","op":"crash"}`+"\n", proc)
	}
	op := `{"ts":5,"proc":"w1.1","id":1,"type":"`
	ended := `{"ts":6,"proc":"w1.1/c1","id":1,"type":"ok","op":"`
	effected := ended + `effect","key":"r",`
	for _, tc := range []struct {
		name, file string
		line       int
		says       string
	}{
		{"torn header", good[:20], 1, "torn header"},
		{"no header", note, 1, "header"},
		{"other format", `{"format":"edn","version":1}` + "\n", 1, `format is "edn"`},
		{"later version", strings.Replace(good, `"version":1`, `"version":2`, 1), 1, "version 2 is not supported"},
		{"unknown header field", strings.Replace(good, `"run":"r"`, `"run":"r","colour":1`, 1), 1, "colour"},
		{"corrupted line in the middle", good + note + `{"ts":6,"proc":` + "\n" + note, 3, "not a valid event"},
		{"torn line in the middle", good + note + `{"ts":6,"pr` + note + note, 3, "not a valid event"},
		{"blank line", good + note + "\n" + note, 3, "not a valid event"},
		{"two events on a line", good + strings.TrimSpace(note) + note, 2, "data after the event"},
		{"no ts", good + `{"proc":"w1.1","type":"note","op":"exit"}` + "\n", 2, "exit note has no ts"},
		{"no proc", good + `{"ts":5,"type":"note","op":"exit"}` + "\n", 2, "has no proc"},
		{"invoke without id", good + `{"ts":5,"proc":"w1.1","type":"invoke","op":"lock","key":"l"}` + "\n", 2, "lock invoke has no id"},
		{"id invoked twice", good + invoke + invoke, 3, "invoked twice"},
		{"update of nothing", good + op + `invoke","op":"update","key":"l","changes":[]}` + "\n", 2, "has no changes: it is zero or empty"},
		{"CAS without versions", good + op + `invoke","op":"renew","key":"l"}` + "\n", 2, "renew invoke has no from, to"},
		{"end without invoke", good + op + `ok","op":"lock","key":"l","token":1}` + "\n", 2, "without its invoke"},
		{"end of another operation", good + invoke + ended + `get","key":"l","value":1}` + "\n", 3, "its invoke on line 2"},
		{"end of another proc", good + invoke + `{"ts":6,"proc":"w1.1/c2","id":1,"type":"ok","op":"lock","key":"l","token":1}` + "\n", 3, "its invoke on line 2"},
		{"end before its invoke", good + invoke + `{"ts":4,"proc":"w1.1/c1","id":1,"type":"ok","op":"lock","key":"l","token":1}` + "\n", 3, "before its invoke"},
		{"end with another token", good + effect + effected + `"token":3,"result":"applied","seen":3}` + "\n", 3, "its invoke on line 2 was of token 2"},
		{"end with another issuer", good + effect + effected + `"issuer":"m","result":"applied","seen":3}` + "\n", 3, `its invoke on line 2 was of token 2 of "l"`},
		{"end with another effect", good + effect + effected + `"effect_key":"j","result":"applied","seen":3}` + "\n", 3, `key "j"; its invoke`},
		{"torn line with an unknown field", good + `{"ts":5,"colour":"r`, 2, "colour"},
		{"event of another worker", good + `{"ts":5,"proc":"w2.1/c1","id":1,"type":"invoke","op":"lock","key":"l"}` + "\n", 2, "lock of w2.1/c1 in the file of w1.1"},
		{"event of another life", good + note + `{"ts":5,"proc":"w1.2/c1","id":1,"type":"invoke","op":"lock","key":"l"}` + "\n", 3, "w1.2/c1 in the file of w1.1"},
		{"event of the harness", good + `{"ts":5,"proc":"harness","type":"note","op":"phase","phase":"warmup"}` + "\n", 2, "phase in the file of w1.1: only the harness can know it"},
		{"crash of another worker", good + crash("w2.1"), 2, "crash in the file of w1.1: only the harness can know it"},
		{"crash of itself", good + crash("w1.1"), 2, "crash in the file of w1.1: only the harness can know it"},
		{"crash of the harness", run + crash(Harness), 2, "crash of the harness itself"},
		{"worker's exit in the harness's file", run + note, 2, "exit of w1.1 in the file of harness"},
		{"worker's operation in the harness's file", run + invoke, 2, "lock in the file of the harness: it is a worker's to record"},
		{"operation named crash in the harness's file", run + op + `invoke","op":"crash"}` + "\n", 2, "crash is never invoke"},
		{"header without proc", strings.Replace(good, `"proc":"w1.1"`, `"proc":""`, 1), 1, "proc"},
		{"header of a client", strings.Replace(good, `"proc":"w1.1"`, `"proc":"w1.1/c1"`, 1), 1, "w1.1/c1"},
		{"endless line", good + `{"ts":5,"error":"` + strings.Repeat("x", maxLine) + `"}` + "\n", 2, "longer than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, err := Read(strings.NewReader(tc.file), "dir/w1.1.jsonl")
			var fe *FormatError
			if !errors.As(err, &fe) {
				t.Fatalf("history %+v, error %v, want a *FormatError", h, err)
			}
			if fe.File != "dir/w1.1.jsonl" || fe.Line != tc.line || !strings.Contains(fe.Reason, tc.says) {
				t.Errorf("%v, want line %d and %q", err, tc.line, tc.says)
			}
			if want := fmt.Sprintf("dir/w1.1.jsonl:%d: ", tc.line); !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q does not begin with %q", err, want)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	read := func(head Header, name string, events ...Event) *History {
		h, err := Read(bytes.NewReader(encode(t, head, events...)), name)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	note := func(proc string, ts int64) Event {
		return Event{TS: ts, Proc: proc, Type: Note, Op: NotePoint, Details: &Details{Point: "p"}}
	}
	a := read(header("r", "w1.1", "b"), "a", note("w1.1", 3), note("w1.1", 5), note("w1.1", 5))
	b := read(header("r", "w2.1", "b"), "b", note("w2.1", 1), note("w2.1", 5))
	b.Torn = 1
	h, err := Merge(a, b)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range h.Events {
		got = append(got, fmt.Sprintf("%d %s:%d", e.TS, e.File, e.Line))
	}
	if want := []string{"1 b:2", "3 a:2", "5 a:3", "5 a:4", "5 b:3"}; !reflect.DeepEqual(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	if len(h.Headers) != 2 || h.Torn != 1 {
		t.Errorf("%d headers, %d torn", len(h.Headers), h.Torn)
	}
	for _, tc := range []struct {
		name string
		with Header
		says string
	}{
		{"another run", header("other", "w3.1", "b"), "different runs"},
		{"another boot", header("r", "w3.1", "c"), "different boots"},
		{"the same life", header("r", "w1.1", "b"), `process life "w1.1"`},
	} {
		if _, err := Merge(a, b, read(tc.with, "c")); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want one that says %q", tc.name, err, tc.says)
		}
	}
}

func TestReadDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := ReadDir(dir); err == nil || !strings.Contains(err.Error(), "no history") {
		t.Errorf("empty directory: %v", err)
	}
	for i, proc := range []string{"w1.1", "harness"} {
		b := encode(t, header("r", proc, "b"), Event{TS: int64(10 - i), Proc: proc, Type: Note, Op: NoteExit})
		if err := os.WriteFile(filepath.Join(dir, proc+".jsonl"), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("not a history"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "w2.1.jsonl"), nil, 0o644); err != nil { // killed before its header
		t.Fatal(err)
	}
	h, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Headers) != 2 || len(h.Events) != 2 || h.Events[0].Proc != "harness" {
		t.Errorf("%+v", h)
	}
	if _, err := ReadFiles(filepath.Join(dir, "w2.1.jsonl")); err == nil || !strings.Contains(err.Error(), "w2.1.jsonl:1: empty") {
		t.Errorf("nothing but empty files: %v", err)
	}
	if _, err := ReadFiles(filepath.Join(dir, "none.jsonl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// TestRoundTrip: what is written is read, whatever the values.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		if err := enc.Encode(header("r", Harness, "b")); err != nil {
			t.Fatal(err)
		}
		for i := range events {
			events[i].TS = int64(i + 1)
			if err := enc.Encode(events[i]); err != nil {
				t.Fatal(err)
			}
			events[i].File, events[i].Line = "f", i+2
		}
		h, err := Read(&b, "f")
		if err != nil {
			t.Fatal(err)
		}
		if len(events) > 0 && !reflect.DeepEqual(h.Events, events) || len(h.Events) != len(events) {
			t.Fatalf("read %+v, written %+v", h.Events, events)
		}
	})
}

var (
	drawn   = rapid.StringN(1, 9, -1)
	version = rapid.Custom(func(t *rapid.T) *Version {
		return &Version{
			Absent: rapid.Bool().Draw(t, "absent"), Fence: rapid.Int64Range(0, most).Draw(t, "fence"),
			Beat:    rapid.Int64Range(0, most).Draw(t, "beat"),
			Attempt: rapid.String().Draw(t, "attempt"), Holder: rapid.String().Draw(t, "holder"), TTLMS: rapid.Int64Range(0, maxSpan).Draw(t, "ttl"),
		}
	})
)

// drawEvents draws operations and notes that a reader must accept of the harness: ends
// after their invokes, in any interleaving.
func drawEvents(t *rapid.T) []Event {
	var events []Event
	var open []Event
	id := int64(0)
	for range rapid.IntRange(0, 20).Draw(t, "events") {
		switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
		case kind == 0:
			id++
			e := Event{
				Proc: "harness/" + rapid.StringMatching(`c[0-9]`).Draw(t, "client"), ID: id, Type: Invoke, Op: OpRenew,
				Key: drawn.Draw(t, "key"), From: version.Draw(t, "from"), To: version.Draw(t, "to"),
			}
			events, open = append(events, e), append(open, e)
		case kind == 1 && len(open) > 0:
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			inv := open[i]
			open = append(open[:i:i], open[i+1:]...)
			e := Event{Proc: inv.Proc, ID: inv.ID, Op: inv.Op, Key: inv.Key, Type: rapid.SampledFrom([]Type{OK, Fail, Unknown}).Draw(t, "end")}
			e.Sends = rapid.SliceOfN(rapid.Int64Range(1, maxInstant), 1, 3).Draw(t, "sends")
			if e.Type != OK {
				e.Row, e.Error, e.ServerTimeout = version.Draw(t, "row"), rapid.String().Draw(t, "error"), rapid.Bool().Draw(t, "server timeout")
			}
			events = append(events, e)
		default:
			v := rapid.Int64().Draw(t, "value")
			events = append(events, Event{
				Proc: Harness, Type: Note, Op: NoteLedger, Key: drawn.Draw(t, "resource"),
				Details: &Details{Ledger: &LedgerEntry{
					Seq: rapid.Int64Range(1, most).Draw(t, "seq"), Kind: LedgerAccept, Issuer: drawn.Draw(t, "issuer"),
					Token: rapid.Int64Range(1, most).Draw(t, "token"), EffectKey: drawn.Draw(t, "effect"), Value: &v,
				}},
			})
		}
	}
	return events
}
