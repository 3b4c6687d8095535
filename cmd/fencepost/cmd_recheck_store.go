package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"fencepost/checker"
	"fencepost/harness/target/system"
	"fencepost/reports/evidence"
)

// rejudging judges stored results again and stores what comes out.
type rejudging struct {
	recheckFlags
	exe    string
	opts   checker.Options
	in     *repo
	ran    string // the digest of what decides what runs, of this tool
	tally  recheckTally
	stored int
	left   leftOut
}

// leftOut counts what was not judged, and why not.
type leftOut struct {
	done    int // jobs: they have a result of this code
	other   int // runs by code that runs something else
	nothing int // runs by code that no commit answers for
	hidden  int // jobs of which a red run cannot be judged
}

func (f recheckFlags) runStore(ctx context.Context, out io.Writer, exe string, args []string, opts checker.Options) error {
	a := rejudging{recheckFlags: f, exe: exe, opts: opts, in: repoAround(f.results), tally: recheckTally{out: out}}
	if err := a.answered(); err != nil {
		return usageError(fmt.Errorf("recheck --store: %w: commit everything, make build, and judge with that tool", err))
	}
	for _, arg := range args {
		if err := a.set(ctx, arg); err != nil {
			return err
		}
	}
	return a.end()
}

// answered is an error if no commit answers for this tool: what it stores would count for nothing.
func (a *rejudging) answered() error {
	self := maker{"", map[string]string{evidence.CommitKey: a.commit, evidence.TreeKey: a.tree}, true}
	why := self.unknown()
	switch {
	case why == "" && (a.tree == "" || a.tree == unknownBuild):
		why = "made of a tree of which nothing is known"
	case why == "" && a.in == nil:
		return fmt.Errorf("no git repository is around %s, so that nothing says which code ran", a.results)
	}
	if why == "" {
		err := a.in.know([]maker{self})
		if err == nil {
			why, err = self.refused(a.in)
		}
		if err != nil {
			return err
		}
	}
	if why != "" {
		return fmt.Errorf("this tool was %s", why)
	}
	var err error
	a.ran, err = a.in.ran(a.commit, a.tree)
	return err
}

// set judges what is left of a file of results, a job after the other.
func (a *rejudging) set(ctx context.Context, arg string) error {
	file := a.fileOf(ctx, arg)
	if filepath.Ext(file) != evidence.Ending {
		return usageError(fmt.Errorf("%s is neither a set nor a file of results (…%s): only these have results to store beside", arg, evidence.Ending))
	}
	store := evidence.NewStore(file)
	all, err := store.All()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return usageError(fmt.Errorf("%s has no results", file))
	}
	var makers []maker
	for _, r := range all {
		makers = append(makers, maker{r.Name(), r.Info.Versions, true})
	}
	if err := a.in.know(makers); err != nil {
		return err
	}
	todo, done := evidence.Again(all, a.tree, planDigest)
	a.left.done += done
	for i, runs := range todo {
		if runs, err = a.mine(runs); err != nil {
			return err
		}
		if err := a.job(ctx, fmt.Sprintf("[%d/%d] ", i+1, len(todo)), store, runs); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return &exitError{code: exitNotDone, err: fmt.Errorf("interrupted: %d of %d jobs are done, and what came out is stored", i, len(todo))}
		}
	}
	return nil
}

// mine are the runs that this tool's code would carry out in the same way.
func (a *rejudging) mine(all []evidence.Result) (out []evidence.Result, err error) {
	for _, r := range all {
		why, err := maker{r.Name(), r.Info.Versions, true}.refused(a.in)
		if err != nil {
			return nil, err
		}
		if why != "" {
			a.left.nothing++
			continue
		}
		runs, err := a.in.ran(r.Ran())
		if err != nil {
			return nil, err
		}
		if runs != a.ran {
			a.left.other++
			continue
		}
		out = append(out, r)
	}
	return out, nil
}

// job judges the runs of one job, and stores nothing of it if the red one that decides its
// standing cannot be judged: the others alone would make it look better than it is.
func (a *rejudging) job(ctx context.Context, at string, store *evidence.Store, runs []evidence.Result) error {
	var out []evidence.Result
	hides := false
	for i, r := range runs {
		now := r
		ok := a.one(ctx, at, &now)
		if ctx.Err() != nil {
			return nil // it may be why this one could not be judged
		}
		if ok {
			out = append(out, now)
		}
		hides = hides || !ok && (r.Verdict == checker.Fail || i == len(runs)-1)
	}
	if hides && len(out) > 0 {
		a.left.hidden++
		fmt.Fprintf(a.tally.out, "%s%s  not stored: a run of it cannot be judged that counts\n", at, runs[0].Job)
		return nil
	}
	for _, r := range out {
		if _, err := store.Put(r); err != nil {
			return fmt.Errorf("store the result of %s: %w", r.Job, err)
		}
		a.stored++
	}
	return nil
}

// one makes of a result the one that this tool judges, and says whether it could.
func (a *rejudging) one(ctx context.Context, at string, r *evidence.Result) bool {
	began, old, rec := time.Now(), *r, storedRecord(*r, a.runs)
	was, now, err := judgeAgain(ctx, rec, a.exe, a.opts, func(dir string, now *checker.Result) (err error) {
		if old.Info.Interrupted != "" && now.Verdict != checker.Fail {
			return errors.New("it was interrupted, and shows less than it was to")
		}
		*r = old.Rejudged(*now, a.commit, a.tree)
		r.Detection, err = redetected(dir, old)
		return err
	})
	a.tally.count(at+rec.name, was, now, err, time.Since(began))
	return err == nil && was != nil
}

// redetected is how a known-broken variant was found by this checker, nil of others. What took time
// when it ran stays.
func redetected(dir string, old evidence.Result) (*evidence.Detection, error) {
	if old.Detection == nil {
		return nil, nil
	}
	sys, ok := system.FindDirected(old.Job.System, old.Job.Scenario, old.Job.Contention)
	if !ok {
		return nil, fmt.Errorf("%s: nothing says what must be found in it", old.Job)
	}
	d, err := detection(dir, sys, 0)
	if d != nil {
		d.Verdict = old.Detection.Verdict
	}
	return d, err
}

// end says what came out and makes it the exit code.
func (a *rejudging) end() error {
	err := a.tally.end()
	l := a.left
	fmt.Fprintf(a.tally.out, "%d stored; left as they were: %d jobs with a result of this code, %d runs by other code, %d runs by code that no commit answers for, %d jobs with a red run that cannot be judged\n",
		a.stored, l.done, l.other, l.nothing, l.hidden)
	t := a.tally
	if l.done > 0 && t.judged+t.none+t.unchecked+t.notPossible+l.other+l.nothing == 0 {
		return nil // nothing is left to judge
	}
	return err
}
