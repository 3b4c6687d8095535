package reports

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"fencepost/reports/measure"
	"fencepost/reports/stat"
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

// benchCell is a cell of the table of arms.
type benchCell struct {
	Text string
	// Beside is shown behind it, Below below it where there is room.
	Beside string
	Below  []string
	// Range is over rounds, where a page has no room for it.
	Range string
	// Few marks what rests on less than ten operations.
	Few, Muted bool
}

// line is the cell for a terminal, with a range unless one is beside it.
func (c benchCell) line() string {
	if c.Range == "" && c.Beside == "" && len(c.Below) > 0 {
		c.Range = c.Below[0]
	}
	if c.Range == "" {
		return c.markdown()
	}
	return fmt.Sprintf("%s (%s)", c.markdown(), c.Range)
}

// markdown is the cell without what is below it.
func (c benchCell) markdown() string {
	s := c.Text
	if c.Few {
		s += "†"
	}
	if c.Beside != "" {
		s += " " + c.Beside
	}
	return s
}

// none is a cell that says nothing.
var none = benchCell{Text: "–"}

func (c benchCell) empty() bool { return c.Text == none.Text }

// ceiling is said of an arm that is one. Where all are, nothing is compared.
const ceiling = "ceiling"

// benchColumn is a column of the table of arms. One in which no arm has anything is
// left out.
type benchColumn struct {
	Head         string
	Number, Main bool
	of           func(ArmNumbers) benchCell
}

var benchColumns = []benchColumn{
	{Head: "Scenario", of: func(n ArmNumbers) benchCell {
		c := benchCell{Text: n.Arm.Scenario}
		if n.Arm.About != "" {
			c.Below = []string{n.Arm.About}
		}
		return c
	}},
	{Head: "Shards", Number: true, of: func(n ArmNumbers) benchCell { return whole(n.Arm.Shards) }},
	{Head: "Threads", Number: true, of: func(n ArmNumbers) benchCell { return whole(n.Arm.Threads) }},
	{Head: "TTL", Number: true, of: func(n ArmNumbers) benchCell {
		if n.Arm.TTL == 0 {
			return none
		}
		return benchCell{Text: measure.FormatDuration(n.Arm.TTL)}
	}},
	{Head: "Contention", of: func(n ArmNumbers) benchCell {
		if n.Arm.Contention == "" {
			return none
		}
		return benchCell{Text: n.Arm.Contention}
	}},
	{Head: "ops/s", Number: true, Main: true, of: func(n ArmNumbers) benchCell {
		spread := RateText(n.Rate.Min) + "–" + RateText(n.Rate.Max)
		return benchCell{Text: RateText(n.Rate.Median), Beside: "(" + spread + ")"}
	}},
	{Head: "p50", Number: true, of: quantileCell(50)},
	{Head: "p95", Number: true, of: quantileCell(95)},
	{Head: "p99", Number: true, Main: true, of: func(n ArmNumbers) benchCell {
		c := quantileCell(99)(n)
		c.Few = !c.empty() && n.hist.TotalCount() < fewBench
		return c
	}},
	{Head: "max", Number: true, of: quantileCell(100)},
	{Head: "LWTs/op", Number: true, of: func(n ArmNumbers) benchCell {
		c := spreadCell(n.LWTs.Spread)
		if n.AllLWTs != n.LWTs {
			c.Beside = fmt.Sprintf("(%s with the sink)", RateText(n.AllLWTs.Median))
		}
		return c
	}},
	{Head: "Ratio to ceiling", Number: true, Main: true, of: func(n ArmNumbers) benchCell {
		if n.Arm.Ceiling == "" {
			return benchCell{Text: ceiling, Muted: true}
		}
		return ratioCell(n.ToCeiling.Estimate)
	}},
	{Head: "Ratio to baseline", Number: true, Main: true, of: func(n ArmNumbers) benchCell { return ratioCell(n.ToBaseline.Estimate) }},
	{Head: "Fairness", Number: true, of: func(n ArmNumbers) benchCell {
		if n.Arm.Threads <= 1 {
			return none
		}
		return spreadCell(n.Fair)
	}},
	{Head: "ok / fail / unknown", Number: true, of: func(n ArmNumbers) benchCell {
		return benchCell{Text: fmt.Sprintf("%s / %s / %s", measure.FormatCount(n.OK), measure.FormatCount(n.Fail),
			measure.FormatCount(n.Unknown)), Muted: true}
	}},
	{Head: "Rounds", Number: true, of: func(n ArmNumbers) benchCell { return whole(len(n.Arm.Rounds)) }},
}

// benchTable is the table of arms with the columns that say something.
func benchTable(ns []ArmNumbers) (heads []benchColumn, rows [][]benchCell) {
	rows = make([][]benchCell, len(ns))
	for _, c := range benchColumns {
		cells, says := make([]benchCell, len(ns)), false
		for i, n := range ns {
			cells[i] = c.of(n)
			says = says || !cells[i].empty() && cells[i].Text != ceiling
		}
		if !says {
			continue
		}
		heads = append(heads, c)
		for i := range ns {
			rows[i] = append(rows[i], cells[i])
		}
	}
	return heads, rows
}

func whole(n int) benchCell {
	if n == 0 {
		return none
	}
	return benchCell{Text: fmt.Sprint(n)}
}

func quantileCell(percent float64) func(ArmNumbers) benchCell {
	return func(n ArmNumbers) benchCell {
		if n.hist.TotalCount() == 0 {
			return none
		}
		c := benchCell{Text: measure.FormatDuration(n.Quantile(percent))}
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for _, h := range n.rounds {
			if h.TotalCount() > 0 {
				least, most = min(least, measure.Quantile(h, percent)), max(most, measure.Quantile(h, percent))
			}
		}
		if percent < 100 {
			c.Range = measure.FormatDuration(least) + "–" + measure.FormatDuration(most)
		}
		return c
	}
}

func spreadCell(s stat.Spread) benchCell {
	if s.N == 0 {
		return none
	}
	return benchCell{Text: RateText(s.Median), Below: []string{RateText(s.Min) + "–" + RateText(s.Max)}}
}

func ratioCell(e stat.Estimate) benchCell {
	if e.N == 0 {
		return none
	}
	return benchCell{
		Text: fmt.Sprintf("%.2f", e.Median), Beside: fmt.Sprintf("[%.2f–%.2f]", e.Low, e.High),
		Below: []string{fmt.Sprintf("%.2f–%.2f", e.Min, e.Max)},
	}
}

// PrintArms writes the table for a terminal: see the head of its page's for what it says.
func (b BenchResult) PrintArms(out io.Writer) error {
	ns, err := b.Numbers()
	if err != nil || len(ns) == 0 {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	columns, rows := benchTable(ns)
	fmt.Fprint(w, "arm")
	for _, c := range columns {
		fmt.Fprint(w, "\t", c.Head)
	}
	for i, row := range rows {
		fmt.Fprint(w, "\n", ns[i].Arm.ID)
		for _, c := range row {
			fmt.Fprint(w, "\t", c.line())
		}
	}
	fmt.Fprintln(w)
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
