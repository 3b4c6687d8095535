package plan

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"fencepost/harness/record/history"
	"fencepost/harness/scenario"
	"fencepost/harness/target/sinks"
)

func writePlan(t interface{ Fatal(...any) }, p *Plan, path string) string {
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every plan of every scenario, at any contention and seed, is the same when it
// is written and read. The two are compared as text: the text is all that a replay has.
func TestPlanRoundTrip(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		spec, err := scenario.Load(rapid.SampledFrom(scenario.Names()).Draw(t, "scenario"))
		if err != nil {
			t.Fatal(err)
		}
		o := scenario.Overrides{Contention: rapid.SampledFrom([]string{scenario.Low, scenario.Medium, scenario.High}).Draw(t, "contention"), Clients: rapid.IntRange(0, 9).Draw(t, "clients"), Sink: rapid.SampledFrom([]string{"", sinks.Cassandra, sinks.HTTP}).Draw(t, "sink")}
		if j := spec.Workload.Jobs; j != nil && j.Orders != nil {
			o.Sink = spec.Workload.Sink // no other can change the shop's tables
		}
		if spec.Drill != "" {
			o = scenario.Overrides{}
		} else if rapid.Bool().Draw(t, "thresholds") {
			spec.Expect.Thresholds = []scenario.Threshold{{Latency: "effect", Quantile: "p95", Phase: history.PhaseFault, TimesBefore: 1.5}, {Latency: "get", Quantile: "max", Phase: history.PhaseBefore, Max: scenario.Bound{TTLs: 0.25, Plus: 1500 * time.Millisecond}}}
		}
		if err := spec.Apply(o); err != nil {
			t.Fatal(err)
		}
		p, err := New(*spec, rapid.Uint64().Draw(t, "seed"), rapid.SampledFrom([]string{"core", "broken/hilo-tokens"}).Draw(t, "system"))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "plan.yaml")
		first := writePlan(t, p, path)
		read, err := Read(path)
		if err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		again := writePlan(t, read, path)
		if again != first {
			t.Fatalf("the plan changed:\n%s\nwas\n%s", again, first)
		}
		if len(read.Expectation().Thresholds) != len(spec.Expect.Thresholds) || len(read.Steps) != len(p.Steps) || len(read.Locks) != len(p.Locks) || read.Seed != p.Seed || read.System != p.System || read.Spec.Workload.Sink != p.Spec.Workload.Sink || o.Sink != "" && p.Spec.Workload.Sink != o.Sink {
			t.Fatalf("read %+v, written %+v", read, p)
		}
		for i, st := range read.Steps {
			w := p.Steps[i]
			if st.Fault != w.Fault || st.At != w.At || st.For != w.For || strings.Join(st.Targets, " ") != strings.Join(w.Targets, " ") ||
				strings.Join(st.IDs, " ") != strings.Join(w.IDs, " ") || st.Seed != w.Seed || (st.On == nil) != (w.On == nil) || st.On != nil && *st.On != *w.On {
				t.Fatalf("step %d: read %+v, written %+v", i, st, w)
			}
		}
	})
}

// The text must hold every exported field of a plan: one marked "-" would get
// lost without the round trip showing it.
func TestPlanTextIsWhole(t *testing.T) {
	t.Parallel()
	spec, err := scenario.Load("pause-worker")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(*spec, 1, "core")
	if err != nil {
		t.Fatal(err)
	}
	b, err := yaml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"version: 1", "seed:", "system:", "scenario:", "steps:", "locks:", "targets:", "point: effect-sent", "worker: w", "for: 10s", "ids:", "contention:", "ttl:"} {
		if !strings.Contains(string(b), key) {
			t.Errorf("the plan lacks %q:\n%s", key, b)
		}
	}
}

func TestBadPlansAreRefused(t *testing.T) {
	t.Parallel()
	spec, err := scenario.Load("pause-worker")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(*spec, 1, "core")
	if err != nil {
		t.Fatal(err)
	}
	good := writePlan(t, p, filepath.Join(t.TempDir(), "plan.yaml"))
	steps := strings.Index(good, "\nsteps:")
	// inSteps edits the drawn steps and leaves the scenario in the plan alone.
	inSteps := func(old, new string) func(string) string {
		return func(s string) string { return s[:steps] + strings.Replace(s[steps:], old, new, 1) }
	}
	replace := func(old, new string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, new, 1) }
	}
	target := p.Steps[0].Targets[0]
	for _, c := range []struct {
		name string
		edit func(string) string
		want string
	}{
		{"unknown sink", replace("contention: medium", "contention: medium\n        sink: redis"), `unknown sink "redis"`},
		{"other version", replace("version: 1", "version: 2"), "plan.yaml:1: version 2; this tool reads version 1"},
		{"no version", replace("version: 1\n", ""), "plan.yaml:1: version 0"},
		{"torn", func(s string) string { return s[:len(s)*2/3] }, "plan.yaml"},
		{"empty", func(string) string { return "" }, "plan.yaml: EOF"},
		{"a list", func(string) string { return "- 1\n" }, "plan.yaml:1: not a plan"},
		{"unknown key", replace("seed: 1", "seed: 1\nsede: 1"), `plan.yaml:3: unknown key "sede"`},
		{"unknown key in a step", inSteps("repeat: 1", "repeet: 1"), `unknown key "repeet"`},
		{"no locks", func(s string) string { return s[:strings.Index(s, "\nlocks:")+1] }, "locks is missing"},
		{"no system", replace("system: core\n", ""), "system is missing"},
		{"locks for other contention", replace("contention: medium", "contention: high"), "10 locks, contention high needs 1"},
		{"bad seed", replace("seed: 1", "seed: -1"), "plan.yaml:2: cannot unmarshal"},
		{"undrawn target", inSteps("- "+target, "- random-worker"), `target "random-worker": a plan has drawn targets`},
		{"no such worker", inSteps("- "+target, "- w9"), "there is no w9 among 3 nodes and 4 workers"},
		{"no such node", func(s string) string {
			return inSteps("worker: "+target, "worker: n4")(inSteps("- "+target, "- w1")(s))
		}, "there is no n4"},
		{"a watched worker beside worker-at-point", inSteps("worker: "+target, "worker: w2"), "its trigger watches all workers"},
		{"ids", inSteps("- f1", "- f1\n        - f2"), "2 ids for 1 injections"},
		{"unknown fault", inSteps("fault: pause-worker", "fault: meteor"), `unknown fault "meteor"`},
		{"no time", inSteps("for: 10s", "for: 0s"), "its duration is zero"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := c.edit(good)
			if text == good {
				t.Fatal("the edit changed nothing")
			}
			path := filepath.Join(t.TempDir(), "plan.yaml")
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Read(path)
			var bad *scenario.InputError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "no-such.yaml")); err == nil {
		t.Error("a missing file was read")
	}
}
