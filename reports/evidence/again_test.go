package evidence

import (
	"path/filepath"
	"reflect"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
)

// ranBy is a run of a seed that code of a tree carried out and judged, with a plan.
func ranBy(seed uint64, run, tree, plan string) Result {
	r := pass(seed)
	r.Info.Run, r.Check.Run = run, run
	r.Info.Versions[TreeKey], r.Info.Versions[PlanKey] = tree, plan
	return r
}

// TestAgain: of each run the newest result, unless this code has run or judged it, or its plan is another one.
func TestAgain(t *testing.T) {
	t.Parallel()
	judged := func(r Result, tree string) Result { return r.Rejudged(*r.Check, "c", tree) }
	a, b := ranBy(1, "a", "old", "p"), ranBy(1, "b", "old", "p")
	for _, c := range []struct {
		name string
		all  []Result
		want []string
		done int
	}{
		{"none", nil, nil, 0},
		{"two runs", []Result{a, b}, []string{"a old", "b old"}, 0},
		{"judged by code between", []Result{a, judged(a, "between")}, []string{"a between"}, 0},
		{"judged", []Result{a, judged(a, "new")}, nil, 1},
		{"one of two judged", []Result{a, b, judged(a, "new")}, []string{"b old"}, 0},
		{"run by this code", []Result{a, ranBy(1, "c", "new", "p")}, nil, 1},
		{"run by this code, of another plan", []Result{a, ranBy(1, "c", "new", "q")}, []string{"a old"}, 0},
		{"another plan", []Result{ranBy(1, "a", "old", "q")}, nil, 0},
	} {
		todo, done := Again(c.all, "new", func(Job) string { return "p" })
		var got []string
		for _, runs := range todo {
			for _, r := range runs {
				got = append(got, r.Info.Run+" "+r.Tree())
			}
		}
		if !reflect.DeepEqual(got, c.want) || done != c.done {
			t.Errorf("%s: %v, %d done; want %v, %d", c.name, got, done, c.want, c.done)
		}
	}
}

// TestRejudgedIsStored beside the old result, which stays, and comes back with who ran it.
func TestRejudgedIsStored(t *testing.T) {
	t.Parallel()
	s, old := aStore(t), ranBy(1, "a", "old", "p")
	old, err := s.Put(old)
	must(t, err)
	_, err = s.Put(old.Rejudged(*failed(1).Check, "c2", "new"))
	must(t, err)
	all, err := s.All()
	must(t, err)
	if len(all) != 2 || all[0].Verdict != checker.Pass || all[0].JudgedAgain() || old.Tree() != "old" {
		t.Fatalf("%+v", all)
	}
	r := all[1]
	if commit, tree := r.Ran(); r.Attempt != 2 || r.Verdict != checker.Fail || r.Tree() != "new" || commit != "0123456" || tree != "old" || r.Check.Run != "a" {
		t.Errorf("%+v, run by %s of %s", r, commit, tree)
	}
	if commits, n := RanCommits(all); n != 1 || !reflect.DeepEqual(commits, []string{"0123456"}) {
		t.Errorf("%d by %v", n, commits)
	}
	if !reflect.DeepEqual(environmentOf(r), environmentOf(all[0])) {
		t.Error("it has another environment")
	}
}

// TestArchiveOfRejudgedStays: a PASS that is replaced takes no archive with it that a red result of the
// same run names.
func TestArchiveOfRejudgedStays(t *testing.T) {
	t.Parallel()
	runs, s := newRuns(t), aStore(t)
	l := Loop{Store: s, Run: runs.run, Fresh: true}
	do := func() []Result {
		t.Helper()
		_, err := l.Do(t.Context(), func(yield func(Job) bool) { yield(jobs(1)[0]) }, 1)
		must(t, err)
		all, err := s.All()
		must(t, err)
		return all
	}
	first := do()[0]
	_, err := s.Put(first.Rejudged(checker.Result{Verdict: checker.Fail}, "c2", "new"))
	must(t, err)
	if all := do(); len(all) != 2 || all[0].Verdict != checker.Fail {
		t.Fatalf("%+v", all)
	}
	if _, err := rundir.FindArchive(runs.dir, first.Info.Run); err != nil {
		t.Errorf("%s is gone: %v", filepath.Base(first.History.File), err)
	}
}
