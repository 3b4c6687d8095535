package evidence

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fencepost/checker"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
)

// Loop carries out jobs one after the other and stores each result at once.
type Loop struct {
	Store *Store
	// Run does a run. An error means that it could not be carried out or checked;
	// the Result then holds what is known (Dir, Info).
	Run func(ctx context.Context, j Job) (Result, error)
	// Heal makes the cluster healthy; it is called before a run that follows one
	// that was not PASS. An error ends the loop: what comes after would not count.
	Heal func(ctx context.Context) error
	// Show, if set, is called after each run.
	Show func(progress.Event)
	// Tree is the digest of what decides a verdict today. Results of another one are not
	// done: they stay, and count for nothing here, until a PASS replaces a PASS. "": all count.
	Tree string
	// Plan is the digest of the plan that a job has today. Results of another plan are not done either.
	// nil: all count.
	Plan func(Job) string
	// Fresh runs jobs again that have a result; an old PASS is then replaced.
	Fresh bool
	// Retry runs jobs again whose verdict is not PASS.
	Retry bool
	// StopAtRed ends the loop after the first run that is not PASS.
	StopAtRed bool
}

// Tally is what a loop found, over stored and new results.
type Tally struct {
	Jobs, Done, Ran int
	// Worst is the worst verdict of all jobs that have a result, as they count (Counts).
	Worst checker.Verdict
	// Verdicts counts jobs by their standing verdict.
	Verdicts map[checker.Verdict]int
	// Repeated are the new runs that were made twice, as the machine was too busy.
	Repeated int
}

// ErrInterrupted: the loop was stopped; what was done is stored.
var ErrInterrupted = errors.New("interrupted")

func (t *Tally) count(attempts []Result) {
	t.Done++
	t.Worst = Worst(t.Worst, Counts(attempts))
	t.Verdicts[Standing(attempts)]++
}

// Plus is what both loops found.
func (t Tally) Plus(o Tally) Tally {
	t.Jobs, t.Done, t.Ran, t.Repeated = t.Jobs+o.Jobs, t.Done+o.Done, t.Ran+o.Ran, t.Repeated+o.Repeated
	t.Worst, t.Verdicts = Worst(t.Worst, o.Worst), maps.Clone(t.Verdicts)
	for v, n := range o.Verdicts {
		t.Verdicts[v] += n
	}
	return t
}

