package reports

import (
	"maps"
	"path"
	"slices"
	"strings"

	"fencepost/checker"
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
// something says so.
func AsExpected(r evidence.Result) bool {
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
	md.WriteString("\n## Not as expected\n\nEvery kept run that is not PASS, and of known-broken variants every one that was not caught: why, and the commit that mended it.\n\n")
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
