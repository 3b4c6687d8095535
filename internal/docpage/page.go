// Package docpage keeps what is generated equal to what it is made of: a test beside each list
// calls Check for a table in docs, or File for a whole file, and make docs, which calls these
// tests with -update, writes them.
package docpage

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write what is generated")

// Check reports that docs/FILE has another table than this between the marks of its name, or
// with -update writes it. The mark before it may say from what it is made.
func Check(t *testing.T, file, name, table string) {
	t.Helper()
	path := filepath.Join("docs", file)
	text, err := os.ReadFile(filepath.Join(root(t), path))
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+": written by make docs", "<!-- /"+name+" -->"
	before, rest, ok := strings.Cut(string(text), begin)
	from, rest, ok2 := strings.Cut(rest, "-->\n")
	_, after, ok3 := strings.Cut(rest, end)
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has no place between %q and %q", path, begin+" -->", end)
	}
	File(t, path, []byte(before+begin+from+"-->\n\n"+table+"\n"+end+after))
}

// File reports that a file of the repository, named from its root, is another one than this,
// or with -update writes it.
func File(t *testing.T, path string, want []byte) {
	t.Helper()
	full := filepath.Join(root(t), path)
	have, err := os.ReadFile(full)
	switch {
	case err == nil && bytes.Equal(have, want):
	case *update:
		if err := os.WriteFile(full, want, 0o644); err != nil {
			t.Fatal(err)
		}
	case err != nil:
		t.Fatal(err)
	default:
		t.Errorf("%s is stale: make docs", path)
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
