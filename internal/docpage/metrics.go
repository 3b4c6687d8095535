package docpage

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics checks the table of metrics in docs/FILE. All that are defined need a series, as
// labels are read from it; those of the Go runtime and the process are left out.
func Metrics(t *testing.T, file string, g prometheus.Gatherer, defined int) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	table := "| metric | type | labels | |\n|---|---|---|---|\n"
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "go_") || strings.HasPrefix(f.GetName(), "process_") {
			continue
		}
		defined--
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		table += Row("`"+f.GetName()+"`", strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
	}
	if defined != 0 {
		t.Fatalf("%d metrics more are defined than have series: the test must make one of each", defined)
	}
	Check(t, file, "metrics", table)
}
