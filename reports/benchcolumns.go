package reports

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

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
			return benchCell{Text: "ceiling", Muted: true}
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
		return benchCell{Text: fmt.Sprintf("%s / %s / %s", measure.FormatCount(n.OK), measure.FormatCount(n.Fail), measure.FormatCount(n.Unknown)), Muted: true}
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
			says = says || !cells[i].empty()
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
