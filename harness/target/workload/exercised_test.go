package workload_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/lock"
	"fencepost/core/schedule"
	"fencepost/core/scheduler"
	"fencepost/core/sink"
	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
	"fencepost/internal/docpage"
)

// exercise is how runs exercise a command or an option of the product. All of by, event, judged
// and mutant are given, or why not says why no run needs it, or what is still missing.
type exercise struct {
	what string
	// by are scenarios, and sets of workload parameters, whose runs use it: a part of them.
	by string
	// event records its outcome, and judged are the properties that hold it against the rest.
	event, judged string
	// mutant is the one whose directed run turns red by it.
	mutant string
	why    string
}

// TestWhatRunsExerciseIsCurrent: each command and option that a user of the core has is in the table,
// with what exercises it or why nothing does, and nothing else is; docs/workloads.md shows the table.
func TestWhatRunsExerciseIsCurrent(t *testing.T) {
	product := map[string][]string{
		"`lock.Client`":                   methods[*lock.Client](),
		"`lock.Lease`":                    methods[*lock.Lease](),
		"`scheduler.Scheduler`":           methods[*scheduler.Scheduler](),
		"`engine.ScheduleCommand`, verbs": constants(t, "engine", "Verb"),
		"`engine.Retention`":              fields[engine.Retention](),
		"`job.Job`":                       slices.Concat(fields[job.Job](), constants(t, "job", "Rescue", "OnFailure")),
		"`job.RetryPolicy`":               fields[job.RetryPolicy](),
		"`schedule.Definition`":           slices.Concat(fields[schedule.Definition](), constants(t, "schedule", "Kind", "Overlap", "Misfire")),
		"`sink.Sink`":                     methods[sink.Sink](),
		"HTTP API":                        endpoints(t),
	}
	page := "| command or option | exercised by | recorded as | judged by | mutant |\n|---|---|---|---|---|\n"
	for _, of := range slices.Sorted(maps.Keys(product)) {
		rows := exercised[of]
		page += docpage.Row("**"+of+"**", "", "", "", "")
		for i, r := range rows {
			if !slices.Contains(product[of], r.what) || slices.ContainsFunc(rows[:i], func(x exercise) bool { return x.what == r.what }) {
				t.Errorf("%s: the row of %s is of nothing that there is, or the second one", of, r.what)
			}
			if err := r.check(); err != nil {
				t.Errorf("%s: %s: %v", of, r.what, err)
			}
			page += r.row()
		}
		for _, what := range product[of] {
			if !slices.ContainsFunc(rows, func(r exercise) bool { return r.what == what }) {
				t.Errorf("%s: no run is known to exercise %s: add a row to exercised, with the workload's part or the reason", of, what)
			}
		}
	}
	if len(exercised) != len(product) {
		t.Errorf("rows of %d parts of the product, which has %d", len(exercised), len(product))
	}
	docpage.Check(t, "workloads.md", "exercised", page)
}

// check says what of a row is missing or unknown. The mutant's directed run must be one of those that
// exercise the command, and one of the properties must find it.
func (r exercise) check() error {
	cells := []string{r.by, r.event, r.judged, r.mutant}
	if r.why != "" && r.by+r.mutant == "" {
		return nil
	}
	if slices.Contains(cells[:3], "") || (r.mutant == "") == (r.why == "") {
		return fmt.Errorf("an empty cell in %q, and no reason", cells)
	}
	for _, name := range strings.Fields(r.by) {
		_, noSet := scenario.FindSet(name)
		if _, err := scenario.Load(name); err != nil && noSet != nil {
			return fmt.Errorf("%s is neither a scenario nor a set", name)
		}
	}
	if r.mutant == "" {
		return nil
	}
	all := system.Broken()
	i := slices.IndexFunc(all, func(s system.System) bool { return s.Label() == r.mutant })
	if i < 0 {
		return fmt.Errorf("no mutant %s", r.mutant)
	}
	red := all[i].Red
	if !slices.Contains(strings.Fields(r.by), cmp.Or(red.Workload, red.Scenario)) {
		return fmt.Errorf("%s is found in %s, which is not in %q", r.mutant, cmp.Or(red.Workload, red.Scenario), r.by)
	}
	if !slices.ContainsFunc(strings.Fields(r.judged), func(p string) bool { return slices.Contains(red.Properties, p) }) {
		return fmt.Errorf("%s is found by %v, not by %s", r.mutant, red.Properties, r.judged)
	}
	return nil
}

// row is that of the page.
func (r exercise) row() string {
	if r.by == "" {
		return docpage.Row("`"+r.what+"`", "none: "+r.why, "", "", "")
	}
	list := func(s string) string { return strings.Join(strings.Fields(s), ", ") }
	return docpage.Row("`"+r.what+"`", list(r.by), r.event, list(r.judged), cmp.Or(r.mutant, "none: "+r.why))
}

// methods are the exported methods of a type.
func methods[T any]() (names []string) {
	for m := range reflect.TypeFor[T]().Methods() {
		names = append(names, m.Name)
	}
	return names
}

// fields are the exported fields of a struct, those of the structs in it that have no name too.
func fields[T any]() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if f.IsExported() && !f.Anonymous {
			names = append(names, f.Name)
		}
	}
	return names
}

const core = "../../../core/"

// constants are the exported constants of types of a package of the core, each behind its type.
func constants(t *testing.T, pkg string, types ...string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(core + pkg + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				if of, ok := v.Type.(*ast.Ident); ok && slices.Contains(types, of.Name) && v.Names[0].IsExported() {
					names = append(names, of.Name+" "+v.Names[0].Name)
				}
			}
			return true
		})
	}
	return names
}

// endpoints are those of the HTTP API that change something.
func endpoints(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(core + "service/api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var api struct{ Paths map[string]map[string]any }
	if err := yaml.Unmarshal(text, &api); err != nil {
		t.Fatal(err)
	}
	for path, of := range api.Paths {
		for method := range of {
			if slices.Contains([]string{"post", "put", "patch", "delete"}, method) {
				names = append(names, strings.ToUpper(method)+" "+path)
			}
		}
	}
	return names
}
