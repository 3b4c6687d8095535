package serve

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Query says which entries are shown, and in which order. It is a page's address.
type Query struct {
	Bench bool   // benchmarks instead of runs
	Text  string // every word must be in an entry
	// Of holds the chosen value of each filter that is set.
	Of       map[string]string
	From, To time.Time // of the begin, by day in UTC; zero: no bound
	Sort     string    // a column's key, "" for the begin
	Down     bool      // the greatest first
	Page     int       // from 1
}

// filter is a setting that the list can be narrowed by.
type filter struct {
	Key, Label string
	Of         func(*Entry) string
}

var filters = []filter{
	{"verdict", "Verdict", func(e *Entry) string { return string(e.State) }},
	{"scenario", "Scenario", func(e *Entry) string { return e.Info.Scenario }},
	{"system", "System", func(e *Entry) string { return e.Info.System }},
	{"sink", "Sink", func(e *Entry) string { return e.Info.Sink }},
	{"contention", "Contention", func(e *Entry) string { return e.Info.Contention }},
	{"backend", "Cluster", func(e *Entry) string { return e.Info.Cluster }},
	{"commit", "Commit", (*Entry).Commit},
}

// benchFilters are those that a benchmark has a value for.
var benchFilters = []string{"backend", "commit"}

func (q Query) filters() []filter {
	if !q.Bench {
		return filters
	}
	return slices.DeleteFunc(slices.Clone(filters), func(f filter) bool { return !slices.Contains(benchFilters, f.Key) })
}

// column is one of the list's that can be sorted by. Those of numbers have the
// greatest first when they are chosen.
type column struct {
	Key, Label string
	Number     bool
	Compare    func(a, b *Entry) int
}

func byText(of func(*Entry) string) func(a, b *Entry) int {
	return func(a, b *Entry) int { return strings.Compare(of(a), of(b)) }
}

func byNumber[N cmp.Ordered](of func(*Entry) N) func(a, b *Entry) int {
	return func(a, b *Entry) int { return cmp.Compare(of(a), of(b)) }
}

// severity orders states by how much they ask for attention.
var severity = []State{Running, "FAIL", "INVALID", "UNKNOWN", BrokenOff, Unreadable, NotChecked, "PASS", Measured}

const (
	sortStarted = "started"
	sortVerdict = "verdict"
)

var runColumns = []column{
	{sortVerdict, "Verdict", false, byNumber(func(e *Entry) int { return slices.Index(severity, e.State) })},
	{"scenario", "Scenario", false, byText(func(e *Entry) string { return e.Info.Scenario })},
	{"system", "System", false, byText(func(e *Entry) string { return e.Info.System })},
	{"contention", "Contention", false, byNumber(func(e *Entry) int {
		return slices.Index([]string{"", "low", "medium", "high"},
			e.Info.Contention)
	})},
	{"seed", "Seed", true, byNumber(func(e *Entry) uint64 { return e.Info.Seed })},
	{sortStarted, "Started (UTC)", true, func(a, b *Entry) int { return a.Info.Started.Compare(b.Info.Started) }},
	{"took", "Took", true, byNumber((*Entry).Took)},
	{"cycles", "Cycles", true, byNumber((*Entry).Cycles)},
	{"takeovers", "Takeovers", true, byNumber(func(e *Entry) int { return e.Counts.Takeovers })},
	{"recovery", "Recovery", true, byNumber(func(e *Entry) time.Duration { return e.Recovery })},
}

var benchColumns = []column{
	{"name", "Benchmark", false, byText(func(e *Entry) string { return e.Name })},
	{sortStarted, "Started (UTC)", true, func(a, b *Entry) int { return a.Info.Started.Compare(b.Info.Started) }},
	{"took", "Took", true, byNumber((*Entry).Took)},
	{"arms", "Arms", true, byNumber(func(e *Entry) int { return e.Arms })},
	{"commit", "Commit", false, byText((*Entry).Commit)},
}

func (q Query) columns() []column {
	if q.Bench {
		return benchColumns
	}
	return runColumns
}

// Cycles are the checker's, or the running run's own.
func (e *Entry) Cycles() int64 {
	if e.Live != nil {
		return e.Live.Rates.Cycles
	}
	return int64(e.Counts.Cycles)
}

// perPage is how many entries a page of the list has.
const perPage = 100

// maxText bounds what is searched for, in bytes.
const maxText = 200

const dayLayout = "2006-01-02"

