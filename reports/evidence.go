package reports

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
)

// WriteEvidence writes the page of a set's results beside the store's file, which has the set's
// name, and returns its path. It is about the results that code with the digest tree decided
// ("": all); others are listed below.
func WriteEvidence(file string, all []evidence.Result, tree string) (string, error) {
	path := strings.TrimSuffix(file, evidence.Ending) + ".html"
	p := newEvidencePage(strings.TrimSuffix(filepath.Base(file), evidence.Ending), all, tree)
	b, err := render("evidence.html", p)
	if err != nil {
		return "", err
	}
	return path, writeFile(path, b)
}

// evidencePage is what the template shows.
type evidencePage struct {
	head
	Title, Set         string
	Verdict            Badge
	Lead               string
	Tiles              []tile
	Contentions        []string
	Rows               []matrixRow
	Red                []redView
	Tree               string
	Older              []olderRow
	Numbers            []numbersRow
	Points             []pointsRow
	Reached            *PointTable // nil if no fault waits for a point
	Commits            []string
	Again              string // how many runs were judged again, "" if none was
	Facts              []fact
	Versions, Machines []fact
}

// matrixRow is a scenario with a cell a contention.
type matrixRow struct {
	Scenario, About string
	Cells           []matrixCell
}

// matrixCell holds the runs of a scenario at a contention.
type matrixCell struct {
	Runs []chip
	Text string // 4 PASS, 1 FAIL; "" for no run
	Bad  string // the class of the worst verdict, "" for PASS
}

// chip is one result: a coloured square.
type chip struct {
	Class, Letter, Title, Link string
}

// redView is a result that is not PASS.
type redView struct {
	evidence.Result
	Text  string
	Later string // verdicts of later attempts
}

// olderRow is results of a scenario that other code decided.
type olderRow struct {
	Scenario, Contention, Verdicts, Commits string
}

// numbersRow sums a scenario up at a contention.
type numbersRow struct {
	evidence.Job
	total
	Before, During string
}

// pointsRow is what a scenario expects now and then.
type pointsRow struct {
	Scenario string
	Runs     int
	Hit      []string
	Missing  []string
}

func newEvidencePage(set string, all []evidence.Result, tree string) *evidencePage {
	older := slices.DeleteFunc(sortedResults(all), func(r evidence.Result) bool { return tree == "" || r.Tree() == tree })
	all = evidence.OfTree(sortedResults(all), tree)
	t := totalOf(all)
	p := &evidencePage{head: newHead(false, ""), Set: set, Verdict: BadgeOf(t.Worst), Lead: t.sentence(), Tiles: t.tiles(),
		Commits: evidence.Commits(all), Again: judgedAgain(all), Tree: tree}
	if len(all) == 0 {
		p.Verdict, p.Lead = Badge{"NOTHING", "none", "dash"}, "No run of this code is kept."
	}
	for _, g := range groups(older, byLevel) {
		p.Older = append(p.Older, olderRow{scenarioName(g[0].Job), g[0].Job.Contention, g.verdicts(""), strings.Join(evidence.Commits(g), ", ")})
	}
	p.Title = fmt.Sprintf("%s – evidence %s", p.Verdict.Word, set)
	for _, c := range []string{"low", "medium", "high"} {
		if slices.ContainsFunc(all, func(r evidence.Result) bool { return r.Job.Contention == c }) {
			p.Contentions = append(p.Contentions, c)
		}
	}
	for _, g := range groups(all, byScenario) {
		p.Rows = append(p.Rows, matrixOf(g, p.Contentions))
		if row, ok := pointsOf(g); ok {
			p.Points = append(p.Points, row)
		}
	}
	for _, g := range groups(all, byLevel) {
		p.Numbers = append(p.Numbers, numbersOf(g))
	}
	for i, r := range all {
		if r.Verdict != checker.Pass {
			p.Red = append(p.Red, redOf(r, all[i+1:]))
		}
	}
	if reached := NewPointTable(all); len(reached.Faults) > 0 {
		p.Reached = &reached
	}
	p.Facts = t.facts()
	p.Versions, p.Machines = commonFacts(all)
	return p
}

// sortedResults puts what is shown together side by side.
func sortedResults(all []evidence.Result) []evidence.Result {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b evidence.Result) int {
		return cmp.Or(cmp.Compare(a.Job.Scenario, b.Job.Scenario), cmp.Compare(a.Job.System, b.Job.System),
			cmp.Compare(a.Job.Sink, b.Job.Sink), cmp.Compare(a.Job.Cassandra, b.Job.Cassandra), cmp.Compare(contentionRank(a.Job.Contention), contentionRank(b.Job.Contention)),
			cmp.Compare(a.Job.Seed, b.Job.Seed), cmp.Compare(a.Attempt, b.Attempt))
	})
	return all
}

