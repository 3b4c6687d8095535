package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
	"fencepost/reports/stat"
)

// PowerRow is what the runs of one known-broken variant, or of one hole of a design,
// showed.
type PowerRow struct {
	System system.System
	Runs   int // that were carried out
	Errors int // that could not be
	// Kills are runs with the verdict expected and one of the properties
	// expected fired.
	Kills int
	// EndToEnd are runs in which the effects alone showed the mistake (P4).
	EndToEnd int
	Fired    map[string]int // by property, in how many runs
	// Explained are the kills whose explanation is stored, Named those of them that name
	// the planted mechanism.
	Explained, Named int
	// Violation and Verdict are medians over the kills, from the begin of the load.
	Violation, Verdict time.Duration
	Seeds              []uint64
	Commits            []string
}

// EndToEndProperty is all that a check of effects alone would see: every effect
// applied once, none lost, the final value right. It knows no locks and no tokens.
const EndToEndProperty = "P4"

// Power sums results up by variant, in the order of systems. Of a job with
// several attempts the last counts. Results of another scenario than the
// variant's own, or with another sink than the named one ("": the default), do not count.
func Power(systems []system.System, sink string, all []evidence.Result) []PowerRow {
	last := map[evidence.Job]evidence.Result{}
	for _, r := range all {
		if old, ok := last[r.Job]; !ok || r.Attempt > old.Attempt {
			last[r.Job] = r
		}
	}
	var rows []PowerRow
	for _, s := range systems {
		row := PowerRow{System: s, Fired: map[string]int{}}
		var mine []evidence.Result
		for j, r := range last {
			if j.System == s.Name && j.Sink == sink && j.Scenario == s.Red.Scenario && j.Contention == s.Red.Contention {
				mine = append(mine, r)
			}
		}
		slices.SortFunc(mine, func(a, b evidence.Result) int { return cmp.Compare(a.Job.Seed, b.Job.Seed) })
		var violations, verdicts []float64
		for _, r := range mine {
			row.Seeds = append(row.Seeds, r.Job.Seed)
			if r.Check == nil {
				row.Errors++
				continue
			}
			row.Runs++
			fired := r.Fired()
			for _, p := range fired {
				row.Fired[p]++
			}
			if slices.Contains(fired, EndToEndProperty) {
				row.EndToEnd++
			}
			if !Killed(s, r) {
				continue
			}
			row.Kills++
			if d := r.Detection; d != nil {
				verdicts = append(verdicts, float64(d.Verdict))
				if d.Causes != nil {
					row.Explained++
				}
				if slices.Contains(d.Causes, s.Red.Mechanism) {
					row.Named++
				}
				if d.Violation > 0 {
					violations = append(violations, float64(d.Violation))
				}
			}
		}
		row.Commits = evidence.Commits(mine)
		row.Violation, row.Verdict = time.Duration(stat.Median(violations)), time.Duration(stat.Median(verdicts))
		rows = append(rows, row)
	}
	return rows
}

// Killed reports whether a result is the red that a variant must show: the verdict is the one expected, and a property expected fired.
func Killed(s system.System, r evidence.Result) bool {
	return r.Verdict == s.Red.Verdict && slices.ContainsFunc(r.Fired(), func(id string) bool { return slices.Contains(s.Red.Properties, id) })
}

// firedText lists what fired, with in how many of the runs where not in all.
func firedText(n map[string]int, runs int) string {
	ids := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for i, id := range ids {
		if n[id] < runs {
			ids[i] = fmt.Sprintf("%s (%d of %d)", id, n[id], runs)
		}
	}
	switch {
	case runs == 0:
		return "–"
	case len(ids) == 0:
		return "nothing"
	}
	return strings.Join(ids, ", ")
}

func (r PowerRow) name() string { return r.System.Label() }

func (r PowerRow) expected() string { return strings.Join(r.System.Red.Properties, " or ") }

func (r PowerRow) kills() string {
	if r.Runs+r.Errors == 0 {
		return "not run"
	}
	s := fmt.Sprintf("%d/%d", r.Kills, r.Runs)
	if r.Errors > 0 {
		s += fmt.Sprintf(" (%d not carried out)", r.Errors)
	}
	return s
}

// named says in how many kills the planted mechanism was named.
func (r PowerRow) named() string {
	if r.Explained == 0 {
		return "–"
	}
	return fmt.Sprintf("%d/%d", r.Named, r.Explained)
}

// masked are the variants that did run and that the effects alone do not show in
// every run.
func masked(rows []PowerRow) (caughtEnd, caughtAll, ran int) {
	for _, r := range rows {
		if r.Runs == 0 {
			continue
		}
		ran++
		if r.EndToEnd == r.Runs {
			caughtEnd++
		}
		if r.Kills == r.Runs {
			caughtAll++
		}
	}
	return caughtEnd, caughtAll, ran
}

// PrintPower prints the matrix and the masking table.
func PrintPower(out io.Writer, rows []PowerRow) {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nVARIANT\tSCENARIO\tEXPECTED\tKILLS\tFIRST VIOLATION\tVERDICT\tEFFECTS ALONE\tNAMED\tFIRED")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s, %s\t%s\t%s\t%s\t%s\t%d/%d\t%s\t%s\n", r.name(), r.System.Red.Scenario, r.System.Red.Contention, r.expected(),
			r.kills(), after(r.Violation), after(r.Verdict), r.EndToEnd, r.Runs, r.named(), firedText(r.Fired, r.Runs))
	}
	_ = w.Flush()
	end, all, ran := masked(rows)
	fmt.Fprintf(out, "\n%d of %d variants caught in every run; %d of them by the effects alone (%s)\n", all, ran, end, EndToEndProperty)
}

func after(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// powerTables writes the matrix and the masking table as Markdown.
func powerTables(md *strings.Builder, rows []PowerRow) {
	md.WriteString("\n### Power of the checks\n\n")
	end, all, ran := masked(rows)
	if ran == 0 {
		md.WriteString("No run of `make power` is kept.\n")
		return
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.Commits...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	fmt.Fprintf(md, "Each variant under its directed scenario, from `make power` (fencepost %s). A kill is a run with the verdict and one of "+
		"the properties expected. First violation and verdict are counted from the begin of the load; medians over the kills. Named: in how "+
		"many kills the explanation, which knows the history alone, names the planted mechanism first.\n\n", strings.Join(names, ", "))
	var cells [][]string
	for _, r := range rows {
		cells = append(cells, []string{r.name(), r.System.Red.Scenario + ", " + r.System.Red.Contention, expected(r.System), r.kills(),
			after(r.Violation), after(r.Verdict), r.named(), firedText(r.Fired, r.Runs)})
	}
	table(md, []string{"Variant", "Scenario, contention", "Must turn red by", "Kills/runs", "First violation", "Verdict", "Named",
		"What fired"}, cells)
	fmt.Fprintf(md, "\n**Masking.** In the same runs, what a check of the effects alone (%s: each applied once, none lost, the final value "+
		"right) would have caught: %d of %d variants in every run, all properties together %d.\n\n", EndToEndProperty, end, ran, all)
	cells = nil
	for _, r := range rows {
		if r.Runs > 0 {
			cells = append(cells, []string{r.name(), fmt.Sprintf("%d/%d", r.EndToEnd, r.Runs), fmt.Sprintf("%d/%d", r.Kills, r.Runs)})
		}
	}
	table(md, []string{"Variant", "By the effects alone", "By all properties"}, cells)
}
