// Package docpage keeps tables in docs equal to the lists that they are made of: a test beside
// each list calls Check, and make docs, which calls these tests with -update, writes them.
package docpage

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write the tables in docs")

// Check reports that docs/FILE has another table than this between the marks of its name, or
// with -update writes it.
func Check(t *testing.T, file, name, table string) {
	t.Helper()
	path := filepath.Join(root(t), "docs", file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+": written by make docs -->\n", "<!-- /"+name+" -->"
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("docs/%s has no place between %q and %q", file, begin, end)
	}
	switch want := "\n" + table + "\n"; {
	case old == want:
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/%s is stale: make docs. Its table must be\n%s", file, table)
	}
}

// Row is a row of a table in Markdown.
func Row(cells ...string) string {
	for n, c := range cells {
		cells[n] = strings.ReplaceAll(c, "|", "\\|")
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// root is the directory of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("no go.mod above the working directory: %v", err)
	return ""
}

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
