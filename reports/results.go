package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/target/system"
	"fencepost/internal/score"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// What is kept, in the directory of all results: files with the ending of a store, and a line a
// run.
const (
	KeptChaos    = "chaos"
	KeptBench    = "bench"
	KeptEvidence = "evidence" // a directory with a file a set
	KeptPower    = "power"
	KeptField    = "field" // one of evidence's sets
	KeptScores   = "scores"
)

// Kept is what RESULTS.md is made of.
type Kept struct {
	// Tree is the digest of what decides a verdict today; results of another one stand
	// below. "": all count as today's.
	Tree string
	// Runs are single chaos runs.
	Runs    []evidence.Result
	Benches []BenchResult
	// Sets are the stored results of whole sets, by name; Power those of `fencepost power`.
	Sets  map[string][]evidence.Result
	Power []evidence.Result
	// Scores are of trials by the thousand.
	Scores []score.Score
	// Notes are of the runs that did not end as they should, by result.
	Notes map[string]evidence.Note
}

// Results returns RESULTS.md: tables of kept chaos runs, of what the known-broken
// variants set off, and of benchmarks. The text depends on what is kept and on the known-broken
// variants alone, not on the order of anything.
func Results(k Kept) (string, error) {
	all := k.sorted()
	var md strings.Builder
	md.WriteString("# Results\n\nGenerated from the files of kept runs; do not edit. How a verdict comes about and what the columns mean: " +
		"docs/reading-a-report.md.\n")
	if k.Tree != "" {
		fmt.Fprintf(&md, "\n%s%s`: the digest of the code that decided these verdicts (docs/evidence.md).\n", treeLine, k.Tree)
	}
	today, older := all.of(k.Tree)
	conclusions(&md, today)
	if err := today.write(&md, true); err != nil {
		return "", err
	}
	notesTable(&md, all, k.Notes)
	if older.empty() {
		return md.String(), nil
	}
	fmt.Fprintf(&md, "\n# Older results\n\nNot of the code above: made by that of the commits named here.\n")
	if err := older.write(&md, false); err != nil {
		return "", err
	}
	return md.String(), nil
}

// treeLine is how the line begins that says of which tree the page is.
const treeLine = "Of the tree `"

// ResultsTree is the tree that a RESULTS.md is of, "" if it names none.
func ResultsTree(text string) string {
	_, rest, found := strings.Cut(text, "\n"+treeLine)
	tree, _, ended := strings.Cut(rest, "`")
	if !found || !ended {
		return ""
	}
	return tree
}

// results are kept ones that stand together.
type results struct {
	runs    []evidence.Result
	benches []BenchResult
	sets    map[string][]evidence.Result
	power   []evidence.Result
	scores  []score.Score
}

