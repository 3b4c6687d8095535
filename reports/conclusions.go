package reports

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"fencepost/checker"
	"fencepost/harness/target/system"
	"fencepost/internal/score"
	"fencepost/reports/evidence"
	"fencepost/reports/measure"
	"fencepost/reports/stat"
)

// conclusions is the first screen of RESULTS.md: what follows from the results of one tree, and what does
// not. It says of each thing that was not measured that it was not.
func conclusions(md *strings.Builder, r results) {
	md.WriteString("\n## What these results show, and what they do not\n\n")
	core := r.ofCore()
	for _, line := range []string{
		safety(core), falseAlarms(core), provenFaults(core), r.directed(), r.undirected(), growths(r.runs), simulated(r.scores), mutated(r.scores), cost(r.benches),
		"**Not shown:** that no bug is left. All runs are of three nodes and four workers on one machine, minutes long, under the faults of " +
			"`fencepost list`; nothing here is of more nodes, of other hardware, of disks that lie, or of months of load. Latencies and " +
			"throughput are this machine's; only ratios may be quoted.",
	} {
		md.WriteString("- " + line + "\n")
	}
}

// ofCore are the runs of the core: what is said of it rests on these.
func (r results) ofCore() (out group) {
	add := func(all []evidence.Result) {
		for _, x := range all {
			if x.Job.System == system.Core && !x.Job.Inert && evidence.MustFind(x.Job) == nil {
				out = append(out, x)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.sets)) {
		add(r.sets[name])
	}
	add(r.runs)
	return out
}

// twice are the properties that an effect which happened twice, or never, violates.
var twice = []string{EndToEndProperty}

func safety(core group) string {
	if len(core) == 0 {
		return "**Safety of the core:** not measured."
	}
	t := totalOf(core)
	jobs, effects := 0, 0
	for _, r := range core {
		if r.Check == nil {
			continue
		}
		effects += r.Check.Counts.Effects
		if ofJobs(r.Job) {
			jobs += r.Check.Counts.Cycles
		}
	}
	judged := core.count(func(r evidence.Result) bool { return r.Check != nil && r.Verdict != checker.Invalid })
	fails := core.count(func(r evidence.Result) bool { return r.Verdict == checker.Fail })
	doubled := core.count(func(r evidence.Result) bool {
		return r.Verdict == checker.Fail && slices.ContainsFunc(r.Fired(), func(id string) bool { return slices.Contains(twice, id) })
	})
	s := fmt.Sprintf("**Safety of the core:** in %s runs of %d scenarios under %d %s, with %s lock cycles, %s jobs and %s effects, %d had an effect twice or lost one; %d %s in all.",
		measure.FormatCount(judged), t.scenarios, t.seeds, plural(t.seeds, "seed", "seeds"), measure.FormatCount(t.Cycles-jobs), measure.FormatCount(jobs),
		measure.FormatCount(effects), doubled, fails, plural(fails, "was FAIL", "were FAIL"))
	if doubled == 0 && judged > 0 {
		s += fmt.Sprintf(" With 95 %% confidence, fewer than %.2g %% of such runs would.", 100*(1-math.Pow(0.05, 1/float64(judged))))
	}
	return s
}

// ofJobs reports whether a scenario's cycles are jobs.
func ofJobs(j evidence.Job) bool {
	return strings.HasPrefix(j.Scenario, "jobs-") || strings.HasPrefix(j.Scenario, "orders-")
}

func falseAlarms(core group) string {
	if len(core) == 0 {
		return "**False alarms and findings:** not measured."
	}
	red := slices.DeleteFunc(slices.Clone(core), func(r evidence.Result) bool { return r.Verdict == checker.Pass })
	if len(red) == 0 {
		return fmt.Sprintf("**False alarms and findings:** none in %d runs of the core.", len(core))
	}
	return fmt.Sprintf("**False alarms and findings:** %d of %d runs of the core were not PASS (%s). Which of the two each was is below (*Not as expected*).", len(red), len(core), red.verdicts(""))
}

func provenFaults(core group) string {
	t := totalOf(core)
	if t.Faults == 0 {
		return "**Faults:** none was injected."
	}
	return fmt.Sprintf("**Faults:** %s of %s were proven by another witness than the fault itself. A run with an unproven one is INVALID, never PASS.",
		measure.FormatCount(t.FaultsProven), measure.FormatCount(t.Faults))
}

func (r results) directed() string {
	rows := Power(system.Directed(), "", r.power)
	_, caught, ran := masked(rows)
	if ran == 0 {
		return "**Known mistakes, directed faults:** not measured."
	}
	var kills score.Share
	for _, row := range rows {
		kills.Good, kills.Of = kills.Good+row.Kills, kills.Of+row.Runs
	}
	return fmt.Sprintf("**Known mistakes, directed faults:** %d of %d variants that ran (of %d) were caught in every run; %d of %d runs, %s.",
		caught, ran, len(rows), kills.Good, kills.Of, kills.Percent())
}

func (r results) undirected() string {
	t := TotalOfSwarm(Swarm(system.Directed(), "", r.power))
	if t.Ran == 0 {
		return "**Unknown mistakes:** not measured: no variant ran under random faults alone."
	}
	return fmt.Sprintf("**Unknown mistakes:** %s. What random faults do not find, only a directed scenario does.", t)
}

func growths(runs group) string {
	var out []string
	for _, r := range runs {
		if r.Job.System == system.Core && r.Check != nil && len(r.Check.Growth) > 0 {
			out = append(out, fmt.Sprintf("%s for %s %s", r.Job.Scenario, hours(r.Took), r.Verdict))
		}
	}
	if len(out) == 0 {
		return "**Growth of memory, files, threads:** not measured for longer than a minute."
	}
	return "**Growth of memory, files, threads** of the core, without faults: " + strings.Join(out, ", ") + "."
}

func simulated(scores []score.Score) string {
	var out []string
	for _, s := range ofKind(scores, score.Simulation) {
		out = append(out, fmt.Sprintf("%s of %s %s", measure.FormatCount(s.Good), measure.FormatCount(s.Of), s.Name))
	}
	if len(out) == 0 {
		return "**Simulation of the job engine:** not measured at scale."
	}
	return "**Simulation of the job engine:** " + strings.Join(out, " and ") + " broke no rule."
}

func mutated(scores []score.Score) string {
	var out []string
	for _, s := range ofKind(scores, score.Mutation) {
		out = append(out, s.Name+" "+s.Percent())
	}
	if len(out) == 0 {
		return "**Small mistakes in the code:** not measured: no package was mutated."
	}
	return "**Small mistakes in the code** that unit tests find: " + strings.Join(out, ", ") + "."
}

func ofKind(scores []score.Score, kind string) []score.Score {
	return slices.DeleteFunc(slices.Clone(scores), func(s score.Score) bool { return s.Kind != kind })
}

// cost is the last headline of each subject, which is at the end of a benchmark's name.
func cost(benches []BenchResult) string {
	last := map[string]string{}
	for _, b := range slices.SortedFunc(slices.Values(benches), func(a, b BenchResult) int { return cmp.Compare(a.Name, b.Name) }) {
		if b.Headline != nil && len(b.Problems) == 0 {
			_, subject, _ := strings.Cut(b.Name, "-bench-")
			last[subject] = b.Headline.Text
		}
	}
	if len(last) == 0 {
		return "**Cost:** not measured."
	}
	var out []string
	for _, subject := range slices.Sorted(maps.Keys(last)) {
		out = append(out, subject+": "+last[subject])
	}
	return fmt.Sprintf("**Cost** (%.0f %% intervals below): ", 100*stat.Confidence) + strings.Join(out, "; ") + "."
}
