package evidence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fencepost/checker"
	"fencepost/harness/record/progress"
	"fencepost/harness/record/rundir"
	"fencepost/internal/terminal"
)

// runs is a stand-in for real runs: it makes a run's directory each time.
type runs struct {
	t        *testing.T
	dir      string
	did      []Job
	verdicts map[uint64]checker.Verdict // by seed; PASS if not named
	fail     map[uint64]error
	stopAt   uint64 // the seed at which stop is called during the run
	stop     context.CancelFunc
	n        int
	tree     string
}

func newRuns(t *testing.T) *runs {
	return &runs{t: t, dir: t.TempDir(), verdicts: map[uint64]checker.Verdict{}, fail: map[uint64]error{}}
}

func (r *runs) run(_ context.Context, j Job) (Result, error) {
	r.did = append(r.did, j)
	r.n++
	name := fmt.Sprintf("run-%d-%d", j.Seed, r.n)
	dir := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Join(dir, rundir.HistoryDir), 0o755); err != nil {
		r.t.Fatal(err)
	}
	info := rundir.Info{Run: name, Scenario: j.Scenario, Seed: j.Seed, Versions: map[string]string{TreeKey: r.tree}}
	if r.stopAt != 0 && j.Seed == r.stopAt {
		info.Interrupted = "stopped by a signal"
		r.stop()
	}
	if err := rundir.WriteJSON(filepath.Join(dir, rundir.InfoFile), info); err != nil {
		r.t.Fatal(err)
	}
	v := r.verdicts[j.Seed]
	if v == "" {
		v = checker.Pass
	}
	return Result{Verdict: v, Info: info, Check: &checker.Result{Verdict: v}, Dir: dir}, r.fail[j.Seed]
}

func (r *runs) seeds() []uint64 {
	var out []uint64
	for _, j := range r.did {
		out = append(out, j.Seed)
	}
	return out
}

// dirs lists the run directories that are left.
func (r *runs) dirs() []string {
	es, err := os.ReadDir(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		if e.Name() != rundir.ArchiveDir {
			out = append(out, e.Name())
		}
	}
	return out
}

// archives fails unless there is an archive of each stored PASS, as the result says, and no other.
func (r *runs) archives(s *Store) {
	r.t.Helper()
	all, err := s.All()
	if err != nil {
		r.t.Fatal(err)
	}
	var want []string
	for _, x := range all {
		if (x.History != nil) != (x.Verdict == checker.Pass) {
			r.t.Errorf("%s, %s: archive %+v", x.Job, x.Verdict, x.History)
		}
		if x.History == nil {
			continue
		}
		want = append(want, x.Info.Run)
		dir, err := x.History.Unpack(r.dir, r.t.TempDir())
		if err != nil {
			r.t.Error(err)
		} else if info, err := rundir.ReadInfo(dir); err != nil || info.Seed != x.Job.Seed {
			r.t.Errorf("%s: its archive is of %+v, %v", x.Job, info, err)
		}
	}
	slices.Sort(want)
	if have, err := rundir.Archives(r.dir); err != nil || !slices.Equal(have, want) {
		r.t.Errorf("archives %v, want %v (%v)", have, want, err)
	}
}

func jobs(n int) []Job {
	return Jobs([]Scenario{{Name: "steady", Default: "medium"}}, []string{"medium"}, 1, n)
}

func TestInterruptedLoopDoesOnlyTheRest(t *testing.T) {
	t.Parallel()
	store := aStore(t)
	r := newRuns(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.stop, r.stopAt = cancel, 3
	l := &Loop{Store: store, Run: r.run}
	tally, err := l.Do(ctx, slices.Values(jobs(5)), 5)
	if !errors.Is(err, ErrInterrupted) || tally.Done != 2 {
		t.Fatalf("done %d, error %v, want 2 and interrupted", tally.Done, err)
	}
	if left := r.dirs(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	r.did, r.stopAt = nil, 0
	tally, err = l.Do(t.Context(), slices.Values(jobs(5)), 5)
	if err != nil || !slices.Equal(r.seeds(), []uint64{3, 4, 5}) || tally.Done != 5 || tally.Ran != 3 {
		t.Errorf("seeds %v, tally %+v, error %v, want 3 4 5", r.seeds(), tally, err)
	}
	r.did = nil
	if _, err = l.Do(t.Context(), slices.Values(jobs(5)), 5); err != nil || len(r.did) != 0 {
		t.Errorf("a complete set ran %v again (%v)", r.did, err)
	}
}

// A violation found in a run that was cut short is a violation.
func TestInterruptedFailIsStored(t *testing.T) {
	t.Parallel()
	r := newRuns(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.stop, r.stopAt, r.verdicts[2] = cancel, 2, checker.Fail
	store := aStore(t)
	tally, err := (&Loop{Store: store, Run: r.run}).Do(ctx, slices.Values(jobs(3)), 3)
	if !errors.Is(err, ErrInterrupted) || tally.Worst != checker.Fail || len(r.dirs()) != 1 {
		t.Errorf("worst %s, error %v, directories %v", tally.Worst, err, r.dirs())
	}
}

func TestRedResultsStay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		first        checker.Verdict
		fresh, retry bool
		ran          bool
		left         []string
		worst        checker.Verdict // after the second run, which is PASS
	}{
		{"pass again", checker.Pass, false, true, false, []string{"steady-medium-1"}, checker.Pass},
		{"pass fresh", checker.Pass, true, false, true, []string{"steady-medium-1"}, checker.Pass},
		{"fail again", checker.Fail, false, false, false, []string{"steady-medium-1"}, checker.Fail},
		{"fail retried", checker.Fail, false, true, true, []string{"steady-medium-1", "steady-medium-1.2"}, checker.Fail},
		{"fail fresh", checker.Fail, true, false, true, []string{"steady-medium-1", "steady-medium-1.2"}, checker.Fail},
		{"invalid retried", checker.Invalid, false, true, true, []string{"steady-medium-1", "steady-medium-1.2"}, checker.Pass},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, r := aStore(t), newRuns(t)
			r.verdicts[1] = c.first
			l := &Loop{Store: store, Run: r.run}
			if _, err := l.Do(t.Context(), slices.Values(jobs(1)), 1); err != nil {
				t.Fatal(err)
			}
			r.did, r.verdicts[1] = nil, checker.Pass
			l.Fresh, l.Retry = c.fresh, c.retry
			tally, err := l.Do(t.Context(), slices.Values(jobs(1)), 1)
			if err != nil || (len(r.did) > 0) != c.ran || tally.Worst != c.worst {
				t.Errorf("ran %v, worst %s, error %v", r.did, tally.Worst, err)
			}
			if left := names(t, store); !slices.Equal(left, c.left) {
				t.Errorf("results %v, want %v", left, c.left)
			}
			if red := c.first != checker.Pass; red != (len(r.dirs()) == 1) {
				t.Errorf("directories of runs: %v", r.dirs())
			}
			r.archives(store)
		})
	}
}

