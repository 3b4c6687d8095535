package reports

import (
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/system"
	"fencepost/reports/chart"
	"fencepost/reports/measure"
)

// page is what the template of a run's report shows. All text in it is plain;
// the template escapes it.
type page struct {
	head
	Title      string
	Run        string
	Verdict    verdictWord
	Answer     answerView
	Problems   []string
	Ended      string // why the run ended early
	Facts      []fact
	Tiles      []tile
	Notes      []string // what weakens the verdict, of a cluster that is not the harness's own
	Why, Todo  []string
	Command    string
	Properties []propertyView
	Cause      *explanationView // nil: there is nothing to explain
	Violations []violationView
	Strip      template.HTML
	Latencies  []chart.Curves
	Takeovers  []takeoverView
	MoreTakes  int
	Thresholds []thresholdView
	Table      []opView
	Headers    []string
	Slowest    []slowView
	Faults     []faultView
	Recovery   recoveryView
	Versions   []fact
	Machine    []fact
	Files      []fileView
	Logs       []fileView
	// Interactive is the time line that scripts draw; nil: there is nothing to draw.
	Interactive *timelineData
	Jumps       []jump // from the verdict to the violations
	Short       string // why there are no charts, "" if there are
}

// answerView is the answer as the verdict's card shows it.
type answerView struct {
	Sentence                string
	Mistakes                int // how many fit equally well; 0: one does, or none
	Exercised, NotExercised []string
}

func (r *run) answerView() answerView {
	a := r.answer()
	v := answerView{Sentence: sentenceCase(a.Sentence()), Exercised: sentences(a.Exercised), NotExercised: sentences(a.NotExercised)}
	if len(a.Mechanisms) > 1 {
		v.Mistakes = len(a.Mechanisms)
	}
	return v
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
	}
	if i.Sink != "" { // older runs do not say
		out = append(out, fact{"sink", i.Sink})
	}
	out = append(out, fact{"cluster", orNone(i.Cluster)}, fact{"contention", contention(i)}, fact{"workers", workers(i)}, fact{"lease TTL", ms(i.TTL)})
	if i.Shards == 0 {
		out = append(out, fact{"hold time", ms(i.Hold)})
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

func contention(i rundir.Info) string {
	if i.Workers == 0 && i.Contention == "" {
		return "none"
	}
	n, what := i.Locks, plural(i.Locks, "lock", "locks")
	if i.Shards > 0 {
		n, what = i.Shards, plural(i.Shards, "shard", "shards")
		if i.System == system.LockPerJob {
			what = plural(i.Shards, "bucket", "buckets")
		}
	}
	return fmt.Sprintf("%s (%d %s)", orNone(i.Contention), n, what)
}

func workers(i rundir.Info) string {
	if i.Workers == 0 {
		return "none: the runner itself is the client"
	}
	if i.Shards > 0 {
		return fmt.Sprintf("%d %s, %g jobs/s", i.Workers, plural(i.Workers, "scheduler", "schedulers"), i.JobRate)
	}
	return fmt.Sprintf("%d × %d %s", i.Workers, i.Clients, plural(i.Clients, "client", "clients"))
}

func (r *run) tiles() []tile {
	c := r.counts()
	unknown := tile{Value: measure.FormatCount(c.Unknowns), Name: "unknown outcomes", Note: "not checked, so none decided"}
	if r.verdict != nil {
		unknown = tile{Value: measure.FormatCount(c.UnknownSettled), Name: "unknowns settled", Note: fmt.Sprintf("of %s, by the final rows", measure.FormatCount(c.Unknowns))}
	}
	out := []tile{
		{Value: measure.FormatCount(c.Cycles), Name: "lock cycles", Note: fmt.Sprintf("%s operations", measure.FormatCount(c.Operations))},
		{Value: measure.FormatCount(c.Takeovers), Name: "takeovers", Note: fmt.Sprintf("of %s grants", measure.FormatCount(max(c.Grants, len(r.analysis.Grants))))},
		{Value: measure.FormatCount(c.StaleRefused), Name: "stale writes refused", Note: "by their fencing token"},
		unknown,
		{Value: measure.FormatCount(c.LeasesLost), Name: "leases lost", Note: "before their release"},
		{Value: fmt.Sprintf("%d/%d", c.FaultsProven, c.Faults), Name: "faults proven", Note: "to have taken hold"},
	}
	if n := c.Jobs; n != nil {
		out[0] = tile{Value: measure.FormatCount(n.Completed), Name: "jobs completed", Note: fmt.Sprintf("of %s enqueued, %s retried, %s dead", measure.FormatCount(n.Enqueued), measure.FormatCount(n.Retried), measure.FormatCount(n.DLQ))}
		if r.info.System != system.LockPerJob { // it has no shards
			out[1].Note = fmt.Sprintf("of shards; %s runs rescued, trust lost %s times", measure.FormatCount(n.Rescued), measure.FormatCount(c.LeasesLost))
		}
		out = slices.Delete(out, 4, 5) // leases lost
		out = slices.Insert(out, 1, tile{Value: measure.FormatCount(c.Effects), Name: "effects accepted", Note: fmt.Sprintf("%s starts, %s at once with another", measure.FormatCount(n.Starts), measure.FormatCount(n.Overlaps))})
	}
	if n := c.Orders; n != nil {
		out = slices.Insert(out, 2, tile{Value: measure.FormatCount(n.Shipped), Name: "orders paid and shipped", Note: fmt.Sprintf("of %s placed; %s rejected, %s cancelled", measure.FormatCount(n.Placed), measure.FormatCount(n.Rejected), measure.FormatCount(n.Cancelled))})
	}
	if b, f, ok := r.analysis.Headline(); ok {
		note := "before → fault phase, " + times(measure.Ratio(f.P99, b.P99))
		if len(r.analysis.Faults) == 0 {
			note = "before → fault phase (no faults)"
		}
		if r.verdict != nil && r.verdict.Cold != "" {
			note = "before → fault phase; no ratio: the baseline was not warm"
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
			ID: p.ID, Title: p.Title, Detail: p.Detail, Status: statusWord(p.Status), Checked: measure.FormatCount(p.Checked), Count: measure.FormatCount(p.Count),
			Visualization: safeLink(p.Visualization), Millis: measure.FormatDuration(time.Duration(p.Millis * float64(time.Millisecond)).Round(10 * time.Microsecond)),
		}
		switch {
		case p.Status == checker.StatusInvalid && len(r.why()) > 0:
			v.Link = "#why"
		case len(p.Violations) > 0 && p.Status != checker.StatusInvalid:
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

type thresholdView struct {
	Name, Detail string
	Status       verdictWord
}

func (r *run) thresholds() (out []thresholdView) {
	if r.verdict == nil {
		return nil
	}
	for _, b := range r.verdict.Thresholds {
		out = append(out, thresholdView{b.Name, sentenceCase(b.Detail), statusWord(b.Status)})
	}
	return out
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
			if e.Fault().Text != "" {
				v.Evidence = append(v.Evidence, e.Fault().Text)
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
		*to = append(*to, fileView{path, about, measure.FormatSize(st.Size())})
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

func facts(m map[string]string) []fact {
	var out []fact
	for k, v := range m {
		out = append(out, fact{k, v})
	}
	slices.SortFunc(out, func(a, b fact) int { return strings.Compare(a.Name, b.Name) })
	return out
}
