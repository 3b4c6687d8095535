package serve

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
)

// runPage is what run.html shows.
type runPage struct {
	frame
	*Entry
	Live       *Live // of any run that has a progress.jsonl
	Events     string
	Facts      []setting
	Properties []checker.Property
	Data, More []fileInfo
	Notes      []string
	Stages     []stage
	Curve      curve
	Follow     bool // the page goes on by itself
	Explained  bool // the report has a section on the likely cause
}

// stage is a part of a run on the page: done, now, or to come.
type stage struct{ Name, Class string }

// runPage answers with the page of a run or of a benchmark.
func (s *Server) runPage(w http.ResponseWriter, _ *http.Request, e *Entry) {
	p := runPage{frame: frame{Title: e.Name}, Entry: e, Live: e.Live, Events: "/events/" + escapePath(e.Name), Facts: e.facts()}
	if e.Bench() {
		p.Tab = "benchmarks"
	} else {
		p.Tab = "runs"
		s.addVerdict(&p)
	}
	if p.Live == nil && !e.Bench() {
		l, err := readLive(filepath.Join(e.dir, progressFile))
		switch {
		case err == nil:
			p.Live = l
		case !missing(err):
			p.Notes = append(p.Notes, e.local(err))
		}
	}
	if l := p.Live; l != nil {
		p.Stages, p.Curve = l.stages(), l.curve()
		if l.Alive && !l.Over {
			p.Follow, p.Scripts = true, []string{"live.js"}
		}
	}
	for _, f := range s.files(e) {
		if strings.HasPrefix(f.Path, rundir.HistoryDir+"/") || strings.HasPrefix(f.Path, rundir.LogDir+"/") ||
			strings.HasPrefix(f.Path, reports.PlotDir+"/") {
			p.More = append(p.More, f)
		} else {
			p.Data = append(p.Data, f)
		}
	}
	s.show(w, http.StatusOK, "run.html", p)
}

func (s *Server) addVerdict(p *runPage) {
	var v checker.Result
	err := s.readJSON(p.Entry, rundir.VerdictFile, &v)
	switch {
	case err == nil:
		p.Properties = v.Properties
	case !missing(err):
		p.Notes = append(p.Notes, p.local(err))
	}
	switch checker.Verdict(p.State) {
	case checker.Fail, checker.Invalid, checker.Unknown:
		p.Explained = p.Report != ""
	}
}

// facts are the settings that a run's page shows.
func (e *Entry) facts() (out []setting) {
	hidden := []string{"interrupted"}
	if e.Bench() {
		hidden = append(hidden, "scenario", "system")
	}
	for _, f := range e.told() {
		if f.Value != "" && !slices.Contains(hidden, f.Name) {
			out = append(out, f)
		}
	}
	if !e.Info.Started.IsZero() {
		out = append(out, setting{"started (UTC)", when(e.Info.Started)})
	}
	if d := e.Took(); d > 0 {
		out = append(out, setting{"took", took(d)})
	}
	if c := e.Commit(); c != "" {
		out = append(out, setting{"commit", c})
	}
	return out
}

// stages are the usual parts of a run, and those that this one had besides.
func (l *Live) stages() (out []stage) {
	names := []string{"setting up", "warmup", "before", "fault", "heal", "recover", "settle", "seal", "checking", "over"}
	for _, p := range l.Phases {
		if !slices.Contains(names, p.Phase) {
			at := slices.Index(names, "settle")
			names = slices.Insert(names, at, p.Phase)
		}
	}
	now := slices.Index(names, l.Phase())
	for i, n := range names[:len(names)-1] {
		class := "next"
		switch {
		case i < now:
			class = "done"
		case i == now:
			class = "now"
		}
		out = append(out, stage{n, class})
	}
	return out
}

// curve is the rate over time as an SVG path, with the faults behind it. live.js
// draws the same while the run goes on.
type curve struct {
	Path  string
	Bands []band
	Top   string // of the y axis
	End   string // of the x axis
	Empty bool
}

type band struct{ X, W, Label string }

// The drawing's frame, in its own units; live.js knows them too.
const (
	curveW = 1000.0
	curveH = 120.0
)

