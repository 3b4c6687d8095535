package reports

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
)

// total sums up results.
type total struct {
	checker.Counts
	Runs, scenarios, seeds int
	verdicts               string
	Worst                  checker.Verdict
	Took                   time.Duration
	Orphan                 float64
	from, to               time.Time
}

func totalOf(rs group) total {
	t := total{Runs: len(rs), verdicts: rs.verdicts(""), Worst: checker.Pass}
	scenarios, seeds := map[string]bool{}, map[uint64]bool{}
	attempts := map[evidence.Job][]evidence.Result{}
	for _, r := range rs {
		scenarios[r.Job.Scenario], seeds[r.Job.Seed] = true, true
		attempts[r.Job] = append(attempts[r.Job], r)
		t.Took += r.Took
		t.Orphan = max(t.Orphan, r.Orphan)
		if s := r.Info.Started; !s.IsZero() && (t.from.IsZero() || s.Before(t.from)) {
			t.from = s
		}
		if e := r.Info.Ended; e.After(t.to) {
			t.to = e
		}
		if r.Check == nil {
			continue
		}
		c := r.Check.Counts
		t.Operations += c.Operations
		t.Cycles += c.Cycles
		t.Takeovers += c.Takeovers
		t.StaleRefused += c.StaleRefused
		t.Unknowns += c.Unknowns
		t.UnknownSettled += c.UnknownSettled
		t.Resends += c.Resends
		t.LeasesLost += c.LeasesLost
		t.Faults += c.Faults
		t.FaultsProven += c.FaultsProven
	}
	for _, a := range attempts {
		t.Worst = evidence.Worst(t.Worst, evidence.Counts(a))
	}
	t.scenarios, t.seeds = len(scenarios), len(seeds)
	return t
}

func (t total) sentence() string {
	return fmt.Sprintf("%s %s of %d %s under %d %s: %s. %s operations were recorded and checked, %s of %s faults proven.",
		measure.FormatCount(t.Runs), plural(t.Runs, "run", "runs"), t.scenarios, plural(t.scenarios, "scenario", "scenarios"),
		t.seeds, plural(t.seeds, "seed", "seeds"), t.verdicts, measure.FormatCount(t.Operations), measure.FormatCount(t.FaultsProven),
		measure.FormatCount(t.Faults))
}

func (t total) tiles() []tile {
	return []tile{
		{Value: measure.FormatCount(t.Runs), Name: "runs", Note: t.verdicts},
		{Value: measure.FormatCount(t.Operations), Name: "operations", Note: measure.FormatCount(t.Cycles) + " lock cycles"},
		{Value: measure.FormatCount(t.Takeovers), Name: "takeovers", Note: measure.FormatCount(t.LeasesLost) + " leases lost"},
		{Value: measure.FormatCount(t.StaleRefused), Name: "stale writes refused", Note: "by the sink"},
		{Value: measure.FormatCount(t.UnknownSettled), Name: "unknowns settled", Note: "of " + measure.FormatCount(t.Unknowns)},
		{Value: orphanText(t.Orphan), Name: "longest orphan time", Note: "no sign of life until taken over"},
		{Value: hours(t.Took), Name: "of running", Note: "checks included"},
	}
}

func (t total) facts() []fact {
	if t.from.IsZero() {
		return nil
	}
	const layout = "2006-01-02 15:04 UTC"
	return []fact{{"First run", t.from.UTC().Format(layout)}, {"Last run", t.to.UTC().Format(layout)}, {"Running", hours(t.Took)}}
}

// commonFacts lists what versions and machines the results name; a value that
// differs between runs is listed with all its values. The load is each run's own.
func commonFacts(rs []evidence.Result) (versions, machines []fact) {
	collect := func(of func(evidence.Result) map[string]string, skip ...string) []fact {
		values := map[string]map[string]bool{}
		for _, r := range rs {
			for k, v := range of(r) {
				if slices.Contains(skip, k) {
					continue
				}
				if values[k] == nil {
					values[k] = map[string]bool{}
				}
				values[k][v] = true
			}
		}
		var out []fact
		for _, k := range slices.Sorted(maps.Keys(values)) {
			out = append(out, fact{k, strings.Join(slices.Sorted(maps.Keys(values[k])), ", ")})
		}
		return out
	}
	return collect(func(r evidence.Result) map[string]string { return r.Info.Versions }, evidence.CommitKey, evidence.RanCommitKey),
		collect(func(r evidence.Result) map[string]string { return r.Info.Machine }, "load")
}

// judgedAgain says how many runs were judged again, behind the commits that judged; "" if none was.
func judgedAgain(all []evidence.Result) string {
	commits, n := evidence.RanCommits(all)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" %s of the runs %s made by %s %s and judged again.", measure.FormatCount(n), plural(n, "was", "were"),
		plural(len(commits), "commit", "commits"), strings.Join(commits, ", "))
}

// evidenceTable is the section of RESULTS.md.
func evidenceTable(md *strings.Builder, sets map[string][]evidence.Result) {
	if len(sets) == 0 {
		return
	}
	md.WriteString("\n## Evidence\n\nRuns of whole sets of scenarios under many seeds (`make evidence`). `make results` writes a page of " +
		"each set, with every run: results/evidence/SET.html.\n")
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		all := sortedResults(sets[name])
		t := totalOf(all)
		fmt.Fprintf(md, "\n### Set %s\n\n%s Time: %s. Longest orphan time: %s. Commits: %s.%s\n\n", cell(name), cell(t.sentence()),
			hours(t.Took), orphanText(t.Orphan), cell(strings.Join(evidence.Commits(all), ", ")), cell(judgedAgain(all)))
		var rows [][]string
		for _, g := range groups(all, byLevel) {
			n := totalOf(g)
			passed := func(r evidence.Result) bool { return r.Verdict == checker.Pass }
			red := slices.DeleteFunc(slices.Clone(g), passed)
			others := slices.DeleteFunc(slices.Clone(red), AsExpected).verdicts("")
			if others != "" {
				others = "**" + others + "**"
			}
			if known := slices.DeleteFunc(red, func(r evidence.Result) bool { return !AsExpected(r) }).verdicts(""); known != "" {
				others = strings.TrimSpace(others + " " + known + ", as it must be")
			}
			rows = append(rows, []string{
				scenarioName(g[0].Job), g[0].Job.Contention, fmt.Sprint(len(g)), fmt.Sprint(g.count(passed)), others, fmt.Sprint(n.Operations),
				fmt.Sprint(n.Takeovers),
				fmt.Sprint(n.StaleRefused), fmt.Sprintf("%d of %d", n.UnknownSettled, n.Unknowns), orphanText(n.Orphan),
				measure.FormatDuration(n.Took.Round(time.Second)),
			})
		}
		table(md, []string{"Scenario", "Contention", "Runs", "PASS", "Others", "Operations", "Takeovers", "Stale writes refused",
			"Unknowns settled", "Longest orphan time", "Time"}, rows)
	}
}
