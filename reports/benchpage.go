package reports

import (
	"fmt"
	"html/template"
	"path/filepath"
	"slices"

	"fencepost/harness/record/rundir"
	"fencepost/reports/chart"
)

type benchPage struct {
	head
	Title    string
	B        BenchResult
	Headline *BenchHeadline
	Facts    []fact
	Bars     []barsView
	Tables   []benchTableView
	Parts    []partRow
	Targets  []targetRow
	Steady   []steadyView
	Charts   []template.HTML
	Curves   []chart.Curves
	Versions []fact
	Machine  []fact
}

// barsView is a drawing for a usual screen and for paper, and for a phone.
type barsView struct{ Wide, Narrow template.HTML }

// benchTableView is a table of the page: a group of columns.
type benchTableView struct {
	ID, Head, Caption string
	Columns           []benchColumn
	Rows              []benchRow
	// Doubts say what is not to be quoted, and why.
	Doubts []string
	// Meanings are what the columns say.
	Meanings []fact
}

type benchRow struct {
	Name, Setting, About string
	Cells                []benchCell
	Ceiling              bool
}

type targetRow struct {
	BenchTarget
	Badge Badge
}

// steadyView is a load over time with its charts.
type steadyView struct {
	Text   string
	Charts []chart.Curves
}

// WriteBench writes bench.html, bench.json, bench.csv (a line an arm),
// bench_rounds.csv (a line a round), bench_steady.csv (a line a bucket) and plots/ to
// dir, which must exist. An
// error names what is wrong with b: ids that are not unique, a ceiling that is
// not there, a histogram that cannot be read.
func WriteBench(dir string, b BenchResult) error {
	if b.Version == 0 {
		b.Version = BenchVersion
	}
	ns, err := b.Numbers()
	if err != nil {
		return err
	}
	bars, narrow := benchBars(ns, false), benchBars(ns, true)
	svgs := benchDrawings(ns)
	p := benchPage{B: b, Title: "Benchmark " + b.Name, Headline: b.Headline, Charts: inline(svgs), Curves: benchCurves(ns), head: newHead(true, source("bench.css")),
		Versions: facts(b.Versions), Machine: facts(b.Machine), Facts: b.facts(), Tables: benchTableViews(ns), Parts: partRows(ns)}
	if len(b.Problems) > 0 {
		p.Headline = nil
	}
	for i, wide := range bars {
		if !wide.Empty() {
			p.Bars = append(p.Bars, barsView{wide.Inline(), narrow[i].Inline()})
		}
	}
	for _, l := range b.Steady {
		drawn, err := l.curves()
		if err != nil {
			return err
		}
		p.Steady = append(p.Steady, steadyView{l.Text(), drawn})
	}
	for _, t := range b.Targets {
		p.Targets = append(p.Targets, targetRow{t, t.badge()})
	}
	if err := rundir.WriteJSON(filepath.Join(dir, BenchFile), b); err != nil {
		return err
	}
	if err := writeBenchCSV(dir, ns, b.Steady); err != nil {
		return err
	}
	if err := writePlots(dir, slices.Concat(bars, svgs)); err != nil {
		return err
	}
	html, err := render("bench.html", p)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, BenchPage), html)
}

func (b BenchResult) facts() []fact {
	rounds := 0
	for _, a := range b.Arms {
		rounds = max(rounds, len(a.Rounds))
	}
	out := []fact{{"arms", fmt.Sprint(len(b.Arms))}, {"rounds", fmt.Sprint(rounds)}, {"seed", fmt.Sprint(b.Seed)},
		{"cluster", orNone(b.Cluster)}}
	return append(out, startedFact(b.Started, b.Ended)...)
}

