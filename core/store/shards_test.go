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
	if n := op.Bytes(); n != store.RowBytes+15 {
		t.Errorf("an operation has %d bytes", n)
	}
	if n := (store.Batch{Ops: []store.Op{op, op}}).Bytes(); n != 2*op.Bytes() {
		t.Errorf("a batch of two has %d bytes", n)
	}
	if n := (store.InboxRow{ID: "1", Nonce: "12", Body: []byte("123")}).Bytes(); n != store.RowBytes+6 {
		t.Errorf("an inbox row has %d bytes", n)
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
