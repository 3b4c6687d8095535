package scenario

import (
	"strings"
	"testing"

	"fencepost/harness/target/sinks"
	"fencepost/harness/target/system"
)

// Faults of the sink's process need a sink that has one.
func TestSuitsSink(t *testing.T) {
	t.Parallel()
	core, err := system.Find(system.Core)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kill-sink", "pause-sink"} {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for sink, want := range map[string]string{sinks.HTTP: "", sinks.Postgres: "", sinks.Cassandra: "needs a sink that is a separate process, such as --sink=http"} {
			s.Workload.Sink = sink
			if err := s.Suits(core); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s on %q: %v, want %q", name, sink, err, want)
			}
		}
	}
}
