package reports

import (
	"fmt"
	"math"
	"strings"
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

// Groups of columns: each is a table of the page. Costs come first: they repeat from run
// to run where rates do not.
const (
	groupSetting = "setting" // what the arm is: beside its name on the page
	groupCost    = "cost"
	groupRate    = "rate"
	groupLatency = "latency"
)

// benchColumn is a column of the table of arms. One in which no arm has anything is
// left out.
type benchColumn struct {
	Group, Head  string
	About        string
	Number, Main bool
	// quantity is the ID of that which it shows, if it is one; Doubt is why not to quote it.
	quantity string
	Doubt    string
	// Wide: there is room for it on the page alone.
	Wide bool
	of   func(ArmNumbers) benchCell
}

// title is the head for text without marks.
func (c benchColumn) title() string {
	if c.Doubt != "" {
		return c.Head + " (do not quote)"
	}
	return c.Head
}

// settingColumns say what an arm is.
var settingColumns = []benchColumn{
	{Group: groupSetting, Head: "Scenario", of: func(n ArmNumbers) benchCell {
		c := benchCell{Text: n.Arm.Scenario}
		if n.Arm.About != "" {
			c.Below = []string{n.Arm.About}
		}
		return c
	}},
	{Group: groupSetting, Head: "Shards", Number: true, of: func(n ArmNumbers) benchCell { return whole(n.Arm.Shards) }},
	{Group: groupSetting, Head: "Threads", Number: true, of: func(n ArmNumbers) benchCell { return whole(n.Arm.Threads) }},
	{Group: groupSetting, Head: "TTL", Number: true, of: func(n ArmNumbers) benchCell {
		if n.Arm.TTL == 0 {
			return none
		}
		return benchCell{Text: measure.FormatDuration(n.Arm.TTL)}
	}},
	{Group: groupSetting, Head: "Contention", of: func(n ArmNumbers) benchCell {
		if n.Arm.Contention == "" {
			return none
		}
		return benchCell{Text: n.Arm.Contention}
	}},
}

// costColumns are one for each quantity.
func costColumns() (out []benchColumn) {
	for _, q := range BenchQuantities {
		out = append(out, benchColumn{Group: groupCost, Head: q.Head, About: q.About, Number: true, Main: q.Gated, quantity: q.ID,
			of: func(n ArmNumbers) benchCell { return costCell(n, q.ID) }})
	}
	return out
}

// countedColumn is the number of LWTs of results that do not know other costs.
var countedColumn = benchColumn{Group: groupCost, Head: "LWTs/op", About: "conditional requests sent, resends and rejected ones included",
	Number: true, of: func(n ArmNumbers) benchCell {
		c := spreadCell(n.LWTs.Spread)
		if n.AllLWTs != n.LWTs {
			c.Beside = fmt.Sprintf("(%s with the sink)", RateText(n.AllLWTs.Median))
		}
		return c
	}}

var rateColumn = benchColumn{Group: groupRate, Head: "ops/s", About: "operations that ended ok per second: median, and the least and the greatest round",
	Number: true, Main: true, of: func(n ArmNumbers) benchCell {
		spread := RateText(n.Rate.Min) + "–" + RateText(n.Rate.Max)
		return benchCell{Text: RateText(n.Rate.Median), Beside: "(" + spread + ")"}
	}}

var latencyColumns = []benchColumn{
	quantileColumn(50), quantileColumn(95), quantileColumn(99), quantileColumn(99.9), quantileColumn(100),
	{Group: groupLatency, Head: "samples", About: "operations that the percentiles are of", Number: true, Wide: true, of: func(n ArmNumbers) benchCell {
		if n.hist.TotalCount() == 0 {
			return none
		}
		return benchCell{Text: measure.FormatCount(n.hist.TotalCount()), Muted: true}
	}},
}

var comparedColumns = []benchColumn{
	{Group: groupRate, Head: "Ratio to ceiling", About: "row changes per second (of jobs: jobs per second) by those of the ceiling in the same round",
		Number: true, Main: true, of: func(n ArmNumbers) benchCell {
			switch {
			case n.Arm.Open:
				return none // it is what was offered
			case n.Arm.Ceiling == "":
				return benchCell{Text: ceiling, Muted: true}
			}
			return ratioCell(n.ToCeiling.Estimate)
		}},
	{Group: groupRate, Head: "Ratio to baseline", About: "operations per second by those of the other way to do the same, in the same round",
		Number: true, Main: true, of: func(n ArmNumbers) benchCell { return ratioCell(n.ToBaseline.Estimate) }},
	{Group: groupRate, Head: "Fairness", About: "Jain’s index between clients: 1 is equal shares", Number: true, of: func(n ArmNumbers) benchCell {
		if n.Arm.Threads <= 1 {
			return none
		}
		return spreadCell(n.Fair)
	}},
	{Group: groupRate, Head: "Longest wait", About: "of an operation, one that had not ended with its window too", Number: true, of: func(n ArmNumbers) benchCell {
		longest := n.Quantile(100)
		for _, r := range n.Arm.Rounds {
			longest = max(longest, r.Oldest)
		}
		if longest == n.Quantile(100) { // it is the greatest latency
			return none
		}
		return benchCell{Text: measure.FormatDuration(longest)}
	}},
	{Group: groupRate, Head: "ok / fail / unknown", About: "operations by outcome, over all rounds", Number: true, of: func(n ArmNumbers) benchCell {
		return benchCell{Text: fmt.Sprintf("%s / %s / %s", measure.FormatCount(n.OK), measure.FormatCount(n.Fail),
			measure.FormatCount(n.Unknown)), Muted: true}
	}},
	{Group: groupRate, Head: "Rounds", Number: true, of: func(n ArmNumbers) benchCell { return whole(len(n.Arm.Rounds)) }},
}

// benchColumns are all of them in the order of a table that has every group.
func benchColumns(counted bool) (out []benchColumn) {
	out = append(append(out, settingColumns...), costColumns()...)
	out = append(append(out, rateColumn), latencyColumns...)
	if counted {
		out = append(out, countedColumn)
	}
	return append(out, comparedColumns...)
}

// ceiling is said of an arm that is one. Where all are, nothing is compared.
const ceiling = "ceiling"

// benchTable is the table of arms with the columns that say something.
func benchTable(ns []ArmNumbers) (heads []benchColumn, rows [][]benchCell) {
	rows = make([][]benchCell, len(ns))
	byCost := false // LWTs were read with all other costs
	for _, n := range ns {
		byCost = byCost || n.Cost(costLWTs).N > 0
	}
	for _, c := range benchColumns(!byCost) {
		cells, says := make([]benchCell, len(ns)), false
		for i, n := range ns {
			cells[i] = c.of(n)
			says = says || !cells[i].empty() && cells[i].Text != ceiling
		}
		if !says {
			continue
		}
		c.Doubt = doubt(ns, c.quantity)
		heads = append(heads, c)
		for i := range ns {
			rows[i] = append(rows[i], cells[i])
		}
	}
	return heads, rows
}

const (
	costLWTs     = "lwt_per_op"
	costRequests = "requests_per_op"
)

func whole(n int) benchCell {
	if n == 0 {
		return none
	}
	return benchCell{Text: fmt.Sprint(n)}
}

func costCell(n ArmNumbers, id string) benchCell {
	q := n.Cost(id)
	if q.N == 0 {
		return none
	}
	c := benchCell{Text: RateText(q.Median), Below: []string{"[" + RateText(q.Low) + "–" + RateText(q.High) + "]"}}
	if id == costLWTs && n.LWTs.N > 0 && n.AllLWTs != n.LWTs {
		c.Beside = fmt.Sprintf("(%s without the sink)", RateText(n.LWTs.Median))
	}
	if e := q.ToCopied; e.N > 0 {
		c.Below = append(c.Below, fmt.Sprintf("copy: ×%.2f", e.Median))
	}
	return c
}

// quantileColumn is a percentile of the latency. It is marked if it rests on fewer than ten
// operations: those that took longer.
func quantileColumn(percent float64) benchColumn {
	c := benchColumn{Group: groupLatency, Head: fmt.Sprintf("p%g", percent), Number: true, Main: percent == 99, Wide: percent == 99.9}
	if percent == 100 {
		c.Head = "max"
	}
	c.of = func(n ArmNumbers) benchCell {
		cell := quantileCell(n, percent)
		cell.Few = !cell.empty() && percent < 100 && float64(n.hist.TotalCount())*(100-percent)/100 < fewOperations
		return cell
	}
	return c
}

// fewOperations are too few beyond a percentile: it moves with each of them.
const fewOperations = 10 - 1e-6

func quantileCell(n ArmNumbers, percent float64) benchCell {
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

// setting says in a line what tells the arm from others of its scenario.
func (n ArmNumbers) setting() string {
	var out []string
	a := n.Arm
	if a.Shards > 0 {
		out = append(out, fmt.Sprintf("%d %s", a.Shards, plural(a.Shards, "shard", "shards")))
	}
	if a.Threads > 0 {
		out = append(out, fmt.Sprintf("%d %s", a.Threads, plural(a.Threads, "client", "clients")))
	}
	if a.TTL > 0 {
		out = append(out, "TTL "+measure.FormatDuration(a.TTL))
	}
	if a.Contention != "" {
		out = append(out, a.Contention+" contention")
	}
	return strings.Join(out, ", ")
}
