package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
	"fencepost/reports/evidence"
)

// recheckFlags are the flags of `fencepost recheck`.
type recheckFlags struct {
	results, runs string
	memoryMB      int64
	store         bool
	commit, tree  string // the tool's own
}

func newRecheckCmd() *cobra.Command {
	f := recheckFlags{commit: builtFrom, tree: builtOf}
	cmd := &cobra.Command{
		Use:   "recheck SET | DIR…",
		Short: "Judge kept histories again with this checker, and report changed verdicts",
		Long: `Judges kept histories again and reports each verdict, or set of fired properties, that
changed. SET is a set of evidence, or power: its stored results name the histories, which are
compared with their digests first. DIR is a file of results (…` + evidence.Ending + `), a run's directory, an
archive (…` + rundir.ArchiveEnding + `), or a directory of runs with both. Nothing is changed: neither verdict.json nor
the stored results.

--store stores what came out as a new result of this tool's code, beside the old one. It is for
stored results whose runs this tool's code would carry out in the same way, and only they are
judged then (docs/evidence.md).

Exit codes: 0 every verdict is as it was; 1 one is FAIL that was not; 2 a history is missing,
is not what was packed, is malformed or could not be checked, or there was nothing to judge;
3 verdicts changed, none of them to FAIL; 64 bad input, or --store by a tool that
no commit answers for. The first of 1, 2, 3 that applies.`,
		Args: someArgs(fmt.Sprintf("recheck what? Name a set (%s, %s) or a directory", strings.Join(setNames(), ", "), powerSet)),
		RunE: func(cmd *cobra.Command, args []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), exe, args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.results, "results", "results", "directory of the stored results")
	fl.StringVar(&f.runs, "runs", "runs", "directory of the runs' directories and archives")
	fl.BoolVar(&f.store, "store", false, "of stored results: judge those of other code that runs the same, and store what comes out beside them")
	fl.Int64Var(&f.memoryMB, "memory", checker.DefaultMemory>>20, "memory for each check in MB; 0: no limit")
	return cmd
}

