package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"fencepost/harness/record/history"
	"fencepost/harness/scenario"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
	"fencepost/harness/target/system/lockperjob"
)

// Faults of the sink's process need a sink that has one.
func TestSuitsSink(t *testing.T) {
	t.Parallel()
	core, err := system.Find(system.Core)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kill-sink", "pause-sink"} {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for sink, want := range map[string]string{sinks.HTTP: "", sinks.Postgres: "", sinks.Cassandra: "needs a sink that is a separate process, such as --sink=http"} {
			s.Workload.Sink = sink
			if err := Suits(s, core); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s on %q: %v, want %q", name, sink, err, want)
			}
		}
	}
}

// Every known-broken variant, and every hole of a design, names a scenario that exists
// and that it can be run by; no two have the same runs.
func TestVariantsNameScenarios(t *testing.T) {
	t.Parallel()
	for _, v := range system.Directed() {
		s, err := scenario.Load(v.Red.Scenario)
		if err == nil {
			err = Suits(s, v)
		}
		if err != nil {
			t.Errorf("%s: %v", v.Label(), err)
		}
		if found, _ := system.FindDirected(v.Name, v.Red.Scenario, v.Red.Contention); found.Label() != v.Label() {
			t.Errorf("the runs of %s are those of %s", v.Label(), found.Label())
		}
	}
}

// The scheduler that a system names is the one that workers know, and what it does
// not come to are points that a scenario may demand.
func TestLockPerJob(t *testing.T) {
	t.Parallel()
	s, err := system.Find(lockperjob.Name)
	if err != nil || s.Scheduler != lockperjob.Name || s.Binary != "worker" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, point := range s.Unreached {
		if !slices.Contains(scenario.MustPoints, point) {
			t.Errorf("%q is no point that a scenario can demand", point)
		}
	}
	all := history.Expect{Must: []string{"retry", "rescue", "dlq"}, Sometimes: []string{"resend", "duplicate"}, Workers: 4}
	if x := Demanded(all, s); !slices.Equal(x.Must, []string{"retry", "dlq"}) || !slices.Equal(x.Sometimes, []string{"duplicate"}) || x.Workers != 4 {
		t.Errorf("demanded of it: %+v", x)
	}
	core, err := system.Find(system.Core)
	if x := Demanded(all, core); err != nil || !reflect.DeepEqual(x, all) {
		t.Errorf("demanded of the core: %+v, %v", x, err)
	}
	steady, err := scenario.Load("steady")
	if err != nil {
		t.Fatal(err)
	}
	if err := Suits(steady, s); err == nil {
		t.Error("it runs locks")
	}
}
