package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// adding adds text to the files of a directory.
func adding(t *testing.T, dir string) func(name, text string) {
	return func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFeed: what was there is passed over, what comes later is read once, also of
// files that come later, and half a line is left until it is whole.
func TestFeed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add := adding(t, dir)
	event := func(key string) string {
		return `{"ts":1,"proc":"w1.1/c1","id":1,"type":"invoke","op":"lock","key":"` + key + `"}` + "\n"
	}
	add("w1.1.jsonl", event("before"))
	f, err := NewFeed(dir)
	if err != nil {
		t.Fatal(err)
	}
	next := func(want ...string) {
		t.Helper()
		var got []string
		if err := f.Next(func(e *Event) { got = append(got, e.Key) }); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	next()
	add("w1.1.jsonl", event("a")+event("b")[:20])
	add("w2.1.jsonl", `{"format":"fencepost-history","version":1}`+"\n"+event("c"))
	next("a", "c")
	add("w1.1.jsonl", event("b")[20:]+"nonsense\n")
	add("w2.1.jsonl", event("d"))
	next("b", "d")
	next()
}

func TestTailReadsWhatIsWholeAndRecordedByNow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add := adding(t, dir)
	head := func(proc string) string {
		return string(encode(t, header("r", proc, "b")))
	}
	note := func(proc string, ts int64) string {
		return fmt.Sprintf(`{"ts":%d,"proc":%q,"type":"note","op":"point","point":"holding"}`+"\n", ts, proc)
	}
	tail := NewTail(dir)
	places := func() string {
		t.Helper()
		h, err := tail.SoFar()
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range h.Events {
			out = append(out, fmt.Sprintf("%s:%d@%d", filepath.Base(e.File), e.Line, e.TS))
		}
		return strings.Join(out, " ")
	}
	if got := places(); got != "" {
		t.Errorf("of nothing: %s", got)
	}
	future := Now() + 1<<60
	whole := note("w1.1", 30)
	add("w1.1.jsonl", head("w1.1")+note("w1.1", 10)+note("w1.1", future)+whole[:20])
	add("w2.1.jsonl", "")
	if got := places(); got != "w1.1.jsonl:2@10" {
		t.Errorf("at first: %s", got)
	}
	add("w1.1.jsonl", whole[20:])
	add("w2.1.jsonl", head("w2.1")+note("w2.1", 20))
	if got := places(); got != "w1.1.jsonl:2@10 w2.1.jsonl:2@20 w1.1.jsonl:4@30" {
		t.Errorf("then: %s", got)
	}
	add("w2.1.jsonl", "no event\n")
	if _, err := tail.SoFar(); err == nil || !strings.Contains(err.Error(), "w2.1.jsonl:3") {
		t.Errorf("malformed: %v", err)
	}
}
