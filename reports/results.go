package reports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/evidence"
	"fencepost/harness/history"
	"fencepost/harness/rundir"
	"fencepost/harness/system"
	"fencepost/reports/measure"
)

// Results returns RESULTS.md: tables of kept chaos runs, of what the known-broken
// variants set off, and of benchmarks. It reads each run's run.json and
// verdict.json, and its latencies from report.json, or from the history if there
// is none. The text depends on the files alone, not on the order of the
// arguments. A run that was not checked is an error: it has no result. sets are
// the stored results of whole sets, by name; power those of `fencepost power`.
func Results(runDirs, benchFiles []string, sets map[string][]evidence.Result, power ...evidence.Result) (string, error) {
	var runs []resultRun
	for _, dir := range runDirs {
		r, err := readResult(dir)
		if err != nil {
			return "", err
		}
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b resultRun) int {
		return cmp.Or(cmp.Compare(a.info.Scenario, b.info.Scenario), cmp.Compare(contentionRank(a.info.Contention), contentionRank(b.info.Contention)),
			cmp.Compare(a.info.TTL, b.info.TTL), cmp.Compare(a.info.SystemText(), b.info.SystemText()), cmp.Compare(a.info.Seed, b.info.Seed), cmp.Compare(a.info.Run, b.info.Run))
	})
	var benches []BenchResult
	for _, f := range benchFiles {
		b, err := ReadBench(f)
		if err != nil {
			return "", err
		}
		benches = append(benches, b)
	}
	slices.SortFunc(benches, func(a, b BenchResult) int { return cmp.Compare(a.Name, b.Name) })

	var md strings.Builder
	md.WriteString("# Results\n\nGenerated from the files of kept runs; do not edit. How a verdict comes about and what the columns mean: docs/reading-a-report.md.\n")
	evidenceTable(&md, sets)
	coreTable(&md, runs)
	rows := Power(system.Directed(), "", power)
	brokenTable(&md, runs, rows)
	powerTables(&md, rows)
	if err := benchTables(&md, benches); err != nil {
		return "", err
	}
	runList(&md, runs)
	return md.String(), nil
}

// resultRun is what Results needs of a run.
type resultRun struct {
	info    rundir.Info
	verdict checker.Result
	// before and during are the headline's p99; ok says that there are both.
	before, during time.Duration
	ok             bool
}

func readResult(dir string) (resultRun, error) {
	var r resultRun
	var err error
	if r.info, err = rundir.ReadInfo(dir); err != nil {
		return r, err
	}
	path := filepath.Join(dir, rundir.VerdictFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("a run without a verdict has no result; check it first: %w", err)
	}
	if err := json.Unmarshal(b, &r.verdict); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	a, err := latenciesOf(dir)
	if err != nil {
		return r, err
	}
	if before, during, ok := a.Headline(); ok && r.verdict.Cold == "" {
		r.before, r.during, r.ok = before.P99, during.P99, true
	}
	return r, nil
}

// latenciesOf takes a run's latencies from report.json, or else from its history.
func latenciesOf(dir string) (*measure.Analysis, error) {
	path := filepath.Join(dir, JSONFile)
	b, err := os.ReadFile(path)
	if err == nil {
		var rep Report
		if err := json.Unmarshal(b, &rep); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return &measure.Analysis{Latencies: rep.Latencies}, nil
	}
	h, err := history.ReadDir(filepath.Join(dir, rundir.HistoryDir))
	if err != nil {
		return nil, err
	}
	return measure.Analyze(h)
}

func contentionRank(c string) int { return slices.Index([]string{"low", "medium", "high"}, c) }

// group is runs of the same kind.
type group struct {
	info rundir.Info
	runs []resultRun
}

// groups joins neighbours with the same key; runs are sorted.
func groups(runs []resultRun, key func(rundir.Info) string) []group {
	var out []group
	for _, r := range runs {
		if n := len(out); n > 0 && key(out[n-1].info) == key(r.info) {
			out[n-1].runs = append(out[n-1].runs, r)
			continue
		}
		out = append(out, group{r.info, []resultRun{r}})
	}
	return out
}

