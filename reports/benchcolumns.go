package reports

import (
	"fmt"

	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// benchCell is a cell of the table of arms.
type benchCell struct {
	Text string
	// Beside is shown behind it, Below below it where there is room.
	Beside string
	Below  []string
	// Few marks what rests on less than ten operations.
	Few, Muted bool
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
	of           func(armNumbers) benchCell
}

var benchColumns = []benchColumn{
	{Head: "Scenario", of: func(n armNumbers) benchCell {
		c := benchCell{Text: n.arm.Scenario}
		if n.arm.About != "" {
			c.Below = []string{n.arm.About}
		}
		return c
	}},
	{Head: "Shards", Number: true, of: func(n armNumbers) benchCell { return whole(n.arm.Shards) }},
	{Head: "Threads", Number: true, of: func(n armNumbers) benchCell { return whole(n.arm.Threads) }},
	{Head: "TTL", Number: true, of: func(n armNumbers) benchCell {
		if n.arm.TTL == 0 {
			return none
		}
		return benchCell{Text: measure.FormatDuration(n.arm.TTL)}
	}},
	{Head: "Contention", of: func(n armNumbers) benchCell {
		if n.arm.Contention == "" {
			return none
		}
		return benchCell{Text: n.arm.Contention}
	}},
	{Head: "ops/s", Number: true, Main: true, of: func(n armNumbers) benchCell {
		spread := rateText(n.rate.min) + "–" + rateText(n.rate.max)
		return benchCell{Text: rateText(n.rate.median), Beside: "(" + spread + ")"}
	}},
	{Head: "p50", Number: true, of: quantileCell(50)},
	{Head: "p95", Number: true, of: quantileCell(95)},
	{Head: "p99", Number: true, Main: true, of: func(n armNumbers) benchCell {
		c := quantileCell(99)(n)
		c.Few = !c.empty() && n.hist.TotalCount() < fewBench
		return c
	}},
	{Head: "max", Number: true, of: quantileCell(100)},
	{Head: "LWTs/op", Number: true, of: func(n armNumbers) benchCell {
		c := spreadCell(n.lwts)
		if n.allLWTs != n.lwts {
			c.Beside = fmt.Sprintf("(%s with the sink)", rateText(n.allLWTs.median))
		}
		return c
	}},
	{Head: "Ratio to ceiling", Number: true, Main: true, of: func(n armNumbers) benchCell {
		if n.arm.Ceiling == "" {
			return benchCell{Text: "ceiling", Muted: true}
		}
		return ratioCell(n.ceiling.ci)
	}},
	{Head: "Ratio to baseline", Number: true, Main: true, of: func(n armNumbers) benchCell { return ratioCell(n.baseline.ci) }},
	{Head: "Fairness", Number: true, of: func(n armNumbers) benchCell {
		if n.arm.Threads <= 1 {
			return none
		}
		return spreadCell(n.fair)
	}},
	{Head: "ok / fail / unknown", Number: true, of: func(n armNumbers) benchCell {
		return benchCell{Text: fmt.Sprintf("%s / %s / %s", measure.FormatCount(n.ok), measure.FormatCount(n.fail), measure.FormatCount(n.unknown)), Muted: true}
	}},
	{Head: "Rounds", Number: true, of: func(n armNumbers) benchCell { return whole(len(n.arm.Rounds)) }},
}

// benchTable is the table of arms with the columns that say something.
func benchTable(ns []armNumbers) (heads []benchColumn, rows [][]benchCell) {
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

func quantileCell(percent float64) func(armNumbers) benchCell {
	return func(n armNumbers) benchCell {
		if n.hist.TotalCount() == 0 {
			return none
		}
		return benchCell{Text: measure.FormatDuration(n.quantile(percent))}
	}
}

func spreadCell(s spread) benchCell {
	if s.n == 0 {
		return none
	}
	return benchCell{Text: rateText(s.median), Below: []string{rateText(s.min) + "–" + rateText(s.max)}}
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

// partRow is a row of the table of parts.
type partRow struct {
	Arm, Name, P50, P95, P99, Max string
}

// partRows says of what the latencies of the arms consist.
func partRows(ns []armNumbers) []partRow {
	var out []partRow
	for _, n := range ns {
		for _, p := range n.parts {
			at := func(percent float64) string { return measure.FormatDuration(measure.Quantile(p.hist, percent)) }
			out = append(out, partRow{n.label(ns), p.name, at(50), at(95), at(99), at(100)})
		}
	}
	return out
}