func (l *Live) curve() curve {
	if len(l.Seen) == 0 {
		return curve{Empty: true, Top: "0", End: clock(l.T)}
	}
	top, end := 1.0, max(l.T, 1)
	for _, r := range l.Seen {
		top = max(top, r.Rates.PerSecond)
	}
	var c curve
	var b strings.Builder
	for i, r := range l.Seen {
		op := "L"
		if i == 0 {
			op = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", op, r.T/end*curveW, curveH-max(r.Rates.PerSecond, 0)/top*curveH)
	}
	for _, f := range l.Faults {
		to := f.To
		if to == 0 {
			to = end
		}
		c.Bands = append(c.Bands, band{fmt.Sprintf("%.1f", f.From/end*curveW), fmt.Sprintf("%.1f", max(to-f.From, 0)/end*curveW), f.ID})
	}
	c.Path, c.Top, c.End = b.String(), fmt.Sprintf("%.0f", top), clock(end)
	return c
}

// listPage is what list.html shows.
type listPage struct {
	frame
	Query   Query
	Path    string // of the query
	Filters []filterView
	Columns []columnView
	Rows    []*Entry
	N       int // all that the query leaves
	All     int // without it
	Running int
	Version uint64
	Problem string
	From    string
	To      string
	// Prev and Next are the neighbouring pages' addresses, "" for none.
	Prev, Next  string
	First, Last int // entries of this page, from 1
	Took        time.Duration
	Clear       string
}

type filterView struct {
	filter
	Options []option
}

type columnView struct {
	column
	Path   string // sorted by it
	Sorted string // ascending, descending; "" if it is not sorted by
}

// list answers with the list of runs or of benchmarks.
func (s *Server) list(bench bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := ParseQuery(r.URL.Query(), bench)
		if err != nil {
			s.fail(w, http.StatusBadRequest, "The list cannot be narrowed so", err.Error())
			return
		}
		all, version, err := s.index.List()
		p := q.view(all)
		p.Version, p.Took = version, s.index.Took()
		if err != nil {
			p.Problem = err.Error()
		}
		s.show(w, http.StatusOK, "list.html", p)
	}
}

// view makes the page of a query.
func (q Query) view(all []*Entry) listPage {
	p := listPage{frame: frame{Title: "Runs", Tab: "runs", Scripts: []string{"list.js"}}, Path: q.Path(),
		Clear: Query{Bench: q.Bench, Sort: q.Sort, Down: q.Down}.Path()}
	if q.Bench {
		p.Title, p.Tab = "Benchmarks", "benchmarks"
	}
	for _, e := range all {
		if e.Bench() == q.Bench {
			p.All++
		}
		if e.State == Running {
			p.Running++
		}
	}
	for _, f := range q.filters() {
		p.Filters = append(p.Filters, filterView{f, q.options(f, all)})
	}
	chosen := q.Choose(all)
	p.N = len(chosen)
	last := max((p.N+perPage-1)/perPage, 1)
	q.Page = min(q.Page, last)
	from, to := (q.Page-1)*perPage, min(q.Page*perPage, p.N)
	p.Rows, p.First, p.Last = chosen[from:to], min(from+1, p.N), to
	if q.Page > 1 {
		p.Prev = q.page(q.Page - 1)
	}
	if q.Page < last {
		p.Next = q.page(q.Page + 1)
	}
	for _, c := range q.columns() {
		p.Columns = append(p.Columns, q.column(c))
	}
	if !q.From.IsZero() {
		p.From = q.From.Format(dayLayout)
	}
	if !q.To.IsZero() {
		p.To = q.To.Format(dayLayout)
	}
	p.Query = q
	return p
}

func (q Query) page(n int) string {
	q.Page = n
	return q.Path()
}

// column is a column's head: choosing it sorts by it, and again the other way.
func (q Query) column(c column) columnView {
	v := columnView{column: c}
	to := q
	to.Page, to.Sort, to.Down = 1, c.Key, c.Number
	if q.Sort == c.Key {
		v.Sorted, to.Down = "ascending", !q.Down
		if q.Down {
			v.Sorted = "descending"
		}
	}
	v.Path = to.Path()
	return v
}

// Order is the sort parameter that a search keeps, "" for the usual one.
func (p listPage) Order() string {
	if s := p.Query.order(); s != "-"+sortStarted {
		return s
	}
	return ""
}
