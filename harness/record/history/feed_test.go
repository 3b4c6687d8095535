package history

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestFeed: what was there is passed over, what comes later is read once, also of
// files that come later, and half a line is left until it is whole.
func TestFeed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	add := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
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
