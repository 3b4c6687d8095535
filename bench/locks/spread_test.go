package locks

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/bench"
	"fencepost/bench/benchtest"
	"fencepost/core/clock"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

func TestParseSpreads(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]Spread{"": nil, "16x4": {{16, 4}}, "2x1, 4x8": {{2, 1}, {4, 8}}} {
		if got, err := ParseSpreads(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"16", "x", "16x", "ax4", "16x4,", "16x4x2"} {
		if got, err := ParseSpreads(in); err == nil {
			t.Errorf("%q: %v", in, got)
		}
	}
	for _, p := range [][]Spread{{{0, 4}}, {{4, 0}}, {{100, 1}}, {{64, 64}}, {{4, 4}, {4, 4}}} {
		if _, err := New(Config{Contention: High, Spreads: p}); err == nil {
			t.Errorf("%v is taken", p)
		}
	}
}

func TestSpreadArms(t *testing.T) {
	t.Parallel()
	s, err := New(Config{Contention: High, Threads: []int{1}, TTLs: []time.Duration{6 * time.Second}, Spreads: []Spread{{16, 4}}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, a := range s.plan.Arms {
		ids = append(ids, a.ID)
		if (a.Processes > 0) != strings.Contains(a.ID, "16x4") || a.Processes > 0 && (a.Processes != 16 || a.Threads != 64) {
			t.Errorf("%+v", a)
		}
	}
	if want := []string{"C/1", "W/1", "L/1/6s", "L2/1/6s", "LR/1/6s", "LO/1/6s", "C/16x4", "L/16x4/6s"}; !slices.Equal(ids, want) {
		t.Errorf("arms %v, want %v", ids, want)
	}
	if a, _ := s.plan.Arm("L/16x4/6s"); a.Ceiling != "C/16x4" {
		t.Errorf("%+v", a)
	}
}

// spreadOut runs the arms of two processes with two threads each, and looks at all of it.
func spreadOut(t *testing.T, c Contention, sabotage func(process int, s *sim.Store, l store.Locks) store.Locks) *bench.Result {
	t.Helper()
	cfg := Config{Contention: c, Threads: []int{1}, TTLs: []time.Duration{6 * time.Second}, Spreads: []Spread{{2, 2}}}
	all, rows := make([]json.RawMessage, 2), sim.New()
	arms := [2]*benchtest.Company{benchtest.NewCompany(2), benchtest.NewCompany(2)}
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			session := rows.Connect("p", uint64(i+1))
			session.SetFaults(sim.Faults{Latency: oneWay})
			s, err := New(cfg)
			if err != nil {
				t.Error(err)
				return
			}
			env := &bench.Env{Locks: sabotage(i+1, rows, session), Process: i + 1, Clock: clock.Go()}
			if err := s.Open(t.Context(), env); err != nil {
				t.Error(err)
			}
			for k, id := range []string{"C/2x2", "L/2x2/6s"} {
				a, _ := s.plan.Arm(id)
				a.Threads = 2
				subject, err := s.Subject(a, uint64(i+1))
				if err != nil {
					t.Error(err)
					return
				}
				sample, err := subject.Window(t.Context(), bench.Window{Arm: a, Round: 1, Length: time.Second, First: 2 * i, Company: arms[k]})
				if err != nil || sample.OK == 0 || slices.Min(sample.PerThread) == 0 {
					t.Errorf("process %d, %s: %v, %v", i+1, id, sample.PerThread, err)
				}
				if err := subject.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if all[i], err = json.Marshal(s.Export()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	session := rows.Connect("all", 9)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.env, s.ceiling, s.cycles = &bench.Env{Locks: session}, NewCeiling(session, time.Second), NewCycles()
	r := &bench.Result{Suite: s, Design: s.Design()}
	if err := s.Import(all); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func honest(_ int, _ *sim.Store, l store.Locks) store.Locks { return l }

// TestSpread: processes contend for the same rows, or have rows of their own, and together
// nothing is missing.
func TestSpread(t *testing.T) {
	t.Parallel()
	for c, rows := range map[Contention]string{Low: "4 locks", High: "1 locks"} {
		synctest.Test(t, func(t *testing.T) {
			r := spreadOut(t, c, honest)
			notes := strings.Join(r.Notes, "\n")
			if len(r.Violations) > 0 || !strings.Contains(notes, rows) {
				t.Errorf("%s: violations %q, notes %q", c, r.Violations, notes)
			}
		})
	}
}

// own are locks that another process knows nothing of.
type own struct {
	store.Locks
	name string
}

func (o own) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	return o.Locks.Read(ctx, o.name+resource, serial)
}

func (o own) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	return o.Locks.CAS(ctx, o.name+resource, from, to, copyNo)
}

// TestSpreadUnsafe: each process keeps its promises, and all together do not.
func TestSpreadUnsafe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := spreadOut(t, High, func(process int, _ *sim.Store, l store.Locks) store.Locks {
			if process == 2 {
				return own{l, "other "}
			}
			return l
		})
		found := strings.Join(r.Violations, "\n")
		for _, want := range []string{"was handed out twice, by processes 1 and 2", "C/2x2#1/0: the row shows", "L/2x2/6s#1/0: the row shows"} {
			if !strings.Contains(found, want) {
				t.Errorf("violations lack %q", want)
			}
		}
	})
}

