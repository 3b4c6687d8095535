package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"fencepost/checker"
	"fencepost/harness/record/history"
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
	Badge *badge
	Small string
	Link  string
}

type latencyRow struct {
	Op, Phase string
	Cells     []latencyCell
}

type latencyCell struct {
	P50, P95, P99, Ratio, Class string
	Few, First                  bool
}

type faultRow struct {
	ID    string
	Cells []faultCell
}

type faultCell struct {
	Name, Targets, Trigger, Lasted string
	Badge                          badge
	Evidence                       []string
	Missing                        bool
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
			s.fail(w, http.StatusBadRequest, "Benchmarks are not compared here", e.Name+" is a benchmark: its arms are compared within it, since absolute numbers of two say little.")
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
		s.fail(w, http.StatusBadRequest, "Choose runs to compare", fmt.Sprintf("Choose %d to %d runs in the list, and then “Compare selected”.", leastRuns, mostRuns))
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
	var ids []string
	titles := map[string]string{}
	for _, d := range sides {
		if d.verdict == nil {
			continue
		}
		for _, p := range d.verdict.Properties {
			if !slices.Contains(ids, p.ID) {
				ids, titles[p.ID] = append(ids, p.ID), p.Title
			}
		}
	}
	for _, id := range ids {
		row := cellRow{Name: id, About: titles[id]}
		var first checker.Status
		for _, d := range sides {
			p, ok := d.property(id)
			if !ok {
				row.Cells = append(row.Cells, cell{Text: none})
				continue
			}
			b := statusBadge(p.Status)
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
			if first == "" {
				first = p.Status
			}
			if p.Status != first {
				row.Differs = true
			}
			row.Cells = append(row.Cells, c)
		}
		out = append(out, row)
	}
	return out
}

func counts(sides []side) (out []cellRow) {
	add := func(name, about string, of func(checker.Counts) (int, bool)) {
		row := cellRow{Name: name, About: about}
		var base float64
		known := false
		for i, d := range sides {
			c := cell{Text: none}
			if n, ok := of(d.Counts); ok && d.Counts.Events > 0 {
				c.Text, known = measure.FormatCount(n), true
				if i == 0 {
					base = float64(n)
				} else {
					c.Ratio = ratio(float64(n), base)
				}
			}
			row.Cells = append(row.Cells, c)
		}
		if known {
			out = append(out, row)
		}
	}
	plain := func(f func(checker.Counts) int) func(checker.Counts) (int, bool) {
		return func(c checker.Counts) (int, bool) { return f(c), true }
	}
	jobs := func(f func(*checker.JobCounts) int) func(checker.Counts) (int, bool) {
		return func(c checker.Counts) (int, bool) {
			if c.Jobs == nil {
				return 0, false
			}
			return f(c.Jobs), true
		}
	}
	add("operations", "", plain(func(c checker.Counts) int { return c.Operations }))
	add("cycles", "locks released, or jobs completed", plain(func(c checker.Counts) int { return c.Cycles }))
	add("grants", "of locks or shards", plain(func(c checker.Counts) int { return c.Grants }))
	add("takeovers", "grants from another holder’s lease", plain(func(c checker.Counts) int { return c.Takeovers }))
	add("effects accepted", "", plain(func(c checker.Counts) int { return c.Effects }))
	add("stale writes refused", "", plain(func(c checker.Counts) int { return c.StaleRefused }))
	add("unknown outcomes", "", plain(func(c checker.Counts) int { return c.Unknowns }))
	add("of them settled", "by the final rows", plain(func(c checker.Counts) int { return c.UnknownSettled }))
	add("leases lost", "before their release", plain(func(c checker.Counts) int { return c.LeasesLost }))
	add("faults", "", plain(func(c checker.Counts) int { return c.Faults }))
	add("faults proven", "", plain(func(c checker.Counts) int { return c.FaultsProven }))
	add("jobs enqueued", "", jobs(func(c *checker.JobCounts) int { return c.Enqueued }))
	add("jobs retried", "", jobs(func(c *checker.JobCounts) int { return c.Retried }))
	add("jobs rescued", "", jobs(func(c *checker.JobCounts) int { return c.Rescued }))
	add("jobs dead", "", jobs(func(c *checker.JobCounts) int { return c.DLQ }))
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

// phases are those that runs are compared in, in order, as far as any run has them.
func phases(have func(string) bool) (out []string) {
	for _, p := range append(history.Phases[:6:6], measure.AllPhases) {
		if have(p) {
			out = append(out, p)
		}
	}
	return out
}

func phaseLabel(p string) string {
	if p == measure.AllPhases {
		return "whole run"
	}
	return p
}