// ParseQuery reads a page's address. An error names the parameter that is wrong.
func ParseQuery(v url.Values, bench bool) (Query, error) {
	q := Query{Bench: bench, Text: strings.TrimSpace(v.Get("q")), Of: map[string]string{}, Sort: sortStarted, Down: true, Page: 1}
	if len(q.Text) > maxText {
		return q, fmt.Errorf("q: more than %d bytes to search for", maxText)
	}
	for _, f := range q.filters() {
		if s := v.Get(f.Key); s != "" {
			q.Of[f.Key] = s
		}
	}
	for _, d := range []struct {
		key string
		to  *time.Time
	}{{"from", &q.From}, {"to", &q.To}} {
		if s := v.Get(d.key); s != "" {
			t, err := time.Parse(dayLayout, s)
			if err != nil {
				return q, fmt.Errorf("%s: %q is not a day, such as 2026-11-21", d.key, s)
			}
			*d.to = t
		}
	}
	if s := v.Get("sort"); s != "" {
		key, down := strings.CutPrefix(s, "-")
		if !slices.ContainsFunc(q.columns(), func(c column) bool { return c.Key == key }) {
			return q, fmt.Errorf("sort: there is no column %q", key)
		}
		q.Sort, q.Down = key, down
	}
	if s := v.Get("page"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return q, fmt.Errorf("page: %q is not a number from 1", s)
		}
		q.Page = n
	}
	return q, nil
}

// Path is the query as an address; ParseQuery reads it back.
func (q Query) Path() string {
	v := url.Values{}
	if q.Text != "" {
		v.Set("q", q.Text)
	}
	for k, s := range q.Of {
		v.Set(k, s)
	}
	if !q.From.IsZero() {
		v.Set("from", q.From.Format(dayLayout))
	}
	if !q.To.IsZero() {
		v.Set("to", q.To.Format(dayLayout))
	}
	if s := q.order(); s != "-"+sortStarted {
		v.Set("sort", s)
	}
	if q.Page > 1 {
		v.Set("page", strconv.Itoa(q.Page))
	}
	path := "/"
	if q.Bench {
		path = "/benchmarks"
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// order is the sort parameter.
func (q Query) order() string {
	if q.Down {
		return "-" + q.Sort
	}
	return q.Sort
}

// Narrowed says that the query leaves something out.
func (q Query) Narrowed() bool {
	return q.Text != "" || len(q.Of) > 0 || !q.From.IsZero() || !q.To.IsZero()
}

// words is all of an entry that a search looks into, in lower case.
func (e *Entry) words() string {
	i := e.Info
	parts := []string{
		e.Name, string(e.State), i.Scenario, i.About, i.System, i.Sink, i.Contention, i.Workload, i.Cluster, fmt.Sprintf("seed=%d", i.Seed), i.Command,
		i.ReplayOf,
		e.Summary, e.Commit(), e.Problem, strings.Join(e.Failed, " "), strings.Join(e.Problems, " "),
	}
	return strings.ToLower(strings.Join(parts, "\n"))
}

// matches says whether an entry is chosen; the filter with the key except is left out.
func (q Query) matches(e *Entry, except string) bool {
	if e.Bench() != q.Bench {
		return false
	}
	for _, f := range q.filters() {
		if want, ok := q.Of[f.Key]; ok && f.Key != except && f.Of(e) != want {
			return false
		}
	}
	if !q.From.IsZero() && e.Info.Started.Before(q.From) || !q.To.IsZero() && !e.Info.Started.Before(q.To.AddDate(0, 0, 1)) {
		return false
	}
	if q.Text == "" {
		return true
	}
	have := e.words()
	for _, w := range strings.Fields(strings.ToLower(q.Text)) {
		if !strings.Contains(have, w) {
			return false
		}
	}
	return true
}

// Choose returns the entries of the query in its order, all pages. all is the
// newest first, which decides between equals.
func (q Query) Choose(all []*Entry) []*Entry {
	var out []*Entry
	for _, e := range all {
		if q.matches(e, "") {
			out = append(out, e)
		}
	}
	i := slices.IndexFunc(q.columns(), func(c column) bool { return c.Key == q.Sort })
	by := q.columns()[i].Compare
	slices.SortStableFunc(out, func(a, b *Entry) int {
		if q.Down {
			return by(b, a)
		}
		return by(a, b)
	})
	return out
}

// option is a value of a filter, with how many entries it would leave.
type option struct {
	Value    string
	N        int
	Selected bool
}

// options are a filter's values among the entries that the other filters leave.
func (q Query) options(f filter, all []*Entry) []option {
	count := map[string]int{}
	for _, e := range all {
		if v := f.Of(e); v != "" && q.matches(e, f.Key) {
			count[v]++
		}
	}
	if want := q.Of[f.Key]; want != "" && count[want] == 0 {
		count[want] = 0 // what is chosen stays to be seen
	}
	var out []option
	for _, v := range slices.Sorted(maps.Keys(count)) {
		out = append(out, option{v, count[v], q.Of[f.Key] == v})
	}
	return out
}
