package bytetap

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLink(t *testing.T, from, to string) *link.Link {
	t.Helper()
	f := link.NewFabric(link.Options{})
	t.Cleanup(func() { f.Close() })
	l, err := f.Add(link.Spec{From: from, To: to, Listen: "127.0.0.1:0", Upstream: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func forms(words ...string) (out [][]byte) {
	for _, w := range words {
		out = append(out, []byte(w))
	}
	return out
}

// TestFirstWrite: a request is found by its values, in whichever form, in one piece or two, by
// who sent it and since when; never by what was answered.
func TestFirstWrite(t *testing.T) {
	t.Parallel()
	tap := New(nil)
	one, two := newLink(t, "w1", "n1"), newLink(t, "w2", "n1")
	s := tap.Open(one)
	began := history.Now()
	s.Said(link.Up, []byte("SET lock-01 att"))
	if at := tap.FirstWrite("w1", 0, forms("lock-01"), forms("attempt-7")); at != 0 {
		t.Error("half a request is found")
	}
	s.Said(link.Up, []byte("empt-7 NX"))
	first := tap.FirstWrite("w1", 0, forms("lock-01"), forms("attempt-7", "\x00\x07"))
	if first < began {
		t.Errorf("a request in two pieces: %d, it began after %d", first, began)
	}
	s.Said(link.Up, []byte("SET lock-01 attempt-7 NX"))
	if again := tap.FirstWrite("w1", 0, forms("lock-01"), forms("attempt-7")); again != first {
		t.Error("a copy is found before the first")
	}
	if copied := tap.FirstWrite("w1", first+1, forms("lock-01"), forms("attempt-7")); copied <= first {
		t.Error("a copy since then is not found")
	}
	// What was said before is not said again with what follows it.
	s.Said(link.Up, []byte("GET lock-01"))
	later := tap.FirstWrite("w1", first+1, forms("lock-01"), forms("attempt-7"))
	if again := tap.FirstWrite("w1", later+1, forms("lock-01"), forms("attempt-7")); again != 0 {
		t.Error("another request about the lock is taken for that one")
	}
	if at := tap.FirstWrite("w1", 0, forms("lock-01"), forms("")); at != 0 {
		t.Error("a value of no bytes is found")
	}
	s.Said(link.Down, []byte("lock-02 attempt-8"))
	tap.Open(two).Said(link.Up, []byte("lock-03 attempt-9"))
	for _, c := range []struct{ from, name, attempt string }{
		{"w1", "lock-02", "attempt-8"}, {"w1", "lock-03", "attempt-9"}, {"w2", "lock-03", "attempt-7"}, {"w3", "lock-01", "attempt-7"},
	} {
		if at := tap.FirstWrite(c.from, 0, forms(c.name), forms(c.attempt)); at != 0 {
			t.Errorf("%v is found", c)
		}
	}
	// Values of two connections are not one request.
	other := tap.Open(one)
	other.Said(link.Up, []byte("lock-04"))
	s.Said(link.Up, []byte(" attempt-4"))
	if at := tap.FirstWrite("w1", 0, forms("lock-04"), forms("attempt-4")); at != 0 {
		t.Error("two connections make a request")
	}
	s.Ended()
}

// TestFull: what is not kept is told.
func TestFull(t *testing.T) {
	t.Parallel()
	var told []string
	tap := New(func(l *link.Link, reason error) { told = append(told, l.Name()+": "+reason.Error()) })
	tap.kept = most - 10
	s := tap.Open(newLink(t, "w1", "n1"))
	s.Said(link.Up, []byte(strings.Repeat("x", 11)))
	s.Said(link.Up, []byte(strings.Repeat("x", 11)))
	if len(told) != 1 || !strings.HasPrefix(told[0], "w1->n1: it carried more") {
		t.Errorf("%q", told)
	}
}