func TestHoldsTogether(t *testing.T) {
	t.Parallel()
	sure := func(process int, token int64, from, until time.Duration) hold {
		return hold{Token: token, From: from, Until: until, Valid: true, process: process}
	}
	for _, c := range []struct {
		name  string
		holds []hold
		want  string // part of the only violation; "" for none
	}{
		{"in turn", []hold{sure(1, 1, 0, 5), sure(2, 2, 6, 9), sure(1, 3, 10, 12)}, ""},
		{"granted at the instant at which the other was last certain", []hold{sure(1, 1, 0, 5), sure(2, 2, 5, 9)}, ""},
		{"with gaps", []hold{sure(1, 1, 0, 5), sure(2, 7, 6, 9)}, ""},
		{"a late comer whose lease has ended", []hold{sure(1, 2, 5, 9), {Token: 1, From: 10, Until: 10, process: 2}}, ""},
		{"one that ended while another was granted", []hold{{Token: 1, From: 2, Until: 2, process: 1}, sure(2, 2, 1, 9)}, ""},
		{"in two processes", []hold{sure(1, 1, 0, 5), sure(2, 1, 6, 9)}, "token 1 was handed out twice, by processes 1 and 2"},
		{"in two processes, to a late comer", []hold{sure(1, 1, 0, 5), {Token: 1, From: 6, Until: 6, process: 2}}, "token 1 was handed out twice"},
		{"at once", []hold{sure(1, 1, 0, 5), sure(2, 2, 4, 9)}, "process 2 holds it with token 2 while process 1 still does with token 1"},
		{"within another's", []hold{sure(1, 1, 0, 50), sure(2, 2, 4, 9)}, "process 2 holds it with token 2 while process 1 still does with token 1"},
		{"at once with one before the last", []hold{sure(1, 1, 0, 50), sure(1, 2, 1, 2), sure(2, 3, 40, 60)}, "process 2 holds it with token 3 while process 1 still does with token 1"},
		{"falling", []hold{sure(1, 7, 0, 5), sure(2, 6, 8, 9)}, "process 2 was handed out token 6 8ns after process 1 token 7"},
	} {
		k := &keyAudit{name: "k", holds: slices.Clone(c.holds)}
		slices.Reverse(k.holds)
		k.together()
		if c.want == "" && len(k.violations) > 0 || c.want != "" && (len(k.violations) != 1 || !strings.Contains(k.violations[0], c.want)) {
			t.Errorf("%s: %q, want %q", c.name, k.violations, c.want)
		}
		if !slices.IsSorted(k.tokens) || len(k.tokens) == 0 {
			t.Errorf("%s: tokens %v", c.name, k.tokens)
		}
	}
}

// TestAuditsTogether: a change that one process was told of and the row does not show.
func TestAuditsTogether(t *testing.T) {
	t.Parallel()
	line := func(changes, doubts int64, violations ...string) []keyLine {
		return []keyLine{{Key: "k", Changes: changes, Doubts: doubts, Violations: violations}}
	}
	for _, c := range []struct {
		name string
		a, b []keyLine
		made int64
		want string
	}{
		{"all of them", line(3, 0), line(4, 0), 7, ""},
		{"and what is unknown", line(3, 1), line(4, 1), 9, ""},
		{"one lost", line(3, 0), line(4, 0), 6, "shows 6 changes; 7 were acknowledged"},
		{"one too many", line(3, 0), line(4, 1), 9, "shows 9 changes; 7 were acknowledged and 1"},
		{"what a process found", line(3, 0), line(4, 0, "it is wrong"), 7, "process 2: it is wrong"},
	} {
		a := newAudit()
		a.add(1, c.a)
		a.add(2, c.b)
		a.together()
		if err := a.verifyRows(t.Context(), fixedRows{rows: map[string]*store.Version{"k": {Fence: c.made}}}, grants); err != nil {
			t.Fatal(err)
		}
		got := a.found()
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestHold: what a holder notes of its lease.
func TestHold(t *testing.T) {
	t.Parallel()
	now := time.Duration(0)
	a := newAudit()
	a.now = func() time.Duration { now++; return now }
	k := a.key("k")
	first, second, third := &fakeLease{token: 1}, &fakeLease{token: 2, ended: true}, &fakeLease{token: 3}
	k.enter(first)
	k.enter(second)
	k.leave(second)
	k.leave(first)
	k.enter(third)
	third.ended = true
	k.leave(third)
	want := []hold{{Token: 1, From: 1, Until: 4, Valid: true}, {Token: 2, From: 2, Until: 2}, {Token: 3, From: 5, Until: 5, Valid: true}}
	if got := a.export()[0].Holds; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
