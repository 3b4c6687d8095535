//go:build e2e

package e2e

import (
	"slices"
	"testing"

	"fencepost/checker"
	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
)

// onSink is a run with another sink than the default.
type onSink struct{ scenario, contention, system, sink string }

// sinkRuns are what each sink has to show: that it holds under what acts on it, and that
// what gets past its rules is found. make nightly runs them all, under many seeds.
func sinkRuns() []onSink {
	var out []onSink
	for _, sink := range sinks.Names()[1:] {
		out = append(out,
			onSink{"pause-worker", "high", system.Core, sink},
			onSink{"pause-worker", "high", "broken/sink-no-token-check", sink},
			onSink{"kill-worker", "medium", system.Core, sink},
			onSink{"sink-lost-replies", "high", system.Core, sink},
			onSink{"sink-lost-replies", "high", "broken/effect-key-per-send", sink},
			onSink{"sink-outage", "medium", system.Core, sink},
			onSink{"jobs-pause-worker", "medium", system.Core, sink},
		)
	}
	return out
}

// TestSink runs, on even days, one scenario with another sink: sound systems PASS, and a variant that gets
// past the sink's rules turns red by the property that it must.
func TestSink(t *testing.T) {
	day, all := turn(t)
	if day%2 == 1 && !all {
		t.Skip("not its turn: a lock scenario has it, in TestSound")
	}
	runs := sinkRuns()
	r := runs[day/2%len(runs)]
	t.Logf("%+v", r)
	code, res, out := chaos(t, r.scenario, "--system="+r.system, "--contention="+r.contention, "--sink="+r.sink, "--seed=7")
	want, properties := checker.Pass, []string(nil)
	if s, broken := system.FindDirected(r.system, r.scenario, r.contention); broken {
		want, properties = s.Red.Verdict, s.Red.Properties
	}
	if res.Verdict != want || code != want.ExitCode() {
		t.Errorf("exit code %d, verdict %s, want %d and %s\n%s", code, res.Verdict, want.ExitCode(), want, out)
		keep(t, out)
	}
	fired := slices.ContainsFunc(res.Properties, func(p checker.Property) bool {
		return p.Status == checker.StatusFail && slices.Contains(properties, p.ID)
	})
	if len(properties) > 0 && !fired {
		t.Errorf("none of %v fired\n%s", properties, out)
		keep(t, out)
	}
}
