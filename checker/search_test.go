package checker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker/linear"
	"fencepost/checker/past"
	"fencepost/harness/record/history"
	"fencepost/internal/race"
)

// script builds a small history by hand: lock rows only.
type script struct {
	h    history.History
	ids  map[string]int64
	line int
}

func newScript() *script {
	s := &script{ids: map[string]int64{}}
	s.h.Headers = []history.Header{{Format: history.Format, Run: "script", Proc: "w1.1"}}
	return s
}

func (s *script) event(ts int64, e history.Event) {
	s.line++
	e.TS, e.File, e.Line = ts, "script.jsonl", s.line
	s.h.Events = append(s.h.Events, e)
}

// cas adds a CAS from invoke to end.
func (s *script) cas(proc string, op history.Op, from, to history.Version, inv, end int64, outcome history.Type, server bool) {
	life := history.Life(proc)
	s.ids[life]++
	e := history.Event{Proc: proc, ID: s.ids[life], Type: history.Invoke, Op: op, Key: "L", From: &from, To: &to}
	s.event(inv, e)
	s.event(end, history.Event{Proc: proc, ID: e.ID, Type: outcome, Op: op, Key: "L", ServerTimeout: server, Sends: []int64{inv}})
}

func (s *script) read(proc string, row history.Version, inv, end int64) {
	life := history.Life(proc)
	s.ids[life]++
	e := history.Event{Proc: proc, ID: s.ids[life], Type: history.Invoke, Op: history.OpRead, Key: "L"}
	s.event(inv, e)
	e.Type, e.Row = history.OK, &row
	s.event(end, e)
}

// reject adds an acquire from a version that was rejected and shown the row.
func (s *script) reject(proc string, from, row history.Version, inv, end int64) {
	to := history.Version{Fence: from.Fence + 1, Attempt: fmt.Sprint("r", s.line), Holder: proc, TTLMS: 1000}
	s.cas(proc, history.OpAcquire, from, to, inv, end, history.Fail, false)
	s.h.Events[len(s.h.Events)-1].Row = &row
}

func (s *script) check(t *testing.T, dir string) *Result {
	t.Helper()
	s.event(s.h.Events[len(s.h.Events)-1].TS+1, history.Event{Proc: "w1.1", Type: history.Note, Op: history.NoteExit})
	e := newEdit(&s.h) // sorts
	return Check(context.Background(), e.h, Options{Dir: dir})
}

func propertyOf(r *Result, id string) Property {
	for _, p := range r.Properties {
		if p.ID == id {
			return p
		}
	}
	return Property{}
}

var (
	heldA = history.Version{Fence: 1, Attempt: "a", Holder: "w1.1/c1", TTLMS: 1000}
	freeA = history.Version{Fence: 1, Beat: 1, Attempt: "b"}
	heldB = history.Version{Fence: 2, Attempt: "c", Holder: "w1.1/c2", TTLMS: 1000}
	seal  = history.Version{Fence: 3, Attempt: "z"}
)

// resurrected is a release that is given up, a read that does not show it, and an acquire
// that finds it all the same.
func resurrected(server bool, readFrom, readEnd int64) *script {
	s := newScript()
	s.cas("w1.1/c1", history.OpAcquire, past.NoRow, heldA, 10, 20, history.OK, false)
	s.cas("w1.1/c1", history.OpRelease, heldA, freeA, 30, 40, history.Unknown, server)
	s.read("w1.1/c1", heldA, readFrom, readEnd)
	s.cas("w1.1/c2", history.OpAcquire, freeA, heldB, 70, 80, history.OK, false)
	s.cas("harness", history.OpSeal, heldB, seal, 90, 95, history.OK, false)
	return s
}

// TestResurrectedWrite is CASSANDRA-12126: a release times out at its
// coordinator, a SERIAL read then sees the lock still held, and later the
// release surfaces and lets another in. With open unknowns that is legal.
func TestResurrectedWrite(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		server   bool // the coordinator answered with the timeout
		readEnd  int64
		readFrom int64
		bounded  string
	}{
		{"coordinator's timeout, read after it", true, 60, 50, "Illegal"},
		{"coordinator's timeout, read beside it", true, 60, 35, "Ok"},
		{"client's timeout", false, 60, 50, "Ok"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := resurrected(tc.server, tc.readFrom, tc.readEnd)
			dir := t.TempDir()
			p := propertyOf(s.check(t, dir), "P2")
			if p.Encodings["open"] != "Ok" || p.Encodings["bounded"] != tc.bounded {
				t.Fatalf("encodings %v, want open Ok, bounded %s", p.Encodings, tc.bounded)
			}
			if tc.bounded == "Ok" {
				if p.Status != StatusPass {
					t.Fatalf("%s: %v", p.Status, p.Violations)
				}
				return
			}
			if p.Status != StatusFail || p.Count != 1 || !strings.Contains(p.Violations[0].Message, "bounded encoding") {
				t.Fatalf("%s: %+v", p.Status, p.Violations)
			}
			// The window is the three operations that contradict each other.
			if n := len(p.Violations[0].Events); n > 6 {
				t.Errorf("%d events in the window", n)
			}
			if _, err := os.Stat(filepath.Join(dir, p.Visualization)); err != nil || p.Visualization == "" {
				t.Errorf("visualization %q: %v", p.Visualization, err)
			}
		})
	}
}

