package reports

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"fencepost/checker"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
)

// fieldHead is what the page of the field says before its tables.
const fieldHead = `# The field under the same faults

Locks and job schedulers as people use them, on the stores for which they are made, and the core, under the same faults. All run the same
workload (medium contention, ttl and takeover bound as the scenario says; more time for a scheduler whose redelivery takes longer),
write the same history and write to the same sink; each run has fresh servers, and a fault counts only if it is proven. A cell has
the verdict, the properties that found something, and in how many of how many runs, one for each seed.
A red cell counts as its fault's if the same runs with an inert fault, of which everything is as in the others but the action,
find nothing: "inert 0/3". PASS is an observation, not a proof. "–": the store cannot have that fault. Empty: not run.
The last column is the digest of the code that made the row ([evidence.md](evidence.md#which-code-a-result-belongs-to)).
A client's own clock is no column: fencepost sets the clocks of servers and of its own workers, not those of other programs.
[systems/](systems/README.md) has a page for each system: what its documentation promises, and what its users should do.
[What a lock costs](#what-a-lock-costs) is below. The scheduler with a lock for each job, whose tokens come from Hi/Lo blocks, has a
page of [its own](lock-per-job.md): it runs under the scenarios of jobs.

` + "```console" + `
$ make field                        # run what is missing, three seeds each, and write this page
$ make field SYSTEM=redis-set       # of one system
$ bin/fencepost field --check       # is this page what the kept runs give?
` + "```" + `

`

// fieldRedHead is what the page says before its red cells.
const fieldRedHead = `What a run said is of its history alone. There, "the idempotency key contains the attempt" means that no key covered both attempts;
most of these systems' targets check none, as their pages say.

`

// FieldKept is what the page of the field is made of: its systems, their runs, benchmarks, and what is
// known of runs that did not end as they should.
type FieldKept struct {
	Systems []system.System
	Runs    []evidence.Result
	Benches []BenchResult
	Notes   map[string]evidence.Note
}

// Field is the page of the field, from the kept runs: of each system those of the code that made its
// last one, so that a row stands from one digest. suits says which runs there are. An error is one of a
// kept benchmark.
func Field(k FieldKept, suits func(evidence.Job) bool) (string, error) {
	var b strings.Builder
	b.WriteString(fieldHead)
	fmt.Fprintf(&b, "| system | store | %s | code |\n|%s\n", strings.Join(evidence.FieldFaults, " | "), strings.Repeat("---|", len(evidence.FieldFaults)+3))
	var red, invalid []string
	for _, s := range k.Systems {
		mine := lastTree(slices.DeleteFunc(slices.Clone(k.Runs), func(r evidence.Result) bool { return r.Job.System != s.Name }))
		if s.OptIn && len(mine) == 0 {
			continue
		}
		cells := []string{"`" + s.Name + "`", cmp.Or(s.Store, "cassandra")}
		for _, j := range evidence.FieldJobs([]system.System{s}, 1, 1, func(evidence.Job) bool { return true }) {
			runs, twins := fieldRuns(mine, j.Scenario, false), fieldRuns(mine, j.Scenario, true)
			cell := fieldCell(runs, twins)
			if !suits(j) {
				cell = "–"
			}
			if strings.Contains(cell, string(checker.Fail)) {
				red = append(red, fieldRed(j, runs, k.Notes))
			}
			if strings.Contains(cell, string(checker.Invalid)) {
				invalid = append(invalid, fieldInvalid(j, runs, k.Notes))
			}
			cells = append(cells, fieldLinks.ReplaceAllStringFunc(cell, func(v string) string { return "[" + v + "](#" + fieldAnchor(j, v) + ")" }))
		}
		code := ""
		if len(mine) > 0 {
			code = mine[0].Tree()
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(append(cells, code), " | "))
	}
	costs, err := fieldCosts(k.Systems, k.Benches)
	b.WriteString(costs + "\n## What the red cells are\n\n" + fieldRedHead)
	for _, line := range red {
		b.WriteString(line)
	}
	if len(red) == 0 {
		b.WriteString("There are none.\n")
	}
	if len(invalid) > 0 {
		b.WriteString("\n## What the INVALID cells lack\n\n" + strings.Join(invalid, ""))
	}
	return b.String(), err
}

// fieldLinks are the verdicts of a cell that the page explains.
var fieldLinks = regexp.MustCompile(string(checker.Fail) + "|" + string(checker.Invalid))

