package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fencepost/checker"
	"fencepost/harness/record/rundir"
	"fencepost/reports"
	"fencepost/reports/evidence"
	"fencepost/scripts"
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

// maker is what made a result.
type maker struct {
	result   string
	versions map[string]string
	// claims: it ended as it should, and so says that something holds. What did not says only
	// that something is to be looked at, and is kept whatever made it.
	claims bool
}

// makersOf are those of all that is kept.
func makersOf(k reports.Kept) []maker {
	var out []maker
	for _, r := range k.Runs {
		out = append(out, maker{filepath.Join(reports.KeptChaos, r.Info.Run), r.Info.Versions, reports.AsExpected(r)})
	}
	for _, b := range k.Benches {
		out = append(out, maker{filepath.Join(reports.KeptBench, b.Name), b.Versions, true})
	}
	for _, s := range k.Scores {
		out = append(out, maker{filepath.Join(reports.KeptScores, s.Kind+" "+s.Name), s.Versions, true})
	}
	stored := func(dir string, all []evidence.Result) {
		for _, r := range all {
			out = append(out, maker{filepath.Join(dir, r.Name()), r.Info.Versions, reports.AsExpected(r)})
		}
	}
	stored(reports.KeptPower, k.Power)
	for name, all := range k.Sets {
		stored(filepath.Join(reports.KeptEvidence, name), all)
	}
	slices.SortFunc(out, func(a, b maker) int { return strings.Compare(a.result, b.result) })
	return out
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

// repoAround is the git repository around a directory of results; nil if there is none.
func repoAround(dir string) *repo {
	out, err := git(filepath.Dir(dir), "rev-parse", "--show-toplevel")
	if err != nil {
		return nil
	}
	return &repo{dir: out, trees: map[string]string{}}
}

// repo knows which code a commit has.
type repo struct {
	dir   string
	trees map[string]string // digest by commit; "": there is no such commit
}

// tree is the digest of a commit, "" if it is not in the repository.
func (r *repo) tree(commit string) (string, error) {
	if t, ok := r.trees[commit]; ok {
		return t, nil
	}
	if _, err := git(r.dir, "cat-file", "-e", commit+"^{commit}"); err != nil {
		r.trees[commit] = ""
		return "", nil
	}
	// What a digest is of may change: a commit's own script says what it was.
	script, err := git(r.dir, "show", commit+":scripts/digest")
	if err != nil {
		script = scripts.Digest
	}
	cmd := exec.Command("bash", "-s", commit)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(script)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("digest of commit %s: %w", commit, err)
	}
	r.trees[commit] = strings.TrimSpace(string(out))
	return r.trees[commit], nil
}

// know looks up the commits that results name, and the one that is checked out.
func (r *repo) know(all []maker) error {
	if r == nil {
		return nil
	}
	if _, err := r.tree("HEAD"); err != nil {
		return err
	}
	for _, m := range all {
		if commit := m.versions[evidence.CommitKey]; m.claims && m.unknown() == "" {
			if _, err := r.tree(commit); err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether a commit that was looked up has the tree: a rebase or a squash makes a new
// commit of the same code.
func (r *repo) has(tree string) bool {
	return slices.Contains(slices.Collect(maps.Values(r.trees)), tree)
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// refuse returns an error that names the claims that no commit answers for. Without a
// repository it goes by what they say of themselves.
func refuse(all []maker, in *repo) error {
	if err := in.know(all); err != nil {
		return err
	}
	bad := map[string][]string{}
	for _, m := range all {
		if !m.claims {
			continue
		}
		why, err := m.refused(in)
		if err != nil {
			return err
		}
		if why != "" {
			bad[why] = append(bad[why], m.result)
		}
	}
	var errs []error
	for why, results := range bad {
		first := strings.Join(results[:min(len(results), 3)], ", ")
		if n := len(results) - 3; n > 0 {
			first += fmt.Sprintf(" and %d more", n)
		}
		errs = append(errs, fmt.Errorf("refused: %s (%s): build from a commit and run it again", why, first))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// unknown says why no commit has the code, as far as the result itself tells; "" if one may.
func (m maker) unknown() string {
	switch commit := m.versions[evidence.CommitKey]; {
	case commit == "" || commit == unknownBuild:
		return "made by code of which nothing is known"
	case strings.HasSuffix(commit, evidence.DirtyCommit):
		return fmt.Sprintf("made by a changed work tree (%s)", commit)
	}
	return ""
}

// refused says why a claim is, "" if it is not.
func (m maker) refused(in *repo) (why string, err error) {
	if why = m.unknown(); why != "" || in == nil {
		return why, nil
	}
	commit, tree := m.versions[evidence.CommitKey], m.versions[evidence.TreeKey]
	switch has, err := in.tree(commit); {
	case err != nil:
		return "", err
	case has == "" && (tree == "" || !in.has(tree)):
		return fmt.Sprintf("made by commit %s, which is not in %s, nor is another one of the same code", commit, in.dir), nil
	case has == "":
		return "", nil
	case tree != "" && tree != has:
		return fmt.Sprintf("said to be made by the tree %s, but commit %s is %s", tree, commit, has), nil
	}
	return "", nil
}
