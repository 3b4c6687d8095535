package serve

import (
	"net/http"
	"time"
)

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
	p := listPage{frame: frame{Title: "Runs", Tab: "runs", Scripts: []string{"list.js"}}, Path: q.Path(), Clear: Query{Bench: q.Bench, Sort: q.Sort, Down: q.Down}.Path()}
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
