package serve

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/reports"
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// comparePage is what compare.html shows: a column a run, the first is what the
// others are measured by.
type comparePage struct {
	frame
	Runs       []runHead
	Notes      []string
	Differing  []cellRow
	Same       []setting
	Properties []cellRow
	Counts     []cellRow
	Rates      []cellRow
	Latencies  []latencyRow
	Recovery   []cellRow
	Faults     []faultRow
	Chart      *chart.Curves
	NoChart    string
	Ops        []choice
	Phases     []choice
}

type runHead struct {
	Letter string
	*Entry
	Drop, Base string // addresses: without this run, by this run; "" where that cannot be
}

// cellRow is a row with a cell a run.
type cellRow struct {
	Name, About string
	Cells       []cell
	Differs     bool
}

type cell struct {
	Text  string
	Ratio string // to the first run
	Class string
	Badge *reports.Badge
	Small string
	Link  string
}

type latencyRow struct {
	Op    history.Op
	Phase string
	Cells []latencyCell
}

// latencyCell is one run's latency; zero if it has none.
type latencyCell struct {
	measure.Latency
	Ratio, Class string // to the first run's
	First        bool
}

type faultRow struct {
	ID    string
	Cells []*reports.ReportFault // nil: it was not injected
}

type choice struct {
	Value, Label string
	Selected     bool
}

func (s *Server) compare(w http.ResponseWriter, r *http.Request) {
	names := r.URL.Query()["run"]
	var sides []side
	for i, name := range names {
		e, ok := s.index.Find(name)
		switch {
		case !ok:
			s.fail(w, http.StatusNotFound, "There is no such run", "The directory of runs has no "+printable(name)+".")
			return
		case e.Bench():
			s.fail(w, http.StatusBadRequest, "Benchmarks are not compared here",
				e.Name+" is a benchmark: its arms are compared within it, since absolute numbers of two say little.")
			return
		case slices.Contains(names[:i], name):
			continue
		case len(sides) == mostRuns:
			s.fail(w, http.StatusBadRequest, "Too many runs to compare", fmt.Sprintf("Choose %d to %d runs in the list.", leastRuns, mostRuns))
			return
		}
		sides = append(sides, s.load(e))
	}
	if len(sides) < leastRuns {
		s.fail(w, http.StatusBadRequest, "Choose runs to compare",
			fmt.Sprintf("Choose %d to %d runs in the list, and then “Compare selected”.", leastRuns, mostRuns))
		return
	}
	p := comparison(sides)
	s.distribution(&p, sides, r.URL.Query())
	s.show(w, http.StatusOK, "compare.html", p)
}

// comparison makes all of the page but its chart.
func comparison(sides []side) comparePage {
	p := comparePage{frame: frame{Title: fmt.Sprintf("Comparison of %d runs", len(sides)), Tab: "compare", Scripts: []string{"curves.js"}}}
	for i, d := range sides {
		h := runHead{Letter: letter(i), Entry: d.Entry}
		if len(sides) > leastRuns {
			h.Drop = comparePath(slices.Delete(slices.Clone(sides), i, i+1))
		}
		if i > 0 {
			h.Base = comparePath(append([]side{d}, slices.Delete(slices.Clone(sides), i, i+1)...))
		}
		p.Runs = append(p.Runs, h)
		for _, n := range d.notes {
			p.Notes = append(p.Notes, letter(i)+": "+n)
		}
	}
	p.Differing, p.Same = settings(sides)
	p.Properties = properties(sides)
	p.Counts = counts(sides)
	p.Rates = rates(sides)
	p.Latencies = latencyRows(sides)
	p.Recovery = recoveries(sides)
	p.Faults = faults(sides)
	return p
}

func letter(i int) string { return string(rune('A' + i)) }

func comparePath(sides []side) string {
	v := url.Values{}
	for _, d := range sides {
		v.Add("run", d.Name)
	}
	return "/compare?" + v.Encode()
}

func settings(sides []side) (differing []cellRow, same []setting) {
	var names []string
	by := make([]map[string]string, len(sides))
	for i, d := range sides {
		by[i] = map[string]string{}
		for _, x := range d.settings() {
			by[i][x.Name] = x.Value
			if !slices.Contains(names, x.Name) {
				names = append(names, x.Name)
			}
		}
	}
	for _, n := range names {
		row := cellRow{Name: n, Differs: true}
		differs := false
		for i := range sides {
			c := cell{Text: by[i][n]}
			if by[i][n] != by[0][n] {
				differs, c.Class = true, "differs"
			}
			if c.Text == "" {
				c.Text = none
			}
			row.Cells = append(row.Cells, c)
		}
		switch {
		case differs:
			differing = append(differing, row)
		case by[0][n] != "":
			same = append(same, setting{n, by[0][n]})
		}
	}
	return differing, same
}