// String says how many jobs have which verdict.
func (t Tally) String() string {
	var parts []string
	for _, v := range []checker.Verdict{checker.Fail, Error, checker.Invalid, checker.Unknown, checker.Pass} {
		if n := t.Verdicts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if len(parts) == 0 {
		return "no results"
	}
	if t.Repeated > 0 {
		parts = append(parts, fmt.Sprintf("%d repeated once: host too busy", t.Repeated))
	}
	return strings.Join(parts, ", ")
}

// Do carries out the jobs that the store does not hold. total is their number
// for the progress, 0 if nobody knows it. The tally is valid beside an error too.
func (l *Loop) Do(ctx context.Context, jobs iter.Seq[Job], total int) (Tally, error) {
	t := Tally{Worst: checker.Pass, Verdicts: map[checker.Verdict]int{}}
	all, err := l.Store.All()
	if err != nil {
		return t, err
	}
	have := map[Job][]Result{}
	for _, r := range all {
		have[r.Job] = append(have[r.Job], r)
	}
	e := eta{left: total}
	healthy := true
	for j := range jobs {
		t.Jobs++
		old := have[j]
		current := Current(old, l.Tree, l.Plan)
		if !l.wanted(current) {
			t.count(current)
			e.left--
			continue
		}
		if ctx.Err() != nil {
			return t, ErrInterrupted
		}
		if !healthy && l.Heal != nil {
			if err := l.Heal(ctx); err != nil {
				if ctx.Err() != nil {
					return t, ErrInterrupted
				}
				return t, fmt.Errorf("before %s: the cluster is not healthy, so no run after this would count: %w", j, err)
			}
		}
		r, interrupted := l.one(ctx, j)
		if interrupted && r.Verdict != checker.Fail {
			// It was cut short and shows nothing; it is done again.
			return t, errors.Join(ErrInterrupted, rundir.Remove(r.Dir))
		}
		if r, err = l.keep(r, old); err != nil {
			return t, err
		}
		t.Ran++
		if r.Info.RepeatOf != "" {
			t.Repeated++
		}
		t.count(append(current, r))
		e.done(r.Took)
		if l.Show != nil {
			l.Show(progress.Event{Kind: progress.KindResult, Result: told(t.Jobs, total, r, l.Store.File(), e)})
		}
		healthy = r.Verdict == checker.Pass
		switch {
		case interrupted:
			return t, ErrInterrupted
		case l.StopAtRed && !healthy:
			return t, nil
		}
	}
	return t, nil
}

func (l *Loop) wanted(old []Result) bool {
	return len(old) == 0 || l.Fresh || l.Retry && Counts(old) != checker.Pass
}

// one does a run; what goes wrong becomes part of the result.
func (l *Loop) one(ctx context.Context, j Job) (r Result, interrupted bool) {
	began := time.Now()
	r, err := l.Run(ctx, j)
	r.Job, r.Took = j, time.Since(began).Round(time.Millisecond)
	if err != nil {
		r.Verdict, r.Error, r.Check = Error, err.Error(), nil
	}
	return r, r.Info.Interrupted != "" || err != nil && ctx.Err() != nil
}

// keep stores the result, and of a PASS the record in an archive; only then the directory of a
// PASS goes, and with the PASS that it replaces the archive of that, unless a result that stays has
// it too: its run was judged again.
func (l *Loop) keep(r Result, old []Result) (Result, error) {
	if r.Verdict != checker.Pass {
		return l.put(r)
	}
	if r.Dir != "" {
		a, err := rundir.Pack(r.Dir)
		if err != nil {
			return r, fmt.Errorf("keep the history of %s: %w", r.Job, err)
		}
		r.History = &a
	}
	var passed, stay []Result
	for _, o := range old {
		if o.Verdict == checker.Pass {
			passed = append(passed, o)
		} else {
			stay = append(stay, o)
		}
	}
	r, err := l.put(r, passed...)
	if err != nil {
		return r, err
	}
	err = rundir.Remove(r.Dir)
	for _, o := range passed {
		needed := func(s Result) bool { return s.History != nil && *s.History == *o.History }
		if o.History != nil && r.Dir != "" && !slices.ContainsFunc(stay, needed) {
			err = errors.Join(err, o.History.Remove(filepath.Dir(r.Dir)))
		}
	}
	return r, err
}

func (l *Loop) put(r Result, replaces ...Result) (Result, error) {
	stored, err := l.Store.Put(r, replaces...)
	if err != nil {
		err = fmt.Errorf("store the result of %s (its run is in %s): %w", r.Job, r.Dir, err)
	}
	return stored, err
}

// told is one run of the progress.
func told(n, total int, r Result, file string, e eta) *progress.Result {
	p := &progress.Result{
		N: n, Total: total, Name: r.Job.String(), Verdict: string(r.Verdict), Fired: r.Fired(), Error: r.Error,
		Took: r.Took.Seconds(), Left: e.rest().Seconds(), File: file,
	}
	if r.Verdict != checker.Pass {
		p.Dir = r.Dir
	}
	return p
}

// eta estimates the rest from the mean of what was done.
type eta struct {
	left, ran int
	took      time.Duration
}

func (e *eta) done(d time.Duration) { e.left, e.ran, e.took = e.left-1, e.ran+1, e.took+d }

func (e eta) rest() time.Duration {
	if e.left <= 0 || e.ran == 0 {
		return 0
	}
	return (e.took / time.Duration(e.ran) * time.Duration(e.left)).Round(time.Minute)
}

// OfTree are the results that code with this digest decided; "": all.
func OfTree(all []Result, tree string) []Result {
	return slices.DeleteFunc(slices.Clone(all), func(r Result) bool { return tree != "" && r.Tree() != tree })
}

// Current are the results of code with this digest, of runs whose plan is the one that the job has with
// it: a scenario that is changed makes its own results old alone. No digest: all.
func Current(all []Result, tree string, plan func(Job) string) []Result {
	return slices.DeleteFunc(OfTree(all, tree), func(r Result) bool {
		return tree != "" && plan != nil && r.Info.Versions[PlanKey] != plan(r.Job)
	})
}

// Commits lists the commits of which results were made, sorted.
func Commits(rs []Result) []string {
	seen := map[string]bool{}
	for _, r := range rs {
		if c := r.Info.Versions[CommitKey]; c != "" {
			seen[c] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
