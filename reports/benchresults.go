package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"fencepost/reports/measure"
)

// benchTables writes all benchmarks that are kept.
func benchTables(md *strings.Builder, benches []BenchResult) error {
	md.WriteString("\n## Benchmarks\n\n")
	if len(benches) == 0 {
		md.WriteString("No benchmark is kept.\n")
		return nil
	}
	md.WriteString("Throughput is the median over the rounds. The ratio to the ceiling is an arm's row changes per second (of jobs: " +
		"jobs per " +
		"second) to its ceiling's in the same round, the ratio to the baseline its operations per second to those of the other way to do the " +
		"same, as median [95 % confidence interval of the median]. LWTs/op were counted. Fairness is Jain's index between threads. Absolute " +
		"numbers belong to the machine; ratios travel better. † fewer than 1000 samples.\n")
	for _, b := range benches {
		if err := b.markdown(md); err != nil {
			return err
		}
	}
	return nil
}

func (b BenchResult) markdown(md *strings.Builder) error {
	ns, err := b.Numbers()
	if err != nil {
		return fmt.Errorf("benchmark %s: %w", b.Name, err)
	}
	fmt.Fprintf(md, "\n### %s\n\n", cell(b.Name))
	if b.About != "" {
		fmt.Fprintf(md, "%s\n\n", cell(b.About))
	}
	if h := b.Headline; h != nil && len(b.Problems) == 0 {
		fmt.Fprintf(md, "**%s** (%s)\n\n", cell(h.Text), cell(h.Basis))
	}
	for _, p := range b.Problems {
		fmt.Fprintf(md, "- **Do not quote:** %s\n", cell(p))
	}
	for _, t := range b.Targets {
		fmt.Fprintf(md, "- **%s** %s: %s, wanted %s\n", t.Verdict(), cell(t.Name), cell(t.Got), cell(t.Want))
	}
	for _, l := range b.Steady {
		fmt.Fprintf(md, "- %s\n", cell(l.Text()))
	}
	if len(b.Problems)+len(b.Targets)+len(b.Steady) > 0 {
		md.WriteString("\n")
	}
	if len(ns) > 0 {
		armsTable(md, ns)
	}
	if len(b.Notes) > 0 {
		md.WriteString("\n")
	}
	for _, note := range b.Notes {
		fmt.Fprintf(md, "- %s\n", cell(note))
	}
	where := append(pairs(b.Versions), pairs(b.Machine)...)
	if len(where) > 0 {
		fmt.Fprintf(md, "\n%s.\n", cell(strings.Join(where, ", ")))
	}
	if b.Command != "" {
		fmt.Fprintf(md, "\n    %s\n", strings.ReplaceAll(b.Command, "\n", " "))
	}
	return nil
}

func armsTable(md *strings.Builder, ns []ArmNumbers) {
	columns, cells := benchTable(ns)
	var heads []string
	rows := make([][]string, len(cells))
	for k, c := range columns {
		if c.Wide {
			continue
		}
		heads = append(heads, c.title())
		for i := range cells {
			rows[i] = append(rows[i], cells[i][k].markdown())
		}
	}
	table(md, heads, rows)
	parts := partRows(ns)
	if len(parts) == 0 {
		return
	}
	md.WriteString("\n")
	rows = nil
	for _, p := range parts {
		rows = append(rows, []string{p.Arm, p.Name, p.P50, p.P95, p.P99, p.Max})
	}
	table(md, []string{"Arm", "Part", "p50", "p95", "p99", "max"}, rows)
}

// PrintArms writes the table for a terminal: see the head of its page's for what it says.
func (b BenchResult) PrintArms(out io.Writer) error {
	ns, err := b.Numbers()
	if err != nil || len(ns) == 0 {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	columns, rows := benchTable(ns)
	// Costs are a table before the others: all in one would be too wide to read.
	split := slices.ContainsFunc(ns, func(n ArmNumbers) bool { return len(n.Costs) > 0 })
	for _, costs := range []bool{true, false} {
		if costs && !split {
			continue
		}
		in := func(c benchColumn) bool { return !split || c.Group == groupSetting || (c.Group == groupCost) == costs }
		fmt.Fprint(w, "arm")
		for _, c := range columns {
			if in(c) {
				fmt.Fprint(w, "\t", c.title())
			}
		}
		for i, row := range rows {
			fmt.Fprint(w, "\n", ns[i].Arm.ID)
			for k, c := range row {
				if in(columns[k]) {
					fmt.Fprint(w, "\t", c.line())
				}
			}
		}
		fmt.Fprintln(w)
		if costs {
			fmt.Fprintln(w)
		}
	}
	for _, n := range ns {
		for _, p := range n.parts {
			at := func(percent float64) string { return measure.FormatDuration(measure.Quantile(p.hist, percent)) }
			fmt.Fprintf(w, "%s, %s\tp50 %s\tp95 %s\tp99 %s\n", n.Arm.ID, p.name, at(50), at(95), at(99))
		}
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// partRow is a row of the table of parts.
type partRow struct {
	Arm, Name, P50, P95, P99, Max string
}

// partRows says of what the latencies of the arms consist.
func partRows(ns []ArmNumbers) []partRow {
	var out []partRow
	for _, n := range ns {
		for _, p := range n.parts {
			at := func(percent float64) string { return measure.FormatDuration(measure.Quantile(p.hist, percent)) }
			out = append(out, partRow{n.label(ns), p.name, at(50), at(95), at(99), at(100)})
		}
	}
	return out
}