func (k Kept) sorted() results {
	out := results{slices.Clone(k.Runs), slices.Clone(k.Benches), k.Sets, k.Power, slices.Clone(k.Scores)}
	slices.SortFunc(out.runs, func(x, y evidence.Result) int {
		a, b := x.Info, y.Info
		return cmp.Or(cmp.Compare(a.Scenario, b.Scenario), cmp.Compare(contentionRank(a.Contention), contentionRank(b.Contention)),
			cmp.Compare(a.TTL, b.TTL), cmp.Compare(a.SystemText(), b.SystemText()), cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.Run, b.Run))
	})
	slices.SortFunc(out.scores, func(a, b score.Score) int {
		return cmp.Or(cmp.Compare(b.Kind, a.Kind), cmp.Compare(a.Name, b.Name), a.Ended.Compare(b.Ended))
	})
	slices.SortFunc(out.benches, func(a, b BenchResult) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// of parts results of a tree from others; "": all are of it.
func (r results) of(tree string) (mine, others results) {
	mine.sets, others.sets = map[string][]evidence.Result{}, map[string][]evidence.Result{}
	is := func(versions map[string]string) *results {
		if tree == "" || versions[evidence.TreeKey] == tree {
			return &mine
		}
		return &others
	}
	for _, x := range r.runs {
		to := is(x.Info.Versions)
		to.runs = append(to.runs, x)
	}
	for _, x := range r.benches {
		to := is(x.Versions)
		to.benches = append(to.benches, x)
	}
	for _, x := range r.power {
		to := is(x.Info.Versions)
		to.power = append(to.power, x)
	}
	for _, x := range r.scores {
		to := is(x.Versions)
		to.scores = append(to.scores, x)
	}
	for name, all := range r.sets {
		for _, x := range all {
			to := is(x.Info.Versions)
			to.sets[name] = append(to.sets[name], x)
		}
	}
	return mine, others
}

func (r results) empty() bool {
	return len(r.runs)+len(r.benches)+len(r.sets)+len(r.power)+len(r.scores) == 0
}

// write writes the tables; whole ones tell also of what is missing.
func (r results) write(md *strings.Builder, whole bool) error {
	evidenceTable(md, r.sets)
	coreTable(md, r.runs, whole)
	rows := Power(system.Directed(), "", r.power)
	if !whole {
		rows = slices.DeleteFunc(rows, func(row PowerRow) bool { return row.Runs+row.Errors == 0 })
	}
	brokenTable(md, r.runs, rows, whole)
	if whole || len(rows) > 0 {
		powerTables(md, rows)
	}
	swarmTable(md, Swarm(system.Directed(), "", r.power))
	scoresTable(md, r.scores)
	if whole || len(r.benches) > 0 {
		if err := benchTables(md, r.benches); err != nil {
			return err
		}
	}
	runList(md, r.runs)
	return nil
}

func contentionRank(c string) int { return slices.Index([]string{"low", "medium", "high"}, c) }

// group is results of the same kind.
type group []evidence.Result

// groups joins neighbours with the same key.
func groups(all []evidence.Result, key func(evidence.Result) string) []group {
	var out []group
	for i, r := range all {
		if i == 0 || key(all[i-1]) != key(r) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], r)
	}
	return out
}

func (g group) count(is func(evidence.Result) bool) (n int) {
	for _, r := range g {
		if is(r) {
			n++
		}
	}
	return n
}

func (g group) seeds() string {
	var out []string
	for _, r := range g {
		out = append(out, fmt.Sprint(r.Info.Seed))
	}
	return strings.Join(slices.Compact(out), ", ")
}

