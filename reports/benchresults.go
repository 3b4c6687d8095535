package reports

import (
	"fmt"
	"strings"
)

// benchTables writes all benchmarks that are kept.
func benchTables(md *strings.Builder, benches []BenchResult) error {
	md.WriteString("\n## Benchmarks\n\n")
	if len(benches) == 0 {
		md.WriteString("No benchmark is kept.\n")
		return nil
	}
	md.WriteString("Throughput is the median over the rounds. The ratio to the ceiling is an arm's row changes per second (of jobs: jobs per second) to its ceiling's in the same round, the ratio to the baseline its operations per second to those of the other way to do the same, as median [95 % confidence interval of the median]. LWTs/op were counted. Fairness is Jain's index between threads. Absolute numbers belong to the machine; ratios travel better. † fewer than 1000 samples.\n")
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
	for _, c := range columns {
		heads = append(heads, c.Head)
	}
	rows := make([][]string, len(cells))
	for i := range cells {
		for _, c := range cells[i] {
			rows[i] = append(rows[i], c.markdown())
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
