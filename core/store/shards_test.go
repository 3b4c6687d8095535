package store_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"fencepost/core/store"
)

// TestKindsAreStored: the numbers are in the rows of every cluster.
func TestKindsAreStored(t *testing.T) {
	t.Parallel()
	kinds := []store.Kind{store.KindPending, store.KindRunning, store.KindJob, store.KindEnded, store.KindDLQ, store.KindSchedule}
	if want := []store.Kind{1, 2, 3, 4, 5, 6}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
}

// TestKeyOrder: keys are ordered by kind, then place, then id.
func TestKeyOrder(t *testing.T) {
	t.Parallel()
	keys := []store.Key{{Kind: 1, At: 5, ID: "z"}, {Kind: 2, At: 1, ID: "b"}, {Kind: 2, At: 1, ID: "c"}, {Kind: 2, At: 3, ID: "a"}, {Kind: 3, At: 0, ID: "a"}}
	for i, a := range keys {
		for k, b := range keys {
			if a.Less(b) != (i < k) {
				t.Errorf("%s less than %s: %v", a, b, a.Less(b))
			}
		}
	}
}

// TestBytes: every text of an operation counts.
func TestBytes(t *testing.T) {
	t.Parallel()
	op := store.Op{Kind: store.Put, Before: "12345", Row: store.Row{Key: store.Key{ID: "1"}, State: "12", Note: "123", Body: []byte("1234")}}
	if n := op.Bytes(); n != 215 {
		t.Errorf("an operation has %d bytes", n)
	}
	if n := (store.Batch{Ops: []store.Op{op, op}}).Bytes(); n != 2*op.Bytes() {
		t.Errorf("a batch of two has %d bytes", n)
	}
	if n := (store.InboxRow{ID: "1", Nonce: "12", Body: []byte("123")}).Bytes(); n != store.RowBytes+6 {
		t.Errorf("an inbox row has %d bytes", n)
	}
}

// TestRanges: which operations are range deletions, and what each of them takes.
func TestRanges(t *testing.T) {
	t.Parallel()
	key := func(kind store.Kind, at int64, id string) store.Key { return store.Key{Kind: kind, At: at, ID: id} }
	at := store.Row{Key: key(2, 5, "b")}
	upTo := store.Op{Kind: store.DeleteUpTo, Row: at}
	between := store.Op{Kind: store.DeleteBetween, Row: at, Before: "f"}
	within := store.Op{Kind: store.DeleteWithin, Row: at, Below: 9}
	for _, op := range []store.Op{upTo, between, within} {
		if !op.IsRange() {
			t.Errorf("%+v is no range deletion", op)
		}
	}
	for _, kind := range []store.OpKind{store.Put, store.PutNew, store.Delete} {
		if op := (store.Op{Kind: kind, Row: at, Before: "f", Below: 9}); op.IsRange() || op.Takes(at.Key) {
			t.Errorf("%+v is a range deletion", op)
		}
		if kind == (store.Op{}).Kind {
			t.Errorf("an operation of no kind is one of kind %d", kind)
		}
	}
	for k, want := range map[store.Key][3]bool{
		key(2, 4, "a"): {true, false, false},
		key(2, 4, "c"): {true, false, false},
		key(2, 5, "a"): {true, false, false},
		key(2, 5, "b"): {true, false, false},
		key(2, 5, "c"): {true, true, false},
		key(2, 5, "e"): {true, true, false},
		key(2, 5, "f"): {true, false, false},
		key(2, 5, "g"): {true, false, false},
		key(2, 6, "c"): {false, false, true},
		key(2, 8, "z"): {false, false, true},
		key(2, 9, "a"): {false, false, false},
		key(1, 4, "c"): {},
		key(1, 5, "c"): {},
		key(3, 5, "c"): {},
		key(3, 6, "c"): {},
	} {
		if got := [3]bool{upTo.Takes(k), between.Takes(k), within.Takes(k)}; got != want {
			t.Errorf("%s is taken up to, between, within: %v, want %v", k, got, want)
		}
	}
}

func TestDayOf(t *testing.T) {
	t.Parallel()
	for s, want := range map[int64]int{0: 0, 86399: 0, 86400: 1, -1: -1, -86400: -1, -86401: -2, 1_000_000_000: 11574} {
		if got := store.DayOf(time.Unix(s, 0)); got != want {
			t.Errorf("%d s are on day %d, want %d", s, got, want)
		}
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]*store.Error{
		"store: cas: refused for good: EOF": {Op: "cas", Outcome: store.Fail, Permanent: true, Cause: io.EOF},
		"store: cas: not done: EOF":         {Op: "cas", Outcome: store.Fail, Cause: io.EOF},
		"store: cas: outcome unknown: EOF":  {Op: "cas", Permanent: true, Cause: io.EOF},
		"store: not done: EOF":              {Outcome: store.Fail, Cause: io.EOF},
	} {
		if e.Error() != want {
			t.Errorf("%s, want %s", e, want)
		}
	}
}

// TestNoteOf: a long note is cut between two characters, and no shorter than it must be.
func TestNoteOf(t *testing.T) {
	t.Parallel()
	if store.MostNote != 500 {
		t.Errorf("a note has up to %d bytes, and rows of up to 500 are reckoned with", store.MostNote)
	}
	for text, want := range map[string]int{
		"short":                                  5,
		strings.Repeat("a", store.MostNote):      store.MostNote,
		strings.Repeat("a", store.MostNote+1):    store.MostNote,
		strings.Repeat("\u20ac", store.MostNote): store.MostNote - store.MostNote%3,
		"a\xffb":                                 5,
	} {
		if got := store.NoteOf(errors.New(text)); len(got) != want || !utf8.ValidString(got) {
			t.Errorf("%.10q has a note of %d bytes, want %d", text, len(got), want)
		}
	}
}