func (f recheckFlags) run(ctx context.Context, out io.Writer, exe string, args []string) error {
	f.results, f.runs = within(ctx, f.results), within(ctx, f.runs)
	opts := checker.Options{Memory: inBytes(f.memoryMB)}
	if f.store {
		return f.runStore(ctx, out, exe, args, opts)
	}
	var all []record
	for _, arg := range args {
		some, err := f.records(ctx, arg)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	t := recheckTally{out: out}
	for i, r := range all {
		if ctx.Err() != nil {
			return &exitError{code: exitNotDone, err: fmt.Errorf("interrupted: %d of %d were judged again", t.judged, len(all))}
		}
		began := time.Now()
		was, now, err := judgeAgain(ctx, r, exe, opts, nil)
		t.count(fmt.Sprintf("[%d/%d] %s", i+1, len(all), r.name), was, now, err, time.Since(began))
	}
	return t.end()
}

// judgeAgain judges one record in a directory of its own, and hands it to use, if that is not nil.
func judgeAgain(ctx context.Context, r record, exe string, opts checker.Options, use func(dir string, now *checker.Result) error) (was, now *checker.Result, err error) {
	tmp, err := os.MkdirTemp("", "fencepost-recheck-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(tmp)
	dir, was, err := r.open(tmp)
	if err != nil || was == nil {
		return was, nil, err
	}
	if now, err = opts.CheckInChild(ctx, exe, dir); err == nil && use != nil {
		err = use(dir, now)
	}
	return was, now, err
}

// recheckTally counts what came out, and tells it.
type recheckTally struct {
	out                          io.Writer
	judged, failed               int
	none, unchecked, notPossible int
	changed                      []string
}

func (t *recheckTally) count(name string, was, now *checker.Result, err error, took time.Duration) {
	switch {
	case errors.Is(err, errNoHistory):
		t.none++
		return // as a rule many, of the same set
	case err != nil:
		t.notPossible++
		fmt.Fprintf(t.out, "%s  not judged: %v\n", name, err)
		return
	case was == nil:
		t.unchecked++
		fmt.Fprintf(t.out, "%s  not judged: it never was\n", name)
		return
	}
	t.judged++
	before, after := outcome(was), outcome(now)
	if before == after {
		fmt.Fprintf(t.out, "%s  %s  %.1fs\n", name, after, took.Seconds())
		return
	}
	if now.Verdict == checker.Fail && was.Verdict != checker.Fail {
		t.failed++
	}
	line := fmt.Sprintf("%s  %s, was %s", name, after, before)
	t.changed = append(t.changed, line+"\n  "+checker.AnswerOf(now, nil).Sentence())
	fmt.Fprintln(t.out, line)
}

// end says what came out and makes it the exit code.
func (t *recheckTally) end() error {
	if len(t.changed) > 0 {
		fmt.Fprintf(t.out, "\nchanged:\n%s\n\n", strings.Join(t.changed, "\n"))
	}
	fmt.Fprintf(t.out, "%d judged again, %d verdicts changed, %d of them to FAIL; not judged: %d without a history here, %d that never were judged, %d that could not be\n",
		t.judged, len(t.changed), t.failed, t.none, t.unchecked, t.notPossible)
	switch {
	case t.failed > 0:
		return exitWith(1)
	case t.notPossible > 0 || t.judged == 0:
		return exitWith(exitNotDone)
	case len(t.changed) > 0:
		return exitWith(3)
	}
	return nil
}

// records are what an argument names.
func (f recheckFlags) records(ctx context.Context, arg string) ([]record, error) {
	path := f.fileOf(ctx, arg)
	if path != relativeTo(workDir(ctx), arg) {
		return storedRecords(path, f.runs)
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usageError(fmt.Errorf("%s is neither a set (%s, %s) nor a directory", arg, strings.Join(setNames(), ", "), powerSet))
	case err != nil:
		return nil, err
	case filepath.Ext(path) == evidence.Ending:
		return storedRecords(path, f.runs)
	case !st.IsDir():
		return archiveRecord(path)
	case checker.RunDir(path) != "":
		return []record{dirRecord(path)}, nil
	}
	all, err := runRecords(path)
	slices.SortFunc(all, func(a, b record) int { return strings.Compare(a.name, b.name) })
	return all, err
}

// fileOf is the file of a set's results, or what else an argument names.
func (f recheckFlags) fileOf(ctx context.Context, arg string) string {
	if _, err := evidence.FindSet(arg); err == nil {
		return filepath.Join(f.results, reports.KeptEvidence, arg+evidence.Ending)
	}
	if arg == powerSet {
		return filepath.Join(f.results, powerSet+evidence.Ending)
	}
	return relativeTo(workDir(ctx), arg)
}

// errNoHistory: a result has none on this machine, and does not say that there is one.
var errNoHistory = errors.New("no history")

// record is a run that was recorded.
type record struct {
	name string
	// open makes its directory available, below tmp, where it may be written to, and says
	// how it was judged (nil: it never was).
	open func(tmp string) (dir string, was *checker.Result, err error)
}

// storedRecords are the runs of a store's results.
func storedRecords(file, runs string) ([]record, error) {
	all, err := evidence.NewStore(file).All()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, usageError(fmt.Errorf("%s has no results", file))
	}
	var out []record
	for _, r := range all {
		out = append(out, storedRecord(r, runs))
	}
	return out, nil
}

// storedRecord is the run of a stored result.
func storedRecord(r evidence.Result, runs string) record {
	name := r.Job.String()
	if r.Attempt > 1 {
		name += fmt.Sprintf(" (attempt %d)", r.Attempt)
	}
	return record{name, func(tmp string) (string, *checker.Result, error) {
		if r.Check == nil {
			return "", nil, nil
		}
		dir, err := stored(r, runs, tmp)
		return dir, r.Check, err
	}}
}

// stored is the record of a result: the archive that it names, or the run's directory if
// that is still there.
func stored(r evidence.Result, runs, tmp string) (string, error) {
	if r.History != nil {
		return r.History.Unpack(runs, tmp)
	}
	dir := filepath.Join(runs, filepath.Base(r.Info.Run))
	if info, err := rundir.ReadInfo(dir); err != nil || info.Run != r.Info.Run {
		return "", errNoHistory
	}
	return linked(dir, tmp)
}

// dirRecord is a run's directory.
func dirRecord(dir string) record {
	return record{filepath.Base(dir), func(tmp string) (string, *checker.Result, error) {
		was, err := verdictIn(dir)
		if err != nil || was == nil {
			return "", was, err
		}
		copied, err := linked(dir, tmp)
		return copied, was, err
	}}
}

// archiveRecord is an archive by its file, which nothing has a digest of.
func archiveRecord(file string) ([]record, error) {
	runs, run := filepath.Dir(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), rundir.ArchiveEnding)
	if run+rundir.ArchiveEnding != filepath.Base(file) || filepath.Base(filepath.Dir(file)) != rundir.ArchiveDir {
		return nil, usageError(fmt.Errorf("%s is no archive (…/%s/RUN%s): files of a history are judged by fencepost check", file, rundir.ArchiveDir, rundir.ArchiveEnding))
	}
	return []record{{run, func(tmp string) (string, *checker.Result, error) {
		a, err := rundir.FindArchive(runs, run)
		if err != nil {
			return "", nil, err
		}
		dir, err := a.Unpack(runs, tmp)
		if err != nil {
			return "", nil, err
		}
		was, err := verdictIn(dir)
		return dir, was, err
	}}}, nil
}

// runRecords are the runs in a directory, packed or not.
func runRecords(runs string) ([]record, error) {
	var out []record
	dirs, err := rundir.List(runs)
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		out = append(out, dirRecord(d.Dir))
	}
	packed, err := rundir.Archives(runs)
	if err != nil {
		return nil, err
	}
	for _, run := range packed {
		some, err := archiveRecord(filepath.Join(runs, rundir.ArchiveDir, run+rundir.ArchiveEnding))
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	if len(out) == 0 {
		return nil, usageError(fmt.Errorf("%s holds neither results nor runs", runs))
	}
	return out, nil
}

// linked is a run's directory under another path, so that judging it leaves its files as
// they are.
func linked(dir, tmp string) (string, error) {
	to := filepath.Join(tmp, filepath.Base(dir))
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	err = os.Mkdir(to, 0o755)
	for _, part := range []string{rundir.HistoryDir, rundir.InfoFile, rundir.PlanFile, rundir.LogDir} {
		err = errors.Join(err, os.Symlink(filepath.Join(dir, part), filepath.Join(to, part)))
	}
	return to, err
}
