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
	runs, scenarios, seeds int
	verdicts               string
	worst                  checker.Verdict
	c                      checker.Counts
	took                   time.Duration
	orphan                 float64
	from, to               time.Time
}

func totalOf(rs []evidence.Result) total {
	t := total{runs: len(rs), verdicts: verdictsText(rs), worst: checker.Pass}
	scenarios, seeds := map[string]bool{}, map[uint64]bool{}
	attempts := map[evidence.Job][]evidence.Result{}
	for _, r := range rs {
		scenarios[r.Job.Scenario], seeds[r.Job.Seed] = true, true
		attempts[r.Job] = append(attempts[r.Job], r)
		t.took += r.Took
		t.orphan = max(t.orphan, r.Orphan)
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
		t.c.Operations += c.Operations
		t.c.Cycles += c.Cycles
		t.c.Takeovers += c.Takeovers
		t.c.StaleRefused += c.StaleRefused
		t.c.Unknowns += c.Unknowns
		t.c.UnknownSettled += c.UnknownSettled
		t.c.Resends += c.Resends
		t.c.LeasesLost += c.LeasesLost
		t.c.Faults += c.Faults
		t.c.FaultsProven += c.FaultsProven
	}
	for _, a := range attempts {
		t.worst = evidence.Worst(t.worst, evidence.Standing(a))
	}
	t.scenarios, t.seeds = len(scenarios), len(seeds)
	return t
}

func (t total) sentence() string {
	return fmt.Sprintf("%s %s of %d %s under %d %s: %s. %s operations were recorded and checked, %s of %s faults proven.",
		measure.FormatCount(t.runs), plural(t.runs, "run", "runs"), t.scenarios, plural(t.scenarios, "scenario", "scenarios"),
		t.seeds, plural(t.seeds, "seed", "seeds"), t.verdicts, measure.FormatCount(t.c.Operations), measure.FormatCount(t.c.FaultsProven), measure.FormatCount(t.c.Faults))
}

func (t total) tiles() []tile {
	return []tile{
		{Value: measure.FormatCount(t.runs), Name: "runs", Note: t.verdicts},
		{Value: measure.FormatCount(t.c.Operations), Name: "operations", Note: measure.FormatCount(t.c.Cycles) + " lock cycles"},
		{Value: measure.FormatCount(t.c.Takeovers), Name: "takeovers", Note: measure.FormatCount(t.c.LeasesLost) + " leases lost"},
		{Value: measure.FormatCount(t.c.StaleRefused), Name: "stale writes refused", Note: "by the sink"},
		{Value: measure.FormatCount(t.c.UnknownSettled), Name: "unknowns settled", Note: "of " + measure.FormatCount(t.c.Unknowns)},
		{Value: orphanText(t.orphan), Name: "longest orphan time", Note: "no sign of life until taken over"},
		{Value: hours(t.took), Name: "of running", Note: "checks included"},
	}
}

func (t total) facts() []fact {
	if t.from.IsZero() {
		return nil
	}
	const layout = "2006-01-02 15:04 UTC"
	return []fact{{"First run", t.from.UTC().Format(layout)}, {"Last run", t.to.UTC().Format(layout)}, {"Running", hours(t.took)}}
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
	return collect(func(r evidence.Result) map[string]string { return r.Info.Versions }, "fencepost"),
		collect(func(r evidence.Result) map[string]string { return r.Info.Machine }, "load")
}

// evidenceTable is the section of RESULTS.md.
func evidenceTable(md *strings.Builder, sets map[string][]evidence.Result) {
	if len(sets) == 0 {
		return
	}
	md.WriteString("\n## Evidence\n\nRuns of whole sets of scenarios under many seeds (`make evidence`). `make results` writes a page of each set, with every run: results/evidence/SET.html.\n")
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		all := sortedResults(sets[name])
		t := totalOf(all)
		fmt.Fprintf(md, "\n### Set %s\n\n%s Time: %s. Longest orphan time: %s. Commits: %s.\n\n", cell(name), cell(t.sentence()), hours(t.took), orphanText(t.orphan), cell(strings.Join(evidence.Commits(all), ", ")))
		var rows [][]string
		for _, g := range evidenceGroups(all, byLevel) {
			n := totalOf(g)
			pass := 0
			for _, r := range g {
				if r.Verdict == checker.Pass {
					pass++
				}
			}
			others := verdictsText(slices.DeleteFunc(slices.Clone(g), func(r evidence.Result) bool { return r.Verdict == checker.Pass }))
			if others != "" {
				others = "**" + others + "**"
			}
			rows = append(rows, []string{
				scenarioName(g[0].Job), g[0].Job.Contention, fmt.Sprint(len(g)), fmt.Sprint(pass), others, fmt.Sprint(n.c.Operations), fmt.Sprint(n.c.Takeovers),
				fmt.Sprint(n.c.StaleRefused), fmt.Sprintf("%d of %d", n.c.UnknownSettled, n.c.Unknowns), orphanText(n.orphan), measure.FormatDuration(n.took.Round(time.Second)),
			})
		}
		table(md, []string{"Scenario", "Contention", "Runs", "PASS", "Others", "Operations", "Takeovers", "Stale writes refused", "Unknowns settled", "Longest orphan time", "Time"}, rows)
	}
}
