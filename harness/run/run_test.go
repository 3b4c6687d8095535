package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/harness/plan"
	"fencepost/harness/record/history"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/harness/scenario"
	"fencepost/harness/target/control"
	"fencepost/harness/target/system"
)

// Every pair of a scenario and a system that suit each other can be run, and no other kinds
// of pairs are there.
func TestTargets(t *testing.T) {
	t.Parallel()
	systems := append(system.Designs(), system.System{Name: "exec:true", Command: []string{"true"}})
	used := map[string]bool{}
	for _, name := range scenario.Names() {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, sys := range systems {
			kind := s.Kind().Name
			if plan.Suits(s, sys) != nil {
				continue
			}
			used[kind+" on "+sys.Design()] = true
			if targets[kind][sys.Design()] == nil {
				t.Errorf("%s suits %s, and nothing runs %s on it", name, sys.Name, kind)
			}
		}
	}
	for kind, designs := range targets {
		for design := range designs {
			if !used[kind+" on "+design] {
				t.Errorf("no scenario has %s on %s", kind, design)
			}
		}
	}
}

// A run of a system that the scenario does not suit is refused before anything is made.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	sys, err := system.Find(system.LockPerJob)
	if err != nil {
		t.Fatal(err)
	}
	steady, err := scenario.Load("steady")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Options{Plan: &plan.Plan{Spec: *steady}, System: sys}); err == nil || !strings.Contains(err.Error(), "has no jobs") {
		t.Errorf("Run: %v", err)
	}
}

// listen returns a teller and what it has told, without a file.
func listen() (*teller, *[]progress.Event) {
	var told []progress.Event
	return newTeller(progress.New(func(e progress.Event) { told = append(told, e) })), &told
}

func TestRatesAreToldEverySecondWithWhatIsInForce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, told := listen()
		cycles := int64(0)
		r.begins(history.PhaseFault)
		r.fault(history.Fault{Name: "partition", Targets: []string{"n1", "n2"}, Action: history.ActionInject})
		r.fault(history.Fault{Name: "kill-node", Targets: []string{"n3"}, Action: history.ActionInject})
		r.watch(func() control.Stats { cycles += 30; return control.Stats{Cycles: cycles, Stale: 2} })
		time.Sleep(1500 * time.Millisecond)
		r.fault(history.Fault{Name: "partition", Targets: []string{"n1", "n2"}, Action: history.ActionHeal})
		r.at("%d of %d locks sealed", 1, 2)
		time.Sleep(time.Second)
		r.unwatch()
		r.unwatch()
		var rates []*progress.Rates
		for _, e := range *told {
			if e.Kind == progress.KindRates {
				rates = append(rates, e.Rates)
			}
		}
		if len(rates) != 2 {
			t.Fatalf("told %+v", *told)
		}
		if a := rates[0]; a.Phase != history.PhaseFault || a.Cycles != 30 || a.PerSecond != 30 || a.Refused != 2 || strings.Join(a.Active, "; ") != "partition n1,n2; kill-node n3" || a.Detail != "" {
			t.Errorf("first %+v", a)
		}
		if b := rates[1]; b.Cycles != 60 || strings.Join(b.Active, "; ") != "kill-node n3" || b.Detail != "1 of 2 locks sealed" {
			t.Errorf("then %+v", b)
		}
	})
}

func TestViolationsAreToldUntilNobodyLooksAnyMore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		last progress.Kind
	}{{nil, progress.KindStep}, {errors.New("it died"), progress.KindProblem}} {
		tell, told := listen()
		looking := make(chan struct{})
		r := &runner{progress: tell, dir: "d", opt: Options{
			Watch: func(ctx context.Context, dir string, found func(progress.Violation)) (time.Duration, error) {
				found(progress.Violation{Property: "P3", Text: dir})
				close(looking)
				<-ctx.Done()
				return time.Second, c.err
			},
		}}
		stop := r.watch()
		<-looking
		stop()
		if es := *told; len(es) != 2 || es[0].Kind != progress.KindViolation || es[0].Violation.Text != "d" || es[1].Kind != c.last {
			t.Errorf("told %+v", es)
		}
	}
}

func TestRunBeginsItsFile(t *testing.T) {
	t.Parallel()
	tell, told := listen()
	dir := t.TempDir()
	if err := tell.begin(dir, rundir.Info{Run: "r", Scenario: "steady", Versions: map[string]string{"paxos_variant": "v2"}}); err != nil {
		t.Fatal(err)
	}
	if err := tell.log.Close(); err != nil {
		t.Fatal(err)
	}
	es, err := progress.Read(dir+"/"+rundir.ProgressFile, 0)
	if err != nil || len(es) != 1 || es[0].Run.Paxos != "v2" || es[0].Run.Dir != dir || (*told)[0].Seq != 1 {
		t.Errorf("%+v, %v", es, err)
	}
}