// TestResurrectionSeenByRejection: the same anomaly seen by a rejected CAS.
func TestResurrectionSeenByRejection(t *testing.T) {
	t.Parallel()
	s := newScript()
	s.cas("w1.1/c1", history.OpAcquire, past.NoRow, heldA, 10, 20, history.Unknown, true)
	s.reject("w1.1/c3", history.Version{Fence: 9, Attempt: "q", Holder: "w1.1/c3", TTLMS: 1000}, past.NoRow, 50, 60)
	s.cas("w1.1/c1", history.OpRelease, heldA, freeA, 70, 75, history.OK, false)
	s.cas("harness", history.OpSeal, freeA, seal, 90, 95, history.OK, false)
	p := propertyOf(s.check(t, ""), "P2")
	if p.Encodings["open"] != "Ok" || p.Encodings["bounded"] != "Illegal" {
		t.Fatalf("encodings %v", p.Encodings)
	}
}

// TestManyUnknowns: the chain settles them, so a wrong history with dozens of
// unknown writes is still refuted, where Porcupine alone would time out.
func TestManyUnknowns(t *testing.T) {
	t.Parallel()
	s := newScript()
	row := past.NoRow
	for i := range int64(60) {
		at := 100 * (i + 1)
		next := history.Version{Fence: i + 1, Attempt: string(rune('A' + i)), Holder: "w1.1/c1", TTLMS: 1}
		lost := history.Version{Fence: i + 1, Attempt: "lost" + string(rune('A'+i)), Holder: "w1.1/c2", TTLMS: 1}
		outcome := history.OK
		if i%2 == 0 {
			outcome = history.Unknown
		}
		s.cas("w1.1/c2", history.OpAcquire, row, lost, at, at+10, history.Unknown, false)
		s.cas("w1.1/c1", history.OpAcquire, row, next, at+20, at+30, outcome, false)
		if i == 55 {
			s.read("w1.1/c3", history.Version{Fence: 3, Attempt: "C", Holder: "w1.1/c1", TTLMS: 1}, at+40, at+50)
		}
		row = next
	}
	s.cas("harness", history.OpSeal, row, history.Version{Fence: 1000, Attempt: "z"}, 9000, 9001, history.OK, false)
	begin := time.Now()
	p := propertyOf(s.check(t, ""), "P2")
	if p.Status != StatusFail || p.Encodings["open"] != "Illegal" || !strings.Contains(p.Violations[0].Message, "stale SERIAL read") {
		t.Fatalf("%s %v %+v", p.Status, p.Encodings, p.Violations)
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("took %s", d)
	}
}

// TestSegments: partitions that are cut are judged in all of their segments.
func TestSegments(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	cfg := simConfig{seed: 5, workers: 2, clients: 1, locks: 1, ttl: 200 * time.Millisecond, length: 6 * time.Minute, noise: 0.02}
	h := simulate(cfg)
	a := past.New(h, false)
	for _, pt := range []*linear.Partition{linear.OfRow(a.Rows[0], false, true), linear.OfSink(a.Sinks[0], true, true)} {
		if n := len(slices.Collect(pt.Segments)); n < 3 {
			t.Fatalf("%s: %d operations in %d segments", pt.Name, pt.Size, n)
		}
	}
	if r := Check(context.Background(), h, Options{Dir: t.TempDir()}); r.Verdict != Pass {
		t.Fatalf("%s: %s", r.Verdict, r.Summary)
	}
	// Both lie behind many cuts.
	e := newEdit(h)
	gets := e.all(history.OpGet, history.OK)
	get := gets[len(gets)*9/10]
	get.end.Value = ptr(*get.end.Value - 1)
	var old *history.Version
	for _, p := range e.all(history.OpAcquire, history.Fail) {
		if p.end.Row == nil || p.inv.TS < get.inv.TS {
			continue
		}
		if old != nil && *old != *p.end.Row && old.Fence+3 < p.end.Row.Fence {
			p.end.Row = old
			break
		}
		if old == nil {
			old = p.end.Row
		}
	}
	dir := t.TempDir()
	r := Check(context.Background(), e.h, Options{Dir: dir})
	for _, id := range []string{"P2", "P4"} {
		p := propertyOf(r, id)
		if p.Status != StatusFail || p.Count != 1 || len(p.Violations[0].Events) == 0 {
			t.Fatalf("%s: %s %v %+v", id, p.Status, p.Encodings, p.Violations)
		}
		t.Logf("%s %d events", p.Violations[0].Message, len(p.Violations[0].Events))
		if info, err := os.Stat(filepath.Join(dir, p.Visualization)); err != nil || p.Visualization == "" || info.Size() > linear.MaxVisualKB<<10 {
			t.Errorf("visualization %q: %v", p.Visualization, err)
		}
	}
}

// TestVisualization: a passing run has one page of each kind, of bounded size,
// with the fault windows in it.
func TestVisualization(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	dir := t.TempDir()
	cfg := small(1)
	cfg.length = 5 * time.Minute
	r := Check(context.Background(), simulate(cfg), Options{Dir: dir})
	if r.Verdict != Pass {
		t.Fatalf("%s: %s", r.Verdict, r.Summary)
	}
	for _, id := range []string{"P2", "P4"} {
		name := propertyOf(r, id).Visualization
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		t.Logf("%s: %s, %d KB", id, name, len(b)>>10)
		if len(b) > 3<<20 || !strings.Contains(string(b), "f1 partition") {
			t.Errorf("%s: %d bytes, fault window missing: %v", name, len(b), !strings.Contains(string(b), "f1 partition"))
		}
	}
	if p := propertyOf(Check(context.Background(), simulate(small(1)), Options{}), "P2"); p.Visualization != "" {
		t.Errorf("visualization %q without a directory", p.Visualization)
	}
}