// benchTableViews are the tables of arms: costs before rates.
func benchTableViews(ns []ArmNumbers) (out []benchTableView) {
	columns, rows := benchTable(ns)
	compared := slices.ContainsFunc(ns, func(n ArmNumbers) bool { return n.Arm.Ceiling != "" })
	for _, v := range []benchTableView{
		{ID: groupCost, Head: "Cost of an operation", Caption: costCaption(ns)},
		{ID: groupRate, Head: "Rate", Caption: "ops/s is the median over the rounds, with the least and the greatest. The ratio to the ceiling is an arm’s row " +
			"changes per second (of jobs: jobs per second) to its ceiling’s in the same round, the ratio to the baseline its operations per second to " +
			"those of the other way to do the same: median, 95 % confidence interval, range. What disturbs the machine disturbs both arms of a round, " +
			"so a ratio says more than a rate."},
		{ID: groupLatency, Head: "Latency", Caption: "Of the operations that ended ok, all rounds together. Clients are closed loops: each has one operation at " +
			"a time. † rests on fewer than ten operations."},
	} {
		for k, c := range columns {
			if c.Group != v.ID {
				continue
			}
			v.Columns = append(v.Columns, c)
			if c.Doubt != "" {
				v.Doubts = append(v.Doubts, c.Head+": "+c.Doubt)
			}
			if c.About != "" {
				v.Meanings = append(v.Meanings, fact{c.Head, c.About})
			}
			for i, n := range ns {
				if len(v.Rows) <= i {
					v.Rows = append(v.Rows, benchRow{Name: n.Arm.Scenario, Setting: n.setting(), About: n.Arm.About, Ceiling: compared && n.Arm.Ceiling == ""})
				}
				v.Rows[i].Cells = append(v.Rows[i].Cells, rows[i][k])
			}
		}
		if len(v.Rows) > 0 {
			out = append(out, v)
		}
	}
	return out
}

// costCaption says how to read the costs, as far as they are known.
func costCaption(ns []ArmNumbers) string {
	if !slices.ContainsFunc(ns, func(n ArmNumbers) bool { return len(n.Costs) > 0 }) {
		return "Only requests were counted: processor time, bytes and fsyncs of this result are not known. Median over the rounds, below it the range."
	}
	return "What an operation takes beside time: median over the rounds, below it the 95 % confidence interval. Requests and bytes repeat from run to run; " +
		"processor time does as a multiple of what a bare request takes. Rates do not. Of the A/A copy, ×1.00 says that it costs what its original does. " +
		"– could not be read."
}

// benchBars are the charts of the arms: what an operation costs, and how many there are a
// second.
func benchBars(ns []ArmNumbers, narrow bool) []chart.SVG {
	var costs, rates []chart.Bar
	for _, n := range ns {
		bar := chart.Bar{Label: n.label(ns), Pale: n.Arm.Control != ""}
		if e := n.Cost(CostCPU); e.N > 0 {
			bar.Value, bar.Low, bar.High, bar.Text = e.Median, e.Low, e.High, intervalText(e.Median, e.Low, e.High)
			for _, id := range costCPUParts {
				bar.Parts = append(bar.Parts, chart.BarPart{Name: quantityHead(id), Value: n.Cost(id).Median})
			}
			costs = append(costs, bar)
		}
		if e := n.RateEstimate(); e.N > 0 {
			bar.Value, bar.Low, bar.High, bar.Text, bar.Parts = e.Median, e.Low, e.High, intervalText(e.Median, e.Low, e.High), nil
			rates = append(rates, bar)
		}
	}
	title := "Processor time of 1000 operations, in s"
	if doubt(ns, CostCPU) != "" {
		title += " (do not quote)"
	}
	return []chart.SVG{
		chart.Bars("costs", title, "median and its 95 % interval; less is better", costs, narrow),
		chart.Bars("rates", "Operations per second", "median and its 95 % interval; more is better", rates, narrow),
	}
}

func intervalText(v, low, high float64) string {
	return fmt.Sprintf("%s [%s–%s]", RateText(v), RateText(low), RateText(high))
}

func quantityHead(id string) string {
	for _, q := range BenchQuantities {
		if q.ID == id {
			return q.Head
		}
	}
	return id
}
