package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/fault"
	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/scenario"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/own"
	"fencepost/harness/target/system"
	"fencepost/harness/target/workload"
)

// A client that asks at a point is kept waiting there once, and told for how long to work; nobody is
// waited for at a point that is not offered.
func TestTryPoints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	desk, err := own.NewControl("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	links := link.NewFabric(link.Options{})
	rec, err := history.NewRecorder(filepath.Join(dir, "harness.jsonl"), history.Header{Run: "r", Proc: history.Harness})
	if err != nil {
		t.Fatal(err)
	}
	trial := &own.Trial{Offer: &own.Offer{Points: []control.Point{control.EffectSent, control.Holding}}}
	f, err := fleet.New(fleet.Config{
		Own:  &fleet.Own{Program: own.Program{Words: []string{exe, "asks"}, Dir: dir}, Control: desk, Offer: *trial.Offer},
		Sink: "127.0.0.1:9", Workers: 1, Links: links, Recorder: rec, HistoryDir: dir, LogDir: dir,
		Worker: workload.Config{Run: "r", Clients: 1, Locks: []string{"l"}, TTL: 6 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := &plan.Plan{Spec: scenario.Spec{Workload: scenario.Workload{TTL: scenario.Duration(6 * time.Second)}}}
	r := &runner{dir: dir, env: &fault.Env{Fleet: f}, plan: p, opt: Options{Trial: trial}}
	o := &ownRun{locks: locks{workers{r}}, control: desk, links: link.NewFabric(link.Options{})}
	if err := o.tryPoints(t.Context()); err != nil {
		t.Error(err)
	}
	if len(trial.Stands) != 2 || trial.Stands[0].Point != control.Holding || trial.Stands[1].Point != control.EffectSent {
		t.Fatalf("%+v", trial.Stands)
	}
	for i, s := range trial.Stands {
		if s.Proc != "w1.1/c1" || s.Key != "l" || s.Went-s.At < int64(answerAfter) || s.Hold != []time.Duration{3500 * time.Millisecond, 0}[i] {
			t.Errorf("%+v", s)
		}
	}
	if hits := f.Hits(); len(hits) != 2 || hits[0].At != trial.Stands[0].At {
		t.Errorf("%+v", hits)
	}
	if err := f.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(links.Close(), o.close(), rec.Close()); err != nil {
		t.Error(err)
	}
}

// A fault at a point that is not offered comes at an instant, and the plan of the run says so.
func TestAtInstants(t *testing.T) {
	t.Parallel()
	s, err := scenario.Load("kill-worker")
	if err != nil {
		t.Fatal(err)
	}
	for _, offers := range [][]control.Point{nil, {control.Holding}} {
		p, err := plan.New(*s, 1, "exec:true")
		if err != nil {
			t.Fatal(err)
		}
		r := &runner{dir: t.TempDir(), plan: p}
		o := &ownRun{locks: locks{workers{r}}}
		if err := o.atInstants(own.Offer{Points: offers}); err != nil {
			t.Fatal(err)
		}
		if kept := p.Steps[0].On != nil; kept != slices.Contains(offers, control.Holding) {
			t.Errorf("offered %v, kept %v", offers, kept)
		}
		if stored, err := plan.Read(filepath.Join(r.dir, rundir.PlanFile)); err != nil || (stored.Steps[0].On == nil) != (p.Steps[0].On == nil) {
			t.Errorf("%v, %+v", err, stored)
		}
	}
}

// Only a program of a user's own can be mistaken in its contract, and an interruption is nobody's.
func TestOfProgram(t *testing.T) {
	t.Parallel()
	failed := errors.New("exit status 3")
	var m *own.Mistake
	theirs := &runner{opt: Options{System: system.System{Command: []string{"true"}}}}
	if err := theirs.ofProgram(own.MistakeSetup, failed); !errors.As(err, &m) || m.About != own.MistakeSetup || err.Error() != "exit status 3" || !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if err := theirs.ofProgram(own.MistakeSetup, t.Context().Err()); err != nil {
		t.Error(err)
	}
	if err := (&runner{}).ofProgram(own.MistakeSetup, failed); err != failed {
		t.Errorf("fencepost's own: %v", err)
	}
}
