package reports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
)

// unexpected is a kept run that did not end as it should: PASS, or of a known-broken
// variant the red that shows it.
type unexpected struct {
	result  string // as a note names it
	verdict string // with what fired
	commit  string
}

// unexpected lists such runs, sorted.
func (r results) unexpected() (out []unexpected) {
	add := func(dir string, x evidence.Result) {
		text := string(x.Verdict)
		if fired := x.Fired(); len(fired) > 0 {
			text += " by " + strings.Join(fired, ", ")
		}
		out = append(out, unexpected{path.Join(dir, x.Name()), text, x.Info.Versions[evidence.CommitKey]})
	}
	for name, all := range r.sets {
		for _, x := range all {
			if !AsExpected(x) {
				add(path.Join(KeptEvidence, name), x)
			}
		}
	}
	for _, x := range r.power {
		if !AsExpected(x) {
			add(KeptPower, x)
		}
	}
	for _, x := range r.runs {
		if !AsExpected(x) {
			add(KeptChaos, x)
			out[len(out)-1].result = path.Join(KeptChaos, x.Info.Run)
		}
	}
	slices.SortFunc(out, func(a, b unexpected) int { return strings.Compare(a.result, b.result) })
	return out
}

// AsExpected: the core passes, and what is known to be broken turns red as it must where
// something says so. So does a drill on a release that has its bug, and a lock on another store under
// what it is not made for.
func AsExpected(r evidence.Result) bool {
	if r.Job.Inert || evidence.MustFind(r.Job) != nil {
		return evidence.Counts([]evidence.Result{r}) == checker.Pass
	}
	if s, ok := system.FindDirected(r.Job.System, r.Job.Scenario, r.Job.Contention); ok {
		return Killed(s, r)
	}
	return r.Verdict == checker.Pass || strings.HasPrefix(r.Job.System, "broken/")
}

// NotesError names what the notes lack, or have too much.
type NotesError struct {
	Missing []string // results that did not end as they should
	Idle    []string // notes of results that did, or that are not kept
}

func (e *NotesError) Error() string {
	var out []string
	if len(e.Missing) > 0 {
		out = append(out, "no note says why these did not end as they should: "+strings.Join(e.Missing, ", "))
	}
	if len(e.Idle) > 0 {
		out = append(out, "notes of no such run: "+strings.Join(e.Idle, ", "))
	}
	return evidence.NotesFile + ": " + strings.Join(out, "; ")
}

// CheckNotes returns a *NotesError unless each kept run that did not end as it should has a
// note, and each note such a run.
func (k Kept) CheckNotes() error {
	var e NotesError
	idle := maps.Clone(k.Notes)
	for _, u := range k.sorted().unexpected() {
		if _, ok := k.Notes[u.result]; !ok {
			e.Missing = append(e.Missing, u.result)
		}
		delete(idle, u.result)
	}
	e.Idle = slices.Sorted(maps.Keys(idle))
	if len(e.Missing)+len(e.Idle) > 0 {
		return &e
	}
	return nil
}

// notesTable lists the runs that did not end as they should, whatever they were made by.
func notesTable(md *strings.Builder, all results, notes map[string]evidence.Note) {
	list := all.unexpected()
	if len(list) == 0 {
		return
	}
	md.WriteString("\n## Not as expected\n\nEvery kept run that is not PASS, and of known-broken variants every one that was not caught: " +
		"why, and the commit that mended it.\n\n")
	var rows [][]string
	for _, u := range list {
		n := notes[u.result]
		if n.Cause == "" {
			n.Cause = "**no note**"
		}
		rows = append(rows, []string{u.result, u.verdict, u.commit, n.Cause, n.Mended})
	}
	table(md, []string{"Result", "Verdict", "Made by", "Cause", "Mended by"}, rows)
}

// ReadRunResult is what is kept of a chaos run, by its directory. It must have been checked and
// reported.
func ReadRunResult(dir string) (evidence.Result, error) {
	var r evidence.Result
	info, err := rundir.ReadInfo(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%s: %w", dir, ErrNoRun)
	}
	if err != nil {
		return r, err
	}
	var verdict checker.Result
	if err := rundir.ReadJSON(filepath.Join(dir, rundir.VerdictFile), &verdict); err != nil {
		return r, fmt.Errorf("keep %s (check it first: fencepost check %s): %w", info.Run, dir, err)
	}
	var report Report
	if err := rundir.ReadJSON(filepath.Join(dir, JSONFile), &report); err != nil {
		return r, fmt.Errorf("keep %s (report it first: fencepost report %s): %w", info.Run, dir, err)
	}
	r = evidence.Result{
		Job:     evidence.Job{Scenario: info.Scenario, Contention: info.Contention, Seed: info.Seed, System: info.System},
		Verdict: verdict.Verdict, Check: evidence.Condense(verdict), Info: info, Took: info.Ended.Sub(info.Started),
	}
	report.AddTo(&r)
	return r, nil
}

// AddTo adds a report's numbers to the result of its run, which was checked.
func (rep Report) AddTo(r *evidence.Result) {
	for _, t := range rep.Takeovers {
		if t.TTLMS > 0 {
			r.Orphan = max(r.Orphan, t.IdleMS/t.TTLMS)
		}
	}
	r.Points = rep.Points
	if before, during, ok := rep.Latencies.Headline(); ok && r.Check.Cold == "" {
		r.P99Before, r.P99During = before.P99, during.P99
	}
}

// ReadBenches reads the benchmarks that are kept in a file, a line each.
func ReadBenches(file string) ([]BenchResult, error) {
	var out []BenchResult
	err := evidence.ReadLines(file, func(line []byte) error {
		b, err := decodeBench(line)
		out = append(out, b)
		return err
	})
	return out, err
}

// KeepBench writes a benchmark to such a file, in place of one with its name.
func KeepBench(file string, b BenchResult) error {
	return evidence.EditLines(file, func() ([][]byte, error) {
		line, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		var out [][]byte
		err = evidence.ReadLines(file, func(old []byte) error {
			o, err := decodeBench(old)
			if o.Name != b.Name {
				out = append(out, old)
			}
			return err
		})
		return append(out, line), err
	})
}