// fieldAnchor is where a verdict in a cell is explained.
func fieldAnchor(j evidence.Job, v string) string {
	return strings.ToLower(v) + "-" + j.System + "-" + j.Scenario
}

// fieldItem begins that explanation.
func fieldItem(j evidence.Job, v checker.Verdict) string {
	return fmt.Sprintf("- <a id=\"%s\"></a>`%s` under [%s](scenarios.md#%[3]s)", fieldAnchor(j, string(v)), j.System, j.Scenario)
}

// lastTree are the results of the code that made the last one.
func lastTree(all []evidence.Result) []evidence.Result {
	if len(all) == 0 {
		return nil
	}
	last := slices.MaxFunc(all, func(a, b evidence.Result) int { return a.Info.Started.Compare(b.Info.Started) })
	return evidence.OfTree(all, last.Tree())
}

// fieldRuns are the runs of one cell, those with inert faults apart.
func fieldRuns(all []evidence.Result, scenario string, inert bool) []evidence.Result {
	return slices.DeleteFunc(slices.Clone(all), func(r evidence.Result) bool { return r.Job.Scenario != scenario || r.Job.Inert != inert })
}

// fieldCell is what the runs of a cell showed, "" without any; twins are those with inert faults.
func fieldCell(runs, twins []evidence.Result) string {
	verdicts, fired := map[checker.Verdict]int{}, map[string]int{}
	for _, r := range runs {
		verdicts[r.Verdict]++
		if r.Verdict == checker.Fail {
			for _, id := range violated(r) {
				fired[id]++
			}
		}
	}
	var out []string
	for _, v := range slices.Sorted(maps.Keys(verdicts)) {
		text := string(v)
		if v == checker.Fail {
			text += " " + firedText(fired, verdicts[v])
		}
		out = append(out, fmt.Sprintf("%s %d/%d", text, verdicts[v], len(runs)))
		if found := len(fieldViolations(twins)); v == checker.Fail && len(twins) > 0 {
			out[len(out)-1] += fmt.Sprintf(", inert %d/%d", found, len(twins))
		}
	}
	return strings.Join(out, "; ")
}

func fieldViolations(runs []evidence.Result) []evidence.Result {
	return slices.DeleteFunc(slices.Clone(runs), func(r evidence.Result) bool { return r.Verdict != checker.Fail })
}

// violated are the properties that a run violates.
func violated(r evidence.Result) (out []string) {
	if r.Check == nil {
		return nil
	}
	for _, p := range r.Check.Properties {
		if p.Status == checker.StatusFail {
			out = append(out, p.ID)
		}
	}
	return out
}

// fieldRed explains a cell: by what its system is not made for, or with what is noted of the run, and
// what the run said.
func fieldRed(j evidence.Job, runs []evidence.Result, notes map[string]evidence.Note) string {
	first := fieldFirst(runs, checker.Fail)
	why := cmp.Or(fieldNote(first, notes), "not examined.")
	if s, ok := system.FindOnStore(j.System, j.Scenario, j.Contention); ok {
		why = s.About + "."
	}
	return fmt.Sprintf("%s: %s A run said: %s\n  `make chaos SCENARIO=%s SYSTEM=%s SEED=%d`\n",
		fieldItem(j, checker.Fail), why, fieldSaid(first), j.Scenario, j.System, first.Job.Seed)
}

// fieldInvalid is what a run lacked to be a test, and why.
func fieldInvalid(j evidence.Job, runs []evidence.Result, notes map[string]evidence.Note) string {
	first := fieldFirst(runs, checker.Invalid)
	text := fmt.Sprintf("%s, seed %d: %s", fieldItem(j, checker.Invalid), first.Job.Seed, fieldSaid(first))
	if note := fieldNote(first, notes); note != "" {
		text += ". " + note
	}
	return text + "\n"
}

// fieldFirst is the first run with a verdict, which there is.
func fieldFirst(runs []evidence.Result, v checker.Verdict) evidence.Result {
	return runs[slices.IndexFunc(runs, func(r evidence.Result) bool { return r.Verdict == v })]
}

// fieldSaid is what a run said.
func fieldSaid(r evidence.Result) string {
	if r.Check == nil {
		return ""
	}
	return r.Check.Summary
}

// fieldNote is what is known of a run that did not end as it should.
func fieldNote(r evidence.Result, notes map[string]evidence.Note) string {
	return notes[path.Join(KeptEvidence, KeptField, r.Name())].Cause
}
