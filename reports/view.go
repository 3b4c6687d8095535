package reports

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/history"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/system"
	"fencepost/reports/measure"
)

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

// Facts are what the run was told.
func (r *run) Facts() []fact {
	i := r.Info
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
	if store := i.StoreText(); store != "" {
		out = append(out, fact{"store", store})
	}
	out = append(out, fact{"cluster", orNone(i.Cluster)}, fact{"contention", contention(i)}, fact{"workers", workers(i)},
		fact{"lease TTL", ms(i.TTL)})
	if i.Workload != "" {
		out = append(out, fact{"workload", i.Workload})
	}
	if i.Shards == 0 {
		out = append(out, fact{"hold time", ms(i.Hold)})
	}
	return append(out, startedFact(i.Started, i.Ended)...)
}

// startedFact says when something began and how long it took, as far as that is known.
func startedFact(started, ended time.Time) []fact {
	if started.IsZero() {
		return nil
	}
	v := started.UTC().Format("2006-01-02 15:04:05 UTC")
	if d := ended.Sub(started); !ended.IsZero() && d > 0 {
		v += ", " + measure.FormatDuration(d.Round(time.Second))
	}
	return []fact{{"started", v}}
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

// Tiles are the key numbers.
func (r *run) Tiles() []tile {
	c, count := r.counts(), measure.FormatCount[int]
	unknown := tile{Value: count(c.Unknowns), Name: "unknown outcomes", Note: "not checked, so none decided"}
	if r.Verdict != nil {
		unknown = tile{Value: count(c.UnknownSettled), Name: "unknowns settled", Note: fmt.Sprintf("of %s, by the final rows", count(c.Unknowns))}
	}
	out := []tile{
		{Value: count(c.Cycles), Name: "lock cycles", Note: fmt.Sprintf("%s operations", count(c.Operations))},
		{Value: count(c.Takeovers), Name: "takeovers", Note: fmt.Sprintf("of %s grants", count(max(c.Grants, len(r.Analysis.Grants))))},
		{Value: count(c.StaleRefused), Name: "stale writes refused", Note: "by their fencing token"},
		unknown,
		{Value: count(c.LeasesLost), Name: "leases lost", Note: "before their release"},
		{Value: fmt.Sprintf("%d/%d", c.FaultsProven, c.Faults), Name: "faults proven", Note: "to have taken hold"},
	}
	if n := c.Jobs; n != nil {
		out[0] = tile{Value: count(n.Completed), Name: "jobs completed",
			Note: fmt.Sprintf("of %s enqueued, %s retried, %s dead", count(n.Enqueued), count(n.Retried), count(n.DLQ))}
		if r.Info.System != system.LockPerJob { // it has no shards
			out[1].Note = fmt.Sprintf("of shards; %s runs rescued, trust lost %s times", count(n.Rescued), count(c.LeasesLost))
		}
		out = slices.Delete(out, 4, 5) // leases lost
		out = slices.Insert(out, 1, tile{Value: count(c.Effects), Name: "effects accepted",
			Note: fmt.Sprintf("%s starts, %s at once with another", count(n.Starts), count(n.Overlaps))})
	}
	if n := c.Orders; n != nil {
		out = slices.Insert(out, 2, tile{Value: count(n.Shipped), Name: "orders paid and shipped",
			Note: fmt.Sprintf("of %s placed; %s rejected, %s cancelled", count(n.Placed), count(n.Rejected), count(n.Cancelled))})
	}
	if b, f, ok := r.Analysis.Latencies.Headline(); ok {
		note := "before → fault phase, " + times(measure.Ratio(f.P99, b.P99))
		if len(r.Analysis.Faults) == 0 {
			note = "before → fault phase (no faults)"
		}
		if r.Verdict != nil && r.Verdict.Cold != "" {
			note = "before → fault phase; no ratio: the baseline was not warm"
		}
		out = append(out, tile{
			Value: measure.FormatDuration(b.P99) + " → " + measure.FormatDuration(f.P99),
			Name:  "p99 " + measure.OpTitle(b.Op), Note: note, Class: "wide",
		})
	}
	return out
}

// Properties are those of the verdict.
func (r *run) Properties() []checker.Property {
	if r.Verdict == nil {
		return nil
	}
	return r.Verdict.Properties
}

// Link leads to the section about a property, "" if there is none.
func (r *run) Link(p checker.Property) string {
	switch {
	case p.Status == checker.StatusInvalid && len(r.Why()) > 0:
		return "#why"
	case len(p.Violations) > 0 && p.Status != checker.StatusInvalid:
		return "#" + violationID(p.ID, 0)
	}
	return ""
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

// maxTakeovers bounds the table; report.json has all.
const maxTakeovers = 25

// Takeovers are the first ones.
func (r *run) Takeovers() []measure.Takeover {
	return r.Analysis.Takeovers[:min(len(r.Analysis.Takeovers), maxTakeovers)]
}

// MoreTakeovers is how many follow them.
func (r *run) MoreTakeovers() int { return len(r.Analysis.Takeovers) - len(r.Takeovers()) }

// Clock writes an instant as seconds of the run.
func (r *run) Clock(ts int64) string {
	return fmt.Sprintf("%.3f s", float64(ts-r.Analysis.Start)/1e9)
}

// NotInjected are the faults of the plan that the history lacks.
func (r *run) NotInjected() []string {
	return slices.DeleteFunc(slices.Clone(r.expect.Faults), func(id string) bool {
		return slices.ContainsFunc(r.Analysis.Faults, func(f history.FaultWindow) bool { return f.Fault.ID == id })
	})
}

type fileView struct{ Path, About, Size string }

// Files are the run's: data first, then histories and logs.
func (r *run) Files() (files struct{ Data, Logs []fileView }) {
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
		add(&files.Data, f.Path, f.About)
	}
	for _, f := range written {
		files.Data = append(files.Data, fileView{f.Path, f.About, ""})
	}
	for _, pattern := range []string{rundir.HistoryDir + "/*.jsonl", rundir.LogDir + "/*"} {
		found, _ := filepath.Glob(filepath.Join(r.dir, filepath.FromSlash(pattern)))
		slices.Sort(found)
		for _, f := range found {
			rel, err := filepath.Rel(r.dir, f)
			if err == nil {
				add(&files.Logs, filepath.ToSlash(rel), "")
			}
		}
	}
	return files
}

func facts(m map[string]string) []fact {
	var out []fact
	for k, v := range m {
		out = append(out, fact{k, v})
	}
	slices.SortFunc(out, func(a, b fact) int { return strings.Compare(a.Name, b.Name) })
	return out
}
