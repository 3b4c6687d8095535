package reports

import (
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/harness/history"
	"fencepost/harness/rundir"
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// page is what the template of a run's report shows. All text in it is plain;
// the template escapes it.
type page struct {
	CSS, JS    template.HTML
	Title      string
	Run        string
	Verdict    verdictWord
	Summary    string
	Problems   []string
	Facts      []fact
	Tiles      []tile
	Unseen     []string
	Todo       []string
	Command    string
	Properties []propertyView
	Violations []violationView
	Strip      template.HTML
	Rates      []template.HTML
	Latencies  []template.HTML
	Holders    template.HTML
	Zooms      []zoomView
	Takeovers  []takeoverView
	MoreTakes  int
	Table      []opView
	Headers    []string
	Slowest    []slowView
	Faults     []faultView
	Versions   []fact
	Machine    []fact
	Files      []fileView
	Logs       []fileView
	Data       any
	Short      string // why there are no charts, "" if there are
}

type fact struct{ Name, Value string }

type tile struct {
	Value, Name, Note string
	Class             string
}

func orNone(s string) string {
	if s == "" {
		return "not known"
	}
	return s
}

func (r *run) facts() []fact {
	i := r.info
	if !r.haveInfo {
		return nil
	}
	ms := func(d time.Duration) string {
		if d == 0 {
			return "not known"
		}
		return measure.FormatDuration(d)
	}
	out := []fact{
		{"scenario", orNone(i.Scenario)},
		{"seed", fmt.Sprint(i.Seed)},
		{"system", orNone(i.System)},
		{"cluster", orNone(i.Cluster)},
		{"contention", fmt.Sprintf("%s (%d %s)", orNone(i.Contention), i.Locks, plural(i.Locks, "lock", "locks"))},
		{"workers", fmt.Sprintf("%d × %d %s", i.Workers, i.Clients, plural(i.Clients, "client", "clients"))},
		{"lease TTL", ms(i.TTL)},
		{"hold time", ms(i.Hold)},
	}
	if !i.Started.IsZero() {
		v := i.Started.UTC().Format("2006-01-02 15:04:05 UTC")
		if d := i.Ended.Sub(i.Started); !i.Ended.IsZero() && d > 0 {
			v += ", " + measure.FormatDuration(d.Round(time.Second))
		}
		out = append(out, fact{"started", v})
	}
	return out
}

func (r *run) tiles() []tile {
	c := r.counts()
	unknown := tile{Value: count(c.Unknowns), Name: "unknown outcomes", Note: "not checked, so none decided"}
	if r.verdict != nil {
		unknown = tile{Value: count(c.UnknownSettled), Name: "unknowns settled", Note: fmt.Sprintf("of %s, by the final rows", count(c.Unknowns))}
	}
	out := []tile{
		{Value: count(c.Cycles), Name: "lock cycles", Note: fmt.Sprintf("%s operations", count(c.Operations))},
		{Value: count(c.Takeovers), Name: "takeovers", Note: fmt.Sprintf("of %s grants", count(max(c.Grants, len(r.analysis.Grants))))},
		{Value: count(c.StaleRefused), Name: "stale writes refused", Note: "by their fencing token"},
		unknown,
		{Value: count(c.LeasesLost), Name: "leases lost", Note: "before their release"},
		{Value: fmt.Sprintf("%d/%d", c.FaultsProven, c.Faults), Name: "faults proven", Note: "to have taken hold"},
	}
	if b, f, ok := r.analysis.Headline(); ok {
		note := "before → fault phase, " + times(measure.Ratio(f.P99, b.P99))
		if len(r.analysis.Faults) == 0 {
			note = "before → fault phase (no faults)"
		}
		out = append(out, tile{
			Value: measure.FormatDuration(b.P99) + " → " + measure.FormatDuration(f.P99),
			Name:  "p99 " + measure.OpTitle(b.Op), Note: note, Class: "wide",
		})
	}
	return out
}

type propertyView struct {
	ID, Title, Detail string
	Status            verdictWord
	Checked, Count    string
	Link              string
	Encodings         []fact
	Visualization     string
	Millis            string
}

func (r *run) properties() []propertyView {
	if r.verdict == nil {
		return nil
	}
	var out []propertyView
	for _, p := range r.verdict.Properties {
		v := propertyView{
			ID: p.ID, Title: p.Title, Detail: p.Detail, Status: statusWord(p.Status), Checked: count(p.Checked), Count: count(p.Count),
			Visualization: safeLink(p.Visualization), Millis: measure.FormatDuration(time.Duration(p.Millis * float64(time.Millisecond)).Round(10 * time.Microsecond)),
		}
		if len(p.Violations) > 0 {
			v.Link = "#" + violationID(p.ID, 0)
		}
		for name, res := range p.Encodings {
			v.Encodings = append(v.Encodings, fact{name, res})
		}
		slices.SortFunc(v.Encodings, func(a, b fact) int { return strings.Compare(a.Name, b.Name) })
		out = append(out, v)
	}
	return out
}

// safeLink keeps a path within the run's directory, "" for anything else.
func safeLink(p string) string {
	if p == "" || !filepath.IsLocal(filepath.FromSlash(p)) || strings.Contains(p, ":") {
		return ""
	}
	return p
}

func violationID(property string, i int) string {
	return fmt.Sprintf("violation-%s-%d", property, i+1)
}

type takeoverView struct {
	At, Lock, From, FromToken, Ended, To, ToToken, Idle, TTLs string
}

// maxTakeovers bounds the table; report.json has all.
const maxTakeovers = 25

func (r *run) takeovers() (out []takeoverView, more int) {
	a := r.analysis
	for i, t := range a.Takeovers {
		if i == maxTakeovers {
			return out, len(a.Takeovers) - i
		}
		v := takeoverView{
			At: r.clock(t.Grant.From), Lock: t.Grant.Lock, To: t.Grant.Proc, ToToken: fmt.Sprint(t.Grant.Token),
			From: "not in the history", FromToken: "–", Ended: "–", Idle: "–", TTLs: "–",
		}
		if p := t.From; p != nil {
			v.From, v.FromToken, v.Ended, v.Idle = p.Proc, fmt.Sprint(p.Token), p.EndedBy, measure.FormatDuration(t.Idle)
			if p.TTL > 0 {
				v.TTLs = fmt.Sprintf("%.2f", float64(t.Idle)/float64(p.TTL))
			}
		}
		out = append(out, v)
	}
	return out, 0
}

// clock writes an instant as seconds of the run.
func (r *run) clock(ts int64) string {
	return fmt.Sprintf("%.3f s", float64(ts-r.analysis.Start)/1e9)
}

type opView struct {
	Title, About string
	Rows         []latencyView
}

type latencyView struct {
	Phase                                      string
	OK, Fail, Unknown, P50, P95, P99, Max      string
	N                                          int
	Few, HasRange, All, Fault                  bool
	Left, Width, MaxAt                         float64 // of the range bar, in percent
	Ratio, RatioClass, RangeLabel, UnknownMark string
}

// latencyTable makes the table's rows with their range bars on one log scale.
func (r *run) latencyTable() (out []opView, scale []string) {
	lo, hi := math.Inf(1), 0.0
	for _, l := range r.analysis.Latencies {
		if l.OK > 0 {
			lo, hi = min(lo, l.P50.Seconds()), max(hi, l.Max.Seconds())
		}
	}
	lo, hi = math.Pow(10, math.Floor(math.Log10(max(lo, 1e-6)))), math.Pow(10, math.Ceil(math.Log10(max(hi, 1e-6))))
	if hi <= lo || math.IsInf(lo, 0) {
		lo, hi = 1e-3, 1
	}
	at := func(d time.Duration) float64 {
		return min(max(100*math.Log10(max(d.Seconds(), lo)/lo)/math.Log10(hi/lo), 0), 100)
	}
	for _, l := range r.analysis.Latencies {
		title := measure.OpTitle(l.Op)
		if len(out) == 0 || out[len(out)-1].Title != title {
			out = append(out, opView{Title: title, About: measure.OpAbout(l.Op)})
		}
		op := &out[len(out)-1]
		op.Rows = append(op.Rows, r.latencyRow(l, at))
	}
	for i := range out {
		out[i].Rows = worthShowing(out[i].Rows)
	}
	return out, []string{measure.FormatDuration(time.Duration(lo * 1e9)), measure.FormatDuration(time.Duration(hi * 1e9))}
}

// fewRow is the number of operations below which a phase's row stands in
// latency.csv only, unless the phase is one that a reader looks for.
const fewRow = 10

func worthShowing(rows []latencyView) []latencyView {
	if len(rows) == 2 { // a single phase and the same again as the whole run
		return rows[:1]
	}
	out := slices.DeleteFunc(slices.Clone(rows), func(v latencyView) bool {
		return v.N < fewRow && !v.All && !slices.Contains([]string{measure.PhaseBefore, measure.PhaseFault, "recover"}, v.Phase)
	})
	if len(out) == 1 { // few operations in all: then every row says something
		return rows
	}
	return out
}

func (r *run) latencyRow(l measure.Latency, at func(time.Duration) float64) latencyView {
	v := latencyView{
		Phase: l.Phase, N: l.Count(), Fault: l.Phase == measure.PhaseFault && len(r.analysis.Faults) > 0, OK: count(l.OK), Fail: count(l.Fail), Unknown: count(l.Unknown),
		P50: "–", P95: "–", P99: "–", Max: "–", Ratio: "", All: l.Phase == measure.AllPhases,
	}
	switch l.Phase {
	case "":
		v.Phase = "set-up"
	case measure.AllPhases:
		v.Phase = "whole run"
	}
	if l.Unknown > 0 {
		v.UnknownMark = "unknown"
	}
	if l.OK == 0 {
		return v
	}
	v.Few, v.HasRange = l.Few(), true
	v.P50, v.P95, v.P99, v.Max = measure.FormatDuration(l.P50), measure.FormatDuration(l.P95), measure.FormatDuration(l.P99), measure.FormatDuration(l.Max)
	v.Left, v.MaxAt = at(l.P50), at(l.Max)
	v.Width = max(at(l.P99)-v.Left, 1)
	v.RangeLabel = fmt.Sprintf("p50 %s to p99 %s, maximum %s", v.P50, v.P99, v.Max)
	if b, ok := r.analysis.Latency(l.Op, measure.PhaseBefore); ok && b.OK > 0 && r.afterBefore(l.Phase) {
		ratio := measure.Ratio(l.P99, b.P99)
		v.Ratio = times(ratio)
		if ratio >= 2 {
			v.RatioClass = "up"
		}
	}
	return v
}

// afterBefore says that a phase comes after the undisturbed one, so that a
// comparison with it says something.
func (r *run) afterBefore(phase string) bool {
	names := r.analysis.PhaseNames()
	return slices.Index(names, phase) > slices.Index(names, measure.PhaseBefore)
}

type slowView struct{ At, Phase, Op, Proc, Key, Latency, Outcome, Where, Link string }

// maxSlowest bounds the table of single slow operations.
const maxSlowest = 10

func (r *run) slowest() []slowView {
	type entry struct {
		op history.Operation
		d  time.Duration
	}
	var all []entry
	for _, op := range r.analysis.Ops {
		if op.End.TS != 0 && op.Outcome != history.Fail && measure.Client(op.Invoke.Proc) && op.Invoke.Op != history.OpLock {
			all = append(all, entry{op, time.Duration(op.End.TS - op.Invoke.TS)})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return int(min(max(b.d-a.d, -1), 1)) })
	var out []slowView
	for _, e := range all[:min(len(all), maxSlowest)] {
		in := e.op.Invoke
		out = append(out, slowView{
			At: r.clock(in.TS), Phase: r.analysis.PhaseAt(in.TS), Op: chart.OperationText(e.op), Proc: in.Proc, Key: in.Key,
			Latency: measure.FormatDuration(e.d), Outcome: string(e.op.Outcome),
			Where: fmt.Sprintf("%s:%d", relative(in.File), in.Line), Link: relative(in.File),
		})
	}
	return out
}

type faultView struct {
	ID, Name, Targets, Trigger, Window, Lasted string
	Status                                     verdictWord
	Evidence                                   []string
	Color                                      template.CSS
}

func (r *run) faults() []faultView {
	var out []faultView
	var have []string
	for _, f := range r.analysis.Faults {
		have = append(have, f.Fault.ID)
		v := faultView{
			ID: f.Fault.ID, Name: f.Fault.Name, Targets: strings.Join(f.Fault.Targets, ", "), Trigger: f.Fault.Trigger,
			Window: r.clock(f.From) + " – " + r.clock(f.To), Lasted: measure.FormatDuration(time.Duration(f.To - f.From)),
			Status: verdictWord{Word: "not proven", Class: "invalid", Icon: "warn"},
			Color:  template.CSS(chart.FaultColor(f.Fault.Name).Var()), // a palette constant
		}
		if f.Proven {
			v.Status = verdictWord{Word: "proven", Class: "pass", Icon: "check"}
		}
		for _, e := range f.Evidence {
			if e.Fault.Text != "" {
				v.Evidence = append(v.Evidence, e.Fault.Text)
			}
		}
		if len(v.Evidence) == 0 {
			v.Evidence = []string{"no evidence was recorded"}
		}
		out = append(out, v)
	}
	for _, id := range r.expect.Faults {
		if !slices.Contains(have, id) {
			out = append(out, faultView{ID: id, Name: "planned", Window: "never injected", Lasted: "–", Status: verdictWord{Word: "not proven", Class: "invalid", Icon: "warn"}, Evidence: []string{"the plan has it, the history does not"}, Color: "transparent"})
		}
	}
	return out
}

type fileView struct{ Path, About, Size string }

func (r *run) files() (data, logs []fileView) {
	add := func(to *[]fileView, path, about string) {
		st, err := os.Stat(filepath.Join(r.dir, filepath.FromSlash(path)))
		if err != nil || st.IsDir() {
			return
		}
		*to = append(*to, fileView{path, about, size(st.Size())})
	}
	for _, f := range []fileView{
		{rundir.PlanFile, "the scenario with every drawn value", ""},
		{rundir.InfoFile, "what was run, where, with which versions", ""},
		{rundir.VerdictFile, "the checker's result", ""},
	} {
		add(&data, f.Path, f.About)
	}
	for _, f := range written {
		data = append(data, fileView{f.Path, f.About, ""})
	}
	for _, pattern := range []string{rundir.HistoryDir + "/*.jsonl", rundir.LogDir + "/*"} {
		found, _ := filepath.Glob(filepath.Join(r.dir, filepath.FromSlash(pattern)))
		slices.Sort(found)
		for _, f := range found {
			rel, err := filepath.Rel(r.dir, f)
			if err == nil {
				add(&logs, filepath.ToSlash(rel), "")
			}
		}
	}
	return data, logs
}

func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

func facts(m map[string]string) []fact {
	var out []fact
	for k, v := range m {
		out = append(out, fact{k, v})
	}
	slices.SortFunc(out, func(a, b fact) int { return strings.Compare(a.Name, b.Name) })
	return out
}