// verdicts counts results by verdict, in the order in which verdicts win: "4 PASS, 1 FAIL".
// What is not wanted is bold; "" wants nothing.
func (g group) verdicts(want checker.Verdict) string {
	var out []string
	for _, v := range []checker.Verdict{checker.Fail, evidence.Error, checker.Invalid, checker.Unknown, checker.Pass} {
		n := g.count(func(r evidence.Result) bool { return r.Verdict == v })
		if n == 0 {
			continue
		}
		s := fmt.Sprintf("%d %s", n, v)
		if want != "" && v != want {
			s = "**" + s + "**"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// p99 is over the results that have both.
func (g group) p99(of func(evidence.Result) float64) stat.Spread {
	var vs []float64
	for _, r := range g {
		if r.P99Before > 0 && r.P99During > 0 {
			vs = append(vs, of(r))
		}
	}
	return stat.SpreadOf(vs)
}

func before(r evidence.Result) float64 { return float64(r.P99Before) }

func during(r evidence.Result) float64 { return float64(r.P99During) }

// spreadText is the median over the runs with the least and the greatest.
func spreadText(s stat.Spread, text func(float64) string) string {
	switch s.N {
	case 0:
		return "–"
	case 1:
		return text(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", text(s.Median), text(s.Min), text(s.Max))
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

func coreTable(md *strings.Builder, runs []evidence.Result, whole bool) {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r evidence.Result) bool { return strings.HasPrefix(r.Info.System, "broken/") })
	if !whole && len(runs) == 0 {
		return
	}
	md.WriteString("\n## Chaos runs\n\n")
	if len(runs) == 0 {
		md.WriteString("No run is kept.\n")
		return
	}
	md.WriteString("Sums are over the runs of a row. Latencies are the p99 of waiting for a lock: the median over the runs, in brackets the " +
		"least and the greatest.\n\n")
	var rows [][]string
	for _, g := range groups(runs, func(r evidence.Result) string {
		return fmt.Sprint(r.Info.Scenario, "|", r.Info.Contention, "|", r.Info.TTL, "|", r.Info.SystemText())
	}) {
		i, t := g[0].Info, totalOf(g)
		rows = append(rows, []string{
			i.Scenario, i.SystemText(), i.Contention, measure.FormatDuration(i.TTL), fmt.Sprint(len(g)), g.seeds(), g.verdicts(checker.Pass),
			fmt.Sprint(t.Cycles), fmt.Sprint(t.Takeovers), fmt.Sprint(t.StaleRefused), fmt.Sprint(t.UnknownSettled),
			spreadText(g.p99(before), durationText), spreadText(g.p99(during), durationText),
			spreadText(g.p99(func(r evidence.Result) float64 { return measure.Ratio(r.P99During, r.P99Before) }), times),
		})
	}
	table(md, []string{"Scenario", "System", "Contention", "TTL", "Runs", "Seeds", "Verdicts", "Cycles", "Takeovers",
		"Stale writes refused", "Unknowns settled", "p99 before", "p99 in fault phase", "Ratio"}, rows)
}

// brokenTable shows what must catch known-broken variants and what did, and names those
// that were not run. One that only has runs of make power is in that table.
func brokenTable(md *strings.Builder, runs []evidence.Result, power []PowerRow, whole bool) {
	const head = "\n## Known-broken variants\n\nA checker that finds nothing in a broken system proves nothing. Each variant must turn red " +
		"by one of the properties named; a variant is caught in a run if its verdict is the one expected and one of these properties fired.\n"
	var rows [][]string
	var never []string
	for _, v := range system.Directed() {
		mine := slices.DeleteFunc(slices.Clone(runs), func(r evidence.Result) bool {
			return r.Info.System != v.Name || v.Case != "" && (r.Info.Scenario != v.Red.Scenario || r.Info.Contention != v.Red.Contention)
		})
		if len(mine) == 0 {
			if !slices.ContainsFunc(power, func(r PowerRow) bool { return r.name() == v.Label() && r.Runs > 0 }) {
				never = append(never, v.Label())
			}
			continue
		}
		for _, g := range groups(mine, func(r evidence.Result) string { return r.Info.Scenario + "|" + r.Info.Contention }) {
			i := g[0].Info
			rows = append(rows, []string{
				v.Label(), v.About, i.Scenario, i.Contention, g.seeds(), expected(v), g.verdicts(v.Red.Verdict), g.fired(), g.caught(v),
			})
		}
	}
	if !whole && len(rows)+len(power) == 0 {
		return
	}
	md.WriteString(head)
	if whole && len(never) > 0 {
		fmt.Fprintf(md, "\n%d of %d were **not run**: %s.\n", len(never), len(system.Directed()), strings.Join(never, ", "))
	}
	if len(rows) == 0 {
		return
	}
	md.WriteString("\n")
	table(md, []string{"Variant", "What is broken", "Scenario", "Contention", "Seeds", "Must turn red by", "Verdicts", "What fired",
		"Caught"}, rows)
}

func expected(v system.System) string {
	return fmt.Sprintf("%s (%s)", strings.Join(v.Red.Properties, " or "), v.Red.Verdict)
}

func (g group) fired() string {
	n := map[string]int{}
	for _, r := range g {
		for _, id := range r.Fired() {
			n[id]++
		}
	}
	return firedText(n, len(g))
}

func (g group) caught(v system.System) string {
	n := g.count(func(r evidence.Result) bool { return Killed(v, r) })
	s := fmt.Sprintf("%d of %d", n, len(g))
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

func runList(md *strings.Builder, runs []evidence.Result) {
	if len(runs) == 0 {
		return
	}
	md.WriteString("\n## The runs\n\n")
	var rows [][]string
	for _, r := range runs {
		rows = append(rows, []string{
			r.Info.Run, r.Info.SystemText(), string(r.Verdict), fmt.Sprint(r.Check.Counts.Operations),
			r.Info.Versions["fencepost"], r.Info.Versions["cassandra"], "`" + strings.ReplaceAll(r.Info.Command, "`", "'") + "`",
		})
	}
	table(md, []string{"Run", "System", "Verdict", "Operations", "fencepost", "Cassandra", "Command"}, rows)
}
