package reports

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"fencepost/reports/chart"
	"fencepost/reports/evidence"
	"fencepost/reports/stat"
)

// benchSeries are the results of one command line, in the order in which they were measured.
type benchSeries struct {
	Command  string
	Results  []seriesResult
	Machines []string // more than one: only ratios can be compared
	Arms     []seriesArm
}

// seriesResult is a result as a row of the page's table.
type seriesResult struct {
	BenchResult
	numbers map[string]ArmNumbers
	all     []ArmNumbers
}

// Date is its day.
func (r seriesResult) Date() string { return r.Started.UTC().Format("2006-01-02 15:04") }

// Commit is that of the code, as far as it is known.
func (r seriesResult) Commit() string { return orNone(r.Versions[evidence.CommitKey]) }

// seriesArm is an arm with its charts.
type seriesArm struct {
	Name, Setting string
	Charts        []chart.Curves
}

// seriesQuantity is what is drawn of an arm over its results.
type seriesQuantity struct {
	id, head string
	of       func(ArmNumbers) stat.Estimate
}

// seriesQuantities are the costs that are gated, and the ratio to the ceiling.
func seriesQuantities() (out []seriesQuantity) {
	for _, q := range BenchQuantities {
		if q.Gated {
			out = append(out, seriesQuantity{q.ID, q.Head, func(n ArmNumbers) stat.Estimate { return n.Cost(q.ID).Estimate }})
		}
	}
	return append(out, seriesQuantity{"ratio_to_ceiling", "ratio to ceiling", func(n ArmNumbers) stat.Estimate { return n.ToCeiling.Estimate }})
}

var seedFlag = regexp.MustCompile(` --seed=\d+`)

// seriesOf groups results by their command line without its seed, which only draws the order
// of arms and keys.
func seriesOf(all []BenchResult) ([]benchSeries, error) {
	byCommand := map[string]*benchSeries{}
	for _, b := range all {
		ns, err := b.Numbers()
		if err != nil {
			return nil, fmt.Errorf("benchmark %s: %w", b.Name, err)
		}
		r := seriesResult{b, map[string]ArmNumbers{}, ns}
		for _, n := range ns {
			r.numbers[n.Arm.ID] = n
		}
		command := seedFlag.ReplaceAllString(b.Command, "")
		s := byCommand[command]
		if s == nil {
			s = &benchSeries{Command: command}
			byCommand[command] = s
		}
		s.Results = append(s.Results, r)
	}
	var out []benchSeries
	for _, command := range slices.Sorted(maps.Keys(byCommand)) {
		s := byCommand[command]
		slices.SortStableFunc(s.Results, func(a, b seriesResult) int { return a.Started.Compare(b.Started) })
		for _, r := range s.Results {
			if m := r.machine(); !slices.Contains(s.Machines, m) {
				s.Machines = append(s.Machines, m)
			}
		}
		s.Arms = s.arms()
		out = append(out, *s)
	}
	return out, nil
}

// machine is what makes absolute numbers of two results comparable.
func (r seriesResult) machine() string {
	var out []string
	for _, key := range []string{"cores", "memory", "os"} {
		out = append(out, key+" "+orNone(r.Machine[key]))
	}
	return strings.Join(append(out, "nodes "+orNone(r.Versions["nodes"])), ", ")
}

// arms are those of any result, those of the latest first; copies only show the noise.
func (s *benchSeries) arms() (out []seriesArm) {
	seen := map[string]bool{}
	for _, r := range slices.Backward(s.Results) {
		for _, n := range r.all {
			if seen[n.Arm.ID] || n.Arm.Control != "" {
				continue
			}
			seen[n.Arm.ID] = true
			a := seriesArm{Name: n.Arm.Scenario, Setting: n.setting()}
			for _, q := range seriesQuantities() {
				if c, ok := s.curve(n.Arm.ID, q); ok {
					a.Charts = append(a.Charts, c)
				}
			}
			if len(a.Charts) > 0 {
				out = append(out, a)
			}
		}
	}
	return out
}

// at is a quantity of an arm in a result; quotable is false if it is not to be quoted.
func (q seriesQuantity) at(r seriesResult, arm string) (e stat.Estimate, quotable bool) {
	n, ok := r.numbers[arm]
	if !ok {
		return e, false
	}
	return q.of(n), len(r.Problems) == 0 && doubt(r.all, q.id) == ""
}

// curve draws a quantity over the results; ok is false if none has it.
func (s *benchSeries) curve(arm string, q seriesQuantity) (c chart.Curves, ok bool) {
	c = chart.Curves{Over: chart.OverResults, Height: 190, To: float64(len(s.Results) - 1)}
	line := chart.Curve{Label: "median", Color: chart.OKColor.Name, X: []float64{}, Y: []float64{}} // without points if none is to be quoted
	latest := "not to be quoted"
	for i, r := range s.Results {
		c.Names = append(c.Names, r.Started.UTC().Format("2 Jan")+"\n"+short(r.Versions[evidence.CommitKey]))
		e, quotable := q.at(r, arm)
		if e.N == 0 {
			continue
		}
		ok = true
		c.High = max(c.High, 1.06*e.High)
		if !quotable {
			c.Crosses = append(c.Crosses, [2]float64{float64(i), e.Median})
			continue
		}
		latest = intervalText(e.Median, e.Low, e.High)
		line.X, line.Y, line.Bars = append(line.X, float64(i)), append(line.Y, e.Median), append(line.Bars, [2]float64{e.Low, e.High})
	}
	c.Title = q.head + ": " + latest
	c.Lines = []chart.Curve{line}
	return c, ok
}

// short is a commit as far as there is room for it.
func short(commit string) string { return commit[:min(len(commit), 7)] }

type seriesPage struct {
	head
	Title  string
	Series []benchSeries
	Files  fact
}

// WriteBenchSeries writes the page of benchmarks over time to an .html file, and its numbers
// to a .csv file beside it.
func WriteBenchSeries(file string, all []BenchResult) error {
	series, err := seriesOf(all)
	if err != nil {
		return err
	}
	rows := [][]string{{"command", "result", "started", "commit", "arm", "quantity", "median", "ci_low", "ci_high", "quotable"}}
	for _, s := range series {
		for _, r := range s.Results {
			for _, n := range r.all {
				for _, q := range seriesQuantities() {
					if e, quotable := q.at(r, n.Arm.ID); e.N > 0 {
						rows = append(rows, fields(s.Command, r.Name, r.Date(), r.Commit(), n.Arm.ID, q.id, e.Median, e.Low, e.High, quotable))
					}
				}
			}
		}
	}
	csv, err := csvBytes(rows)
	if err != nil {
		return err
	}
	table := strings.TrimSuffix(file, filepath.Ext(file)) + ".csv"
	html, err := render("benchseries.html", seriesPage{newHead(true, source("bench.css")), "Benchmarks over time", series,
		fact{filepath.Base(table), "every point with its interval"}})
	if err != nil {
		return err
	}
	if err := writeFile(table, csv); err != nil {
		return err
	}
	return writeFile(file, html)
}
