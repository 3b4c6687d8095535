package evidence

import (
	"maps"
	"slices"

	"fencepost/checker"
)

// Ran is the commit that carried the run out, and its tree: those of the result, unless its run
// was judged again by other code.
func (r Result) Ran() (commit, tree string) {
	v := r.Info.Versions
	if r.JudgedAgain() {
		return v[RanCommitKey], v[RanTreeKey]
	}
	return v[CommitKey], v[TreeKey]
}

// JudgedAgain: the verdict is of code that did not carry the run out.
func (r Result) JudgedAgain() bool {
	return r.Info.Versions[RanCommitKey] != "" || r.Info.Versions[RanTreeKey] != ""
}

// Again are the results whose runs are to be judged again by code with the digest tree, by job: of
// each run the newest, if its plan is the one that the job has today. There is none of a job that this
// code has run itself, and of a run that it has judged. done counts the jobs for which nothing is left.
func Again(all []Result, tree string, plan func(Job) string) (todo [][]Result, done int) {
	var jobs []Job
	of := map[Job][]Result{}
	for _, r := range all {
		if of[r.Job] == nil {
			jobs = append(jobs, r.Job)
		}
		of[r.Job] = append(of[r.Job], r)
	}
	for _, j := range jobs {
		digest := plan(j) // once, as drawing a plan takes time
		planned := func(Job) string { return digest }
		own := Current(of[j], tree, planned)
		if slices.ContainsFunc(own, func(r Result) bool { return !r.JudgedAgain() }) {
			done++
			continue
		}
		newest := map[string]Result{}
		var runs []string
		for _, r := range of[j] {
			judged := func(o Result) bool { return o.Info.Run == r.Info.Run }
			if r.Info.Versions[PlanKey] != digest || slices.ContainsFunc(own, judged) {
				continue
			}
			if _, ok := newest[r.Info.Run]; !ok {
				runs = append(runs, r.Info.Run)
			}
			newest[r.Info.Run] = r
		}
		var some []Result
		for _, run := range runs {
			some = append(some, newest[run])
		}
		switch {
		case len(some) > 0:
			todo = append(todo, some)
		case len(own) > 0:
			done++
		}
	}
	return todo, done
}

// Rejudged is the result of the same run by another check, made by this commit and tree.
func (r Result) Rejudged(check checker.Result, commit, tree string) Result {
	ranCommit, ranTree := r.Ran()
	r.Verdict, r.Check, r.Error = check.Verdict, Condense(check), ""
	r.Check.Run = r.Info.Run
	r.Info.Versions = with(map[string]string{}, r.Info.Versions)
	maps.Copy(r.Info.Versions, map[string]string{CommitKey: commit, TreeKey: tree, RanCommitKey: ranCommit, RanTreeKey: ranTree})
	return r
}

// RanCommits lists the commits that carried out the runs that were judged again, sorted, and
// counts these runs.
func RanCommits(all []Result) (commits []string, runs int) {
	for _, r := range all {
		if !r.JudgedAgain() {
			continue
		}
		runs++
		if c, _ := r.Ran(); !slices.Contains(commits, c) {
			commits = append(commits, c)
		}
	}
	slices.Sort(commits)
	return commits, runs
}
