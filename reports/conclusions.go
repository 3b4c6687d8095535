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

// conclusions is the first screen of RESULTS.md: what follows from the results of one tree, and what
// does not. A line without data says so.
func conclusions(md *strings.Builder, r results) {
	md.WriteString("\n## What these results show, and what they do not\n\n")
	core := r.ofCore()
	for _, line := range []string{
		safety(core), notPassed(core), provenFaults(core), r.directed(), r.undirected(), growths(r.runs), simulated(r.scores),
		mutated(r.scores), cost(r.benches),
		"**Not shown:** that no bug is left. Most runs have three nodes and four workers on one machine and last a minute; none has more than " +
			"four nodes. The faults are those of `fencepost list`: no other hardware, no disk that lies, no month of load. Latencies and " +
			"throughput are this machine's; quote ratios.",
	} {
		md.WriteString("- " + line + "\n")
	}
}

// ofCore are the runs of the core whose effects were to be judged: what is said of it rests on these.
// Drills have none, and a release or a twin says nothing of it.
func (r results) ofCore() (out group) {
	add := func(all []evidence.Result) {
		for _, x := range all {
			if x.Job.System == system.Core && !x.Job.Inert && !withoutEffects(x) {
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

// withoutEffects reports whether a run was checked and could not have shown an effect that happened twice.
func withoutEffects(r evidence.Result) bool {
	return r.Check != nil && statusOf(r, EndToEndProperty) == checker.StatusNA
}

func statusOf(r evidence.Result, property string) checker.Status {
	for _, p := range r.Check.Properties {
		if p.ID == property {
			return p.Status
		}
	}
	return checker.StatusNA
}

// lostOrTwice are the properties that an effect which happened twice, or never, violates.
var lostOrTwice = []string{EndToEndProperty, "P5", "P16", "P17"}

func safety(core group) string {
	judged := slices.DeleteFunc(slices.Clone(core), func(r evidence.Result) bool {
		return r.Check == nil || !slices.Contains([]checker.Status{checker.StatusPass, checker.StatusFail}, statusOf(r, EndToEndProperty)) ||
			r.Verdict != checker.Pass && r.Verdict != checker.Fail
	})
	if len(judged) == 0 {
		return "**Safety of the core:** not measured."
	}
	t := totalOf(judged)
	jobs, effects := 0, 0
	for _, r := range judged {
		effects += r.Check.Counts.Effects
		if ofJobs(r.Job) {
			jobs += r.Check.Counts.Cycles
		}
	}
	fails := judged.count(func(r evidence.Result) bool { return r.Verdict == checker.Fail })
	wrong := judged.count(func(r evidence.Result) bool {
		return slices.ContainsFunc(lostOrTwice, func(id string) bool { return statusOf(r, id) == checker.StatusFail })
	})
	s := fmt.Sprintf("**Safety of the core:** in %s of %d %s under %d %s, with %s lock cycles, %s jobs and %s effects, %d had an "+
		"effect twice or lost something (%s); %d %s FAIL in all.", counted(len(judged), "run", "runs"),
		t.scenarios, plural(t.scenarios, "scenario", "scenarios"), t.seeds, plural(t.seeds, "seed", "seeds"), measure.FormatCount(t.Cycles-jobs),
		measure.FormatCount(jobs), measure.FormatCount(effects), wrong, strings.Join(lostOrTwice, ", "), fails, plural(fails, "is", "are"))
	if wrong == 0 {
		s += fmt.Sprintf(" With 95 %% confidence, fewer than %.1f %% of such runs would.", upTo(100*(1-math.Pow(0.05, 1/float64(len(judged))))))
	}
	return s
}

// upTo rounds up to a tenth.
func upTo(v float64) float64 { return math.Ceil(10*v) / 10 }

func counted(n int, one, more string) string {
	return measure.FormatCount(n) + " " + plural(n, one, more)
}

// ofJobs reports whether a scenario's cycles are jobs.
func ofJobs(j evidence.Job) bool {
	return strings.HasPrefix(j.Scenario, "jobs-") || strings.HasPrefix(j.Scenario, "orders-")
}

func notPassed(core group) string {
	const head = "**Runs of the core that did not pass:** "
	if len(core) == 0 {
		return head + "not measured."
	}
	fails := core.count(func(r evidence.Result) bool { return r.Verdict == checker.Fail })
	others := core.count(func(r evidence.Result) bool { return r.Verdict != checker.Fail && r.Verdict != checker.Pass })
	repeated := core.count(func(r evidence.Result) bool { return r.Info.RepeatOf != "" })
	s := fmt.Sprintf("%s%d of %d failed and %d showed nothing.", head, fails, len(core), others)
	if fails+others > 0 {
		s += " *Not as expected* has the cause of each, and whether it was a finding or a false alarm."
	}
	if repeated > 0 {
		s += fmt.Sprintf(" %d %s a second try, as the machine had been too busy.", repeated, plural(repeated, "was", "were"))
	}
	return s
}

func provenFaults(core group) string {
	t := totalOf(core)
	if t.Faults == 0 {
		return "**Faults:** not measured."
	}
	return fmt.Sprintf("**Faults:** %s of %s were proven by another witness than the fault itself. A run with one that is not is never PASS.",
		measure.FormatCount(t.FaultsProven), measure.FormatCount(t.Faults))
}

func (r results) directed() string {
	rows := Power(system.Directed(), "", r.power)
	_, caught, ran := masked(rows)
	if ran == 0 {
		return "**Known mistakes under directed faults:** not measured."
	}
	runs, kills := 0, 0
	for _, row := range rows {
		runs, kills = runs+row.Runs, kills+row.Kills
	}
	return fmt.Sprintf("**Known mistakes under directed faults:** %d of the %d variants that ran, of %d, were caught in every run; %d of %d runs.",
		caught, ran, len(rows), kills, runs)
}

func (r results) undirected() string {
	t := TotalOfSwarm(Swarm(system.Directed(), "", r.power))
	if t.Ran == 0 {
		return "**The same mistakes under random faults alone,** as if nobody knew them: not measured."
	}
	s := fmt.Sprintf("**The same mistakes under random faults alone,** as if nobody knew them: %s.", t)
	if t.Found < t.Ran {
		s += fmt.Sprintf(" Each of the others had at least %.0f s.", t.Least)
	}
	return s
}

func growths(runs group) string {
	var out []string
	for _, r := range runs {
		if r.Job.System == system.Core && r.Check != nil && len(r.Check.Growth) > 0 {
			out = append(out, fmt.Sprintf("%s for %s %s", r.Job.Scenario, hours(r.Took), r.Verdict))
		}
	}
	if len(out) == 0 {
		return "**Growth of memory, files, threads:** not measured."
	}
	return "**Growth of memory, files, threads** of the core, without faults: " + strings.Join(out, ", ") + "."
}

func simulated(scores []score.Score) string {
	var out []string
	for _, s := range lastOf(scores, score.Simulation) {
		out = append(out, fmt.Sprintf("%s of %s %s", measure.FormatCount(s.Good), measure.FormatCount(s.Of), s.Name))
	}
	if len(out) == 0 {
		return "**Simulation of the job engine:** not measured."
	}
	return "**Simulation of the job engine:** " + strings.Join(out, " and ") + " broke no rule."
}

func mutated(scores []score.Score) string {
	var out []string
	for _, s := range lastOf(scores, score.Mutation) {
		out = append(out, s.Name+" "+s.Percent())
	}
	if len(out) == 0 {
		return "**Small mistakes in the code** that unit tests find: not measured."
	}
	return "**Small mistakes in the code** that unit tests find: " + strings.Join(out, ", ") + "."
}

// lastOf are the last scores of a kind, by name.
func lastOf(scores []score.Score, kind string) (out []score.Score) {
	last := map[string]score.Score{}
	for _, s := range scores {
		if s.Kind == kind && !s.Ended.Before(last[s.Name].Ended) {
			last[s.Name] = s
		}
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		out = append(out, last[name])
	}
	return out
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