func byScenario(r evidence.Result) string {
	return r.Job.Scenario + "|" + r.Job.System + "|" + r.Job.Sink + "|" + r.Job.Cassandra
}
func byLevel(r evidence.Result) string { return byScenario(r) + "|" + r.Job.Contention }

func matrixOf(g group, contentions []string) matrixRow {
	row := matrixRow{Scenario: scenarioName(g[0].Job), About: g[0].Info.About}
	for _, c := range contentions {
		mine := slices.DeleteFunc(slices.Clone(g), func(r evidence.Result) bool { return r.Job.Contention != c })
		cell := matrixCell{Text: mine.verdicts("")}
		if w := worstOf(mine); w != checker.Pass {
			cell.Bad = BadgeOf(w).Class
		}
		for _, r := range mine {
			w := BadgeOf(r.Verdict)
			ch := chip{Class: w.Class, Title: fmt.Sprintf("seed %d: %s", r.Job.Seed, w.Word)}
			if r.Attempt > 1 {
				ch.Title += fmt.Sprintf(" (attempt %d)", r.Attempt)
			}
			if r.Verdict != checker.Pass {
				ch.Letter, ch.Link = w.Word[:1], "#"+redID(r)
			}
			cell.Runs = append(cell.Runs, ch)
		}
		row.Cells = append(row.Cells, cell)
	}
	return row
}

// scenarioName names the system too if it is not the core, and the sink if one was chosen.
func scenarioName(j evidence.Job) string {
	name := j.Scenario
	if j.System != "core" {
		name += ", " + j.System
	}
	if j.Sink != "" {
		name += ", sink " + j.Sink
	}
	if j.Cassandra != "" {
		name += ", Cassandra " + j.Cassandra
	}
	return name
}

func worstOf(rs []evidence.Result) checker.Verdict {
	w := checker.Pass
	for _, r := range rs {
		w = evidence.Worst(w, r.Verdict)
	}
	return w
}

func redID(r evidence.Result) string {
	return fmt.Sprintf("r-%s-%s%s%s-%s-%d-%d", r.Job.Scenario, strings.ReplaceAll(r.Job.System, "/", "_"), r.Job.Sink, r.Job.Cassandra, r.Job.Contention,
		r.Job.Seed, r.Attempt)
}

func redOf(r evidence.Result, later []evidence.Result) redView {
	v := redView{Result: r, Text: r.Error}
	if r.Check != nil {
		v.Text = sentenceCase(checker.AnswerOf(r.Check, nil).Sentence())
	}
	if AsExpected(r) {
		v.Text = "As it must be. " + v.Text
	}
	var words []string
	for _, l := range later {
		if l.Job == r.Job {
			words = append(words, string(l.Verdict))
		}
	}
	v.Later = strings.Join(words, ", ")
	return v
}

func pointsOf(g group) (pointsRow, bool) {
	newest := slices.Clone(g)
	slices.SortStableFunc(newest, func(a, b evidence.Result) int { return b.Info.Started.Compare(a.Info.Started) })
	row := pointsRow{Scenario: scenarioName(g[0].Job)}
	expect := newest[0].Sometimes
	if len(expect) == 0 {
		return row, false
	}
	var checks []checker.Result
	for _, r := range newest {
		if r.Check != nil && len(checks) < lastRuns {
			checks = append(checks, *r.Check)
		}
	}
	row.Runs, row.Missing = len(checks), checker.MissingSometimes(expect, checks)
	for _, e := range expect {
		if slices.Contains(row.Missing, e) {
			continue
		}
		n := 0
		for _, c := range checks {
			if c.Counts.Points[e] > 0 {
				n++
			}
		}
		row.Hit = append(row.Hit, fmt.Sprintf("%s in %d", e, n))
	}
	return row, true
}

// lastRuns is over how many of the newest runs a point must be hit once.
const lastRuns = 20

func numbersOf(g group) numbersRow {
	median := func(of func(evidence.Result) float64) string {
		if s := g.p99(of); s.N > 0 {
			return durationText(s.Median)
		}
		return "–"
	}
	return numbersRow{Job: g[0].Job, total: totalOf(g), Before: median(before), During: median(during)}
}

func orphanText(v float64) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f ttl", v)
}

func hours(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return measure.FormatDuration(d.Round(time.Second))
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
