package seal

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"fencepost/core/sink"
	boltsink "fencepost/core/sink/bolt"
	"fencepost/harness/record/history"
)

// sealing can seal the resources of a real sink.
func sealing(t *testing.T) (r *Sealer, s *boltsink.Sink, recorded func() *history.History) {
	t.Helper()
	dir := t.TempDir()
	s, err := boltsink.Open(filepath.Join(dir, "sink.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(dir, "harness.jsonl")
	rec, err := history.NewRecorder(file, history.Header{Run: "r", Proc: history.Harness})
	if err != nil {
		t.Fatal(err)
	}
	return &Sealer{Rec: rec}, s, func() *history.History {
		t.Helper()
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		h, err := history.ReadFiles(file)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
}

// problems are what the sealing tells.
func (s *Sealer) told() (out []string) {
	s.Problem = func(_ string, args ...any) {
		out = append(out, args[0].(string)+": "+args[2].(error).Error())
	}
	s.Tell()
	return out
}

// Whatever a broken system has done to a resource, its value and its ledger are read.
func TestResourcesAreReadWhateverIsWrongWithThem(t *testing.T) {
	t.Parallel()
	const own, other = "shard/q/1", "shard/q/0"
	for name, c := range map[string]struct {
		issuer  string
		tokens  []int64
		entries int
		seen    int64
		told    string
	}{
		"never used":                 {"", nil, 1, 5, ""},
		"as it should be":            {own, []int64{3}, 2, 5, ""},
		"raised above the seal":      {own, []int64{8}, 2, 9, ""},
		"bound to another issuer":    {other, []int64{3, 4}, 3, 5, "bound to another issuer"},
		"with the highest token":     {own, []int64{sink.MaxToken}, 1, sink.MaxToken, ""},
		"of another, at the highest": {other, []int64{sink.MaxToken}, 1, sink.MaxToken, "bound to another issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s, recorded := sealing(t)
			for _, token := range c.tokens {
				if _, err := s.Raise(t.Context(), "res", c.issuer, token); err != nil {
					t.Fatal(err)
				}
			}
			r.Resource(t.Context(), s, "res", own, 5)
			told := strings.Join(r.told(), "; ")
			if (told == "") != (c.told == "") || !strings.Contains(told, c.told) {
				t.Errorf("told %q, want %q", told, c.told)
			}
			h := recorded()
			entries, final := 0, (*history.Event)(nil)
			for i := range h.Events {
				e := &h.Events[i]
				if e.Op == history.NoteLedger {
					entries++
				}
				if e.Op == history.OpGet && e.Type == history.OK {
					final = e
				}
			}
			if entries != c.entries || final == nil || final.Seen != c.seen {
				t.Errorf("%d entries of the ledger, the final read is %+v; want %d, seen %d", entries, final, c.entries, c.seen)
			}
			for _, o := range h.Operations() {
				if o.End.Type == "" {
					t.Errorf("%s has no end", o.Invoke.Op)
				}
			}
		})
	}
}

// noLedger is a sink whose ledger cannot be read any more.
type noLedger struct{ sink.Sink }

func (noLedger) Ledger(context.Context, string) ([]sink.Entry, error) {
	return nil, context.DeadlineExceeded
}

// Without its ledger a resource has no final read: what is missing there would look lost.
func TestNoFinalReadWithoutTheLedger(t *testing.T) {
	t.Parallel()
	r, s, recorded := sealing(t)
	r.Resource(t.Context(), noLedger{s}, "res", "issuer", 5)
	if told := strings.Join(r.told(), "; "); !strings.Contains(told, "ledger of res") {
		t.Errorf("told %q", told)
	}
	h := recorded()
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == history.OpGet {
			t.Errorf("a %s of %s", e.Type, e.Key)
		}
	}
}

// What cannot be sealed at all is told once for all of its kind.
func TestTroublesAreToldByKind(t *testing.T) {
	t.Parallel()
	r, s, recorded := sealing(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		r.Resource(over, s, "r", "issuer", 1)
	}
	r.Trouble("shards", errors.New("seal q/0: no answer"))
	r.Trouble("shards", nil)
	told := r.told()
	if len(told) != 2 || !strings.HasPrefix(told[0], "resources of the sink: raise r: ") || told[1] != "shards: seal q/0: no answer" {
		t.Errorf("%q", told)
	}
	recorded()
	if r.troubles[0].n < 3 {
		t.Errorf("%d times", r.troubles[0].n)
	}
}
