package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
	"fencepost/reports/evidence"
)

// resultsFlags are the flags of `fencepost results`.
type resultsFlags struct {
	dir   string
	file  string
	check bool
	tree  string // today's: the tool's own
}

func newResultsCmd() *cobra.Command {
	f := resultsFlags{tree: builtOf}
	cmd := &cobra.Command{
		Use:   "results [RUN…]",
		Short: "Keep runs and benchmarks in the repository, and write RESULTS.md from all that are kept",
		Long: `Keeps what RESULTS.md needs of each RUN (a directory under runs/, of a chaos run that
was checked or of a benchmark) as a line of a file in results/, and then writes RESULTS.md from
everything in results/ and the list of known-broken variants. Any clone of the repository can
write it again. Without RUN it only does that. To forget a run, remove its line. A run that was
interrupted is refused. Scores (make sim, make mutation) are lines that SCORES=results/scores.jsonl adds.

Results of code with this tool's digest (docs/evidence.md) come first, older ones below. What
ended as it should, and a benchmark, is refused if a changed work tree made it, or a commit that
is not known. Every kept run that did not end as it should needs a note in results/` + evidence.NotesFile + `.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.OutOrStdout(), args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.dir, "results", "results", "directory of what is kept")
	fl.StringVar(&f.file, "file", "RESULTS.md", "the file to write")
	fl.BoolVar(&f.check, "check", false, "write nothing; exit 2 if the file is not what the kept runs give, for the digest that it names")
	return cmd
}

func (f resultsFlags) run(out io.Writer, args []string) error {
	if f.check && len(args) > 0 {
		return usageError(errors.New("results --check writes nothing and takes no run"))
	}
	if !f.check && f.tree == unknownBuild {
		return errors.New("this tool does not know what it was built from, so nothing could be called today's: build it with make build, in a git repository")
	}
	for _, arg := range args {
		if err := f.keep(arg); err != nil {
			return err
		}
	}
	k, err := f.kept()
	if err != nil {
		return err
	}
	makers := makersOf(k)
	if f.check {
		return errors.Join(f.compare(out, k), k.CheckNotes(), refuse(makers, nil))
	}
	if err := refuse(makers, repoAround(f.dir)); err != nil {
		return err
	}
	text, err := reports.Results(k)
	if err != nil {
		return err
	}
	tmp := f.file + ".tmp"
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		return err
	}
	if err := os.Rename(tmp, f.file); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d runs, %d benchmarks\n", f.file, len(k.Runs), len(k.Benches))
	return k.CheckNotes()
}

// kept reads what is kept; results of today's code are those of this tool's.
func (f resultsFlags) kept() (k reports.Kept, err error) {
	k.Tree = f.tree
	if k.Runs, err = f.store(reports.KeptChaos).All(); err != nil {
		return k, err
	}
	if k.Benches, err = reports.ReadBenches(f.store(reports.KeptBench).File()); err != nil {
		return k, err
	}
	if k.Power, err = f.store(powerSet).All(); err != nil {
		return k, err
	}
	if k.Sets, err = f.sets(); err != nil {
		return k, err
	}
	if k.Scores, err = reports.ReadScores(f.store(reports.KeptScores).File()); err != nil {
		return k, err
	}
	k.Notes, err = evidence.ReadNotes(filepath.Join(f.dir, evidence.NotesFile))
	return k, err
}

// store is a file of results by its name.
func (f resultsFlags) store(name string) *evidence.Store {
	return evidence.NewStore(filepath.Join(f.dir, name+evidence.Ending))
}

// sets reads the results of evidence and, unless it only checks, writes their pages.
func (f resultsFlags) sets() (map[string][]evidence.Result, error) {
	files, err := filepath.Glob(filepath.Join(f.dir, reports.KeptEvidence, "*"+evidence.Ending))
	if err != nil {
		return nil, usageError(err)
	}
	out := map[string][]evidence.Result{}
	for _, file := range files {
		store := evidence.NewStore(file)
		all, err := store.All()
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			continue
		}
		out[strings.TrimSuffix(filepath.Base(file), evidence.Ending)] = all
		if !f.check {
			if _, err := writeEvidencePage(store, f.tree); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// compare reports a file that somebody edited or forgot to write. It may be of an older tree
// than this tool, as a change of the code need not come with new evidence.
func (f resultsFlags) compare(out io.Writer, k reports.Kept) error {
	have, err := os.ReadFile(f.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	k.Tree = reports.ResultsTree(string(have))
	text, err := reports.Results(k)
	if err != nil {
		return err
	}
	if string(have) != text {
		return fmt.Errorf("%s is out of date: %s gives another one; write it with fencepost results (make results)", f.file, f.dir)
	}
	if k.Tree != f.tree && f.tree != unknownBuild {
		fmt.Fprintf(out, "note: %s is of the tree %s, this tool of %s\n", f.file, k.Tree, f.tree)
	}
	return nil
}

// keep copies the parts of a run that results are made of.
func (f resultsFlags) keep(dir string) error {
	dir, err := filepath.EvalSymlinks(dir) // runs/latest
	if err != nil {
		return usageError(err)
	}
	bench := filepath.Join(dir, reports.BenchFile)
	switch _, err := os.Stat(bench); {
	case err == nil:
		return f.keepBench(bench)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return f.keepChaos(dir)
}

func (f resultsFlags) keepBench(path string) error {
	b, err := reports.ReadBench(path)
	if err != nil {
		return err
	}
	if b.Name == "" {
		return fmt.Errorf("%s: the benchmark has no name", path)
	}
	if err := refuse([]maker{{b.Name, b.Versions, true}}, repoAround(f.dir)); err != nil {
		return err
	}
	return reports.KeepBench(f.store(reports.KeptBench).File(), b)
}

// keepChaos stores a run's result, in place of what was kept of it before.
func (f resultsFlags) keepChaos(dir string) error {
	r, err := reports.ReadRunResult(dir)
	if errors.Is(err, reports.ErrNoRun) {
		return usageError(fmt.Errorf("%s holds neither a chaos run (%s) nor a benchmark (%s)", dir, rundir.InfoFile, reports.BenchFile))
	}
	if err != nil {
		return err
	}
	if why := r.Info.Interrupted; why != "" && r.Verdict != checker.Fail {
		return usageError(fmt.Errorf("%s was interrupted (%s): it shows less than it was to; let it end", r.Info.Run, why))
	}
	if err := refuse([]maker{{r.Info.Run, r.Info.Versions, reports.AsExpected(r)}}, repoAround(f.dir)); err != nil {
		return err
	}
	store := f.store(reports.KeptChaos)
	have, err := store.All()
	if err != nil {
		return err
	}
	have = slices.DeleteFunc(have, func(h evidence.Result) bool { return h.Info.Run != r.Info.Run })
	_, err = store.Put(r, have...)
	return err
}

// verdictIn is how a run was judged; nil if it was not.
func verdictIn(dir string) (*checker.Result, error) {
	var was checker.Result
	switch err := rundir.ReadJSON(filepath.Join(dir, rundir.VerdictFile), &was); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &was, nil
}