func properties(sides []side) (out []cellRow) {
	var rows []cellRow
	for _, d := range sides {
		for _, p := range d.verdict.Properties {
			if !slices.ContainsFunc(rows, func(r cellRow) bool { return r.Name == p.ID }) {
				rows = append(rows, cellRow{Name: p.ID, About: p.Title})
			}
		}
	}
	for _, row := range rows {
		var first checker.Status
		for _, d := range sides {
			p := d.property(row.Name)
			if p == nil {
				row.Cells = append(row.Cells, cell{Text: none})
				continue
			}
			first = cmp.Or(first, p.Status)
			row.Differs = row.Differs || p.Status != first
			row.Cells = append(row.Cells, d.propertyCell(*p))
		}
		out = append(out, row)
	}
	return out
}

func (d side) propertyCell(p checker.Property) cell {
	b := reports.BadgeOf(p.Status)
	c := cell{Badge: &b, Small: measure.FormatCount(p.Checked) + " checked"}
	if p.Count > 0 {
		c.Small = measure.FormatCount(p.Count) + " violations"
		if p.Count == 1 {
			c.Small = "1 violation"
		}
		if d.Report != "" {
			c.Link = runPath(d.Name) + d.Report + "#violation-" + url.PathEscape(p.ID) + "-1"
		}
	}
	return c
}

// numbers is a row of numbers, with their ratios to the first run's. What is not known is 0;
// a row of which no run knows anything is left out.
func numbers(to []cellRow, sides []side, name, about string, of func(side) (c cell, v float64, known bool)) []cellRow {
	row := cellRow{Name: name, About: about}
	var base float64
	any := false
	for i, d := range sides {
		c, v, known := of(d)
		switch {
		case !known:
			c = cell{Text: none}
		case i > 0:
			c.Ratio = ratio(v, base)
		}
		if i == 0 {
			base = v
		}
		any = any || known
		row.Cells = append(row.Cells, c)
	}
	if !any {
		return to
	}
	return append(to, row)
}

// comparedCounts are the counts that runs are compared by; a run without jobs has none of them.
var comparedCounts = []struct {
	name, about string
	jobs        bool
	of          func(checker.Counts) int
}{
	{"operations", "", false, func(c checker.Counts) int { return c.Operations }},
	{"cycles", "locks released, or jobs completed", false, func(c checker.Counts) int { return c.Cycles }},
	{"grants", "of locks or shards", false, func(c checker.Counts) int { return c.Grants }},
	{"takeovers", "grants from another holder’s lease", false, func(c checker.Counts) int { return c.Takeovers }},
	{"effects accepted", "", false, func(c checker.Counts) int { return c.Effects }},
	{"stale writes refused", "", false, func(c checker.Counts) int { return c.StaleRefused }},
	{"unknown outcomes", "", false, func(c checker.Counts) int { return c.Unknowns }},
	{"of them settled", "by the final rows", false, func(c checker.Counts) int { return c.UnknownSettled }},
	{"leases lost", "before their release", false, func(c checker.Counts) int { return c.LeasesLost }},
	{"faults", "", false, func(c checker.Counts) int { return c.Faults }},
	{"faults proven", "", false, func(c checker.Counts) int { return c.FaultsProven }},
	{"jobs enqueued", "", true, func(c checker.Counts) int { return c.Jobs.Enqueued }},
	{"jobs retried", "", true, func(c checker.Counts) int { return c.Jobs.Retried }},
	{"jobs rescued", "", true, func(c checker.Counts) int { return c.Jobs.Rescued }},
	{"jobs dead", "", true, func(c checker.Counts) int { return c.Jobs.DLQ }},
}

func counts(sides []side) (out []cellRow) {
	for _, x := range comparedCounts {
		out = numbers(out, sides, x.name, x.about, func(d side) (cell, float64, bool) {
			if d.Counts.Events == 0 || x.jobs && d.Counts.Jobs == nil {
				return cell{}, 0, false
			}
			n := x.of(d.Counts)
			return cell{Text: measure.FormatCount(n)}, float64(n), true
		})
	}
	return out
}

// ratio writes b by a; "" if it says nothing.
func ratio(b, a float64) string {
	if a <= 0 {
		return ""
	}
	r := b / a
	switch {
	case r >= 100:
		return fmt.Sprintf("×%.0f", r)
	case r >= 10:
		return fmt.Sprintf("×%.1f", r)
	}
	return fmt.Sprintf("×%.2f", r)
}

// phases are those that runs are compared in, in order.
var phases = append(history.Phases[:6:6], measure.AllPhases)

func phaseLabel(p string) string {
	if p == measure.AllPhases {
		return "whole run"
	}
	return p
}