func TestErrorsAreStoredAndTheSetGoesOn(t *testing.T) {
	t.Parallel()
	store, r := aStore(t), newRuns(t)
	r.fail[2] = errors.New("no worker came up\nmore")
	healed := 0
	var out strings.Builder
	l := &Loop{Store: store, Run: r.run, Show: progress.NewText(&out, terminal.Style{}).Show,
		Heal: func(context.Context) error { healed++; return nil }}
	tally, err := l.Do(t.Context(), slices.Values(jobs(3)), 3)
	if err != nil || tally.Done != 3 || tally.Worst != Error || ExitCode(tally.Worst) != 2 || healed != 1 {
		t.Errorf("tally %+v, healed %d times, error %v", tally, healed, err)
	}
	all, err := store.All()
	if err != nil || len(all) != 3 || all[1].Verdict != Error || !strings.Contains(all[1].Error, "no worker came up") {
		t.Errorf("stored: %+v, %v", all, err)
	}
	if !strings.Contains(out.String(), "[2/3] steady medium seed 2  ERROR") || len(r.dirs()) != 1 {
		t.Errorf("it said %q and left %v", out.String(), r.dirs())
	}
	r.archives(store)
}

func TestClusterThatCannotBeHealedEndsTheLoop(t *testing.T) {
	t.Parallel()
	r := newRuns(t)
	r.verdicts[1] = checker.Invalid
	l := &Loop{Store: aStore(t), Run: r.run, Heal: func(context.Context) error { return errors.New("n2 is dead") }}
	tally, err := l.Do(t.Context(), slices.Values(jobs(3)), 3)
	if err == nil || !strings.Contains(err.Error(), "n2 is dead") || tally.Ran != 1 {
		t.Errorf("tally %+v, error %v", tally, err)
	}
}

func TestStopAtRed(t *testing.T) {
	t.Parallel()
	r := newRuns(t)
	r.verdicts[2] = checker.Unknown
	l := &Loop{Store: aStore(t), Run: r.run, StopAtRed: true}
	if tally, err := l.Do(t.Context(), slices.Values(jobs(4)), 0); err != nil || tally.Ran != 2 || tally.Worst != checker.Unknown {
		t.Errorf("tally %+v, error %v", tally, err)
	}
}

// TestOtherCode: what other code decided is neither done nor counted, and what of it is red
// stays.
func TestOtherCode(t *testing.T) {
	t.Parallel()
	store, r := aStore(t), newRuns(t)
	r.verdicts[2] = checker.Fail
	r.tree = "one"
	l := &Loop{Store: store, Run: r.run, Tree: "one"}
	if tally, err := l.Do(t.Context(), slices.Values(jobs(3)), 3); err != nil || tally.Ran != 3 || tally.Worst != checker.Fail {
		t.Fatalf("tally %+v, error %v", tally, err)
	}
	if tally, err := l.Do(t.Context(), slices.Values(jobs(3)), 3); err != nil || tally.Ran != 0 || tally.Worst != checker.Fail {
		t.Errorf("the same code: tally %+v, error %v", tally, err)
	}
	delete(r.verdicts, 2)
	r.tree, l.Tree = "two", "two"
	if tally, err := l.Do(t.Context(), slices.Values(jobs(3)), 3); err != nil || tally.Ran != 3 || tally.Worst != checker.Pass {
		t.Errorf("other code: tally %+v, error %v", tally, err)
	}
	all, err := store.All()
	must(t, err)
	var have []string
	for _, x := range all {
		have = append(have, x.Name()+" "+string(x.Verdict)+" "+x.Tree())
	}
	want := []string{"steady-medium-1 PASS two", "steady-medium-2 FAIL one", "steady-medium-2.2 PASS two", "steady-medium-3 PASS two"}
	if !slices.Equal(have, want) {
		t.Errorf("stored %q, want %q", have, want)
	}
	r.archives(store)

	// A job whose plan is another one is done again, and no other.
	l.Plan = func(j Job) string {
		if j.Seed == 3 {
			return "changed"
		}
		return ""
	}
	if tally, err := l.Do(t.Context(), slices.Values(jobs(3)), 3); err != nil || tally.Ran != 1 || tally.Done != 3 {
		t.Errorf("another plan: tally %+v, error %v", tally, err)
	}
}