func (g group) sum(of func(checker.Counts) int) string {
	n := 0
	for _, r := range g.runs {
		n += of(r.verdict.Counts)
	}
	return fmt.Sprint(n)
}

func (g group) seeds() string {
	var out []string
	for _, r := range g.runs {
		out = append(out, fmt.Sprint(r.info.Seed))
	}
	return strings.Join(slices.Compact(out), ", ")
}

// verdicts counts verdicts in the order in which they win; what is not wanted is bold.
func (g group) verdicts(want checker.Verdict) string {
	var out []string
	for _, v := range []checker.Verdict{checker.Fail, checker.Invalid, checker.Unknown, checker.Pass} {
		n := 0
		for _, r := range g.runs {
			if r.verdict.Verdict == v {
				n++
			}
		}
		if n == 0 {
			continue
		}
		s := fmt.Sprintf("%d %s", n, v)
		if v != want {
			s = "**" + s + "**"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// p99 is the median over the runs with the least and the greatest.
func (g group) p99(of func(resultRun) float64, text func(float64) string) string {
	var vs []float64
	for _, r := range g.runs {
		if r.ok {
			vs = append(vs, of(r))
		}
	}
	switch s := spreadOf(vs); s.n {
	case 0:
		return "–"
	case 1:
		return text(s.median)
	default:
		return fmt.Sprintf("%s (%s–%s)", text(s.median), text(s.min), text(s.max))
	}
}

func durationText(v float64) string { return measure.FormatDuration(time.Duration(v)) }

// cell makes text safe in a Markdown table.
func cell(s string) string {
	s = strings.NewReplacer("\n", " ", "|", `\|`, "<", "&lt;", ">", "&gt;").Replace(s)
	if s == "" {
		return "–"
	}
	return s
}

func table(md *strings.Builder, head []string, rows [][]string) {
	line := func(cells []string) {
		md.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(head)
	md.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, r := range rows {
		for i := range r {
			r[i] = cell(r[i])
		}
		line(r)
	}
}

func coreTable(md *strings.Builder, runs []resultRun) {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r resultRun) bool { return strings.HasPrefix(r.info.System, "broken/") })
	md.WriteString("\n## Chaos runs\n\n")
	if len(runs) == 0 {
		md.WriteString("No run is kept.\n")
		return
	}
	md.WriteString("Sums are over the runs of a row. Latencies are the p99 of waiting for a lock: the median over the runs, in brackets the least and the greatest.\n\n")
	var rows [][]string
	for _, g := range groups(runs, func(i rundir.Info) string {
		return fmt.Sprint(i.Scenario, "|", i.Contention, "|", i.TTL, "|", i.SystemText())
	}) {
		rows = append(rows, []string{
			g.info.Scenario, g.info.SystemText(), g.info.Contention, measure.FormatDuration(g.info.TTL), fmt.Sprint(len(g.runs)), g.seeds(), g.verdicts(checker.Pass),
			g.sum(func(c checker.Counts) int { return c.Cycles }), g.sum(func(c checker.Counts) int { return c.Takeovers }),
			g.sum(func(c checker.Counts) int { return c.StaleRefused }), g.sum(func(c checker.Counts) int { return c.UnknownSettled }),
			g.p99(func(r resultRun) float64 { return float64(r.before) }, durationText), g.p99(func(r resultRun) float64 { return float64(r.during) }, durationText),
			g.p99(func(r resultRun) float64 { return measure.Ratio(r.during, r.before) }, times),
		})
	}
	table(md, []string{"Scenario", "System", "Contention", "TTL", "Runs", "Seeds", "Verdicts", "Cycles", "Takeovers", "Stale writes refused", "Unknowns settled", "p99 before", "p99 in fault phase", "Ratio"}, rows)
}

// brokenTable shows every known-broken variant, run or not, with what must catch
// it and what did. One that only has runs of make power is in that table.
func brokenTable(md *strings.Builder, runs []resultRun, power []PowerRow) {
	md.WriteString("\n## Known-broken variants\n\nA checker that finds nothing in a broken system proves nothing. Each variant must turn red by one of the properties named; a variant is caught in a run if its verdict is the one expected and one of these properties fired.\n\n")
	var rows [][]string
	for _, v := range system.Directed() {
		mine := slices.DeleteFunc(slices.Clone(runs), func(r resultRun) bool {
			return r.info.System != v.Name || v.Case != "" && (r.info.Scenario != v.Red.Scenario || r.info.Contention != v.Red.Contention)
		})
		if len(mine) == 0 && slices.ContainsFunc(power, func(r PowerRow) bool { return r.name() == v.Label() && r.Runs > 0 }) {
			continue
		}
		if len(mine) == 0 {
			rows = append(rows, []string{v.Label(), v.About, v.Red.Scenario, v.Red.Contention, "not run", expected(v), "–", "–", "–"})
			continue
		}
		for _, g := range groups(mine, func(i rundir.Info) string { return i.Scenario + "|" + i.Contention }) {
			rows = append(rows, []string{
				v.Label(), v.About, g.info.Scenario, g.info.Contention, g.seeds(), expected(v), g.verdicts(v.Red.Verdict), g.fired(), g.caught(v),
			})
		}
	}
	if len(rows) == 0 {
		return // all of them are in the next table
	}
	table(md, []string{"Variant", "What is broken", "Scenario", "Contention", "Seeds", "Must turn red by", "Verdicts", "What fired", "Caught"}, rows)
}

func expected(v system.System) string {
	return fmt.Sprintf("%s (%s)", strings.Join(v.Red.Properties, " or "), v.Red.Verdict)
}

// firedIn lists the properties that are violated, or invalid, in a run.
func firedIn(r resultRun) []string {
	var out []string
	for _, p := range r.verdict.Properties {
		if p.Status == checker.StatusFail || p.Status == checker.StatusInvalid {
			out = append(out, p.ID)
		}
	}
	return out
}

func (g group) fired() string {
	n := map[string]int{}
	var ids []string
	for _, r := range g.runs {
		for _, id := range firedIn(r) {
			if n[id]++; n[id] == 1 {
				ids = append(ids, id)
			}
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for i, id := range ids {
		if n[id] < len(g.runs) {
			ids[i] = fmt.Sprintf("%s (%d of %d)", id, n[id], len(g.runs))
		}
	}
	if len(ids) == 0 {
		return "nothing"
	}
	return strings.Join(ids, ", ")
}

func (g group) caught(v system.System) string {
	n := 0
	for _, r := range g.runs {
		hit := slices.ContainsFunc(firedIn(r), func(id string) bool { return slices.Contains(v.Red.Properties, id) })
		if hit && r.verdict.Verdict == v.Red.Verdict {
			n++
		}
	}
	s := fmt.Sprintf("%d of %d", n, len(g.runs))
	if n == 0 {
		return "**" + s + "**"
	}
	return s
}

func pairs(m map[string]string) []string {
	var out []string
	for _, f := range facts(m) {
		out = append(out, f.Name+" "+f.Value)
	}
	return out
}

func runList(md *strings.Builder, runs []resultRun) {
	if len(runs) == 0 {
		return
	}
	md.WriteString("\n## The runs\n\n")
	var rows [][]string
	for _, r := range runs {
		rows = append(rows, []string{
			r.info.Run, r.info.SystemText(), string(r.verdict.Verdict), fmt.Sprint(r.verdict.Counts.Operations),
			r.info.Versions["fencepost"], r.info.Versions["cassandra"], "`" + strings.ReplaceAll(r.info.Command, "`", "'") + "`",
		})
	}
	table(md, []string{"Run", "System", "Verdict", "Operations", "fencepost", "Cassandra", "Command"}, rows)
}
