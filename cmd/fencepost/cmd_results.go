package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
		Long: `Copies what RESULTS.md needs of each RUN (a directory under runs/, of a chaos run that
was checked or of a benchmark) to results/, condensed to some kilobytes, and then writes
RESULTS.md from everything in results/ and the list of known-broken variants. Any clone of the
repository can write it again. Without RUN it only does that. To forget a run, remove it from
results/.

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
	makers, err := f.makers(k)
	if err != nil {
		return err
	}
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
func (f resultsFlags) kept() (reports.Kept, error) {
	k := reports.Kept{Tree: f.tree}
	var err error
	if k.Runs, err = filepath.Glob(filepath.Join(f.dir, reports.KeptChaos, "*", rundir.InfoFile)); err != nil {
		return k, usageError(err)
	}
	for i, r := range k.Runs {
		k.Runs[i] = filepath.Dir(r)
	}
	if k.Benches, err = filepath.Glob(filepath.Join(f.dir, reports.KeptBench, "*.json")); err != nil {
		return k, usageError(err)
	}
	if k.Power, err = evidence.NewStore(filepath.Join(f.dir, powerSet)).All(); err != nil {
		return k, err
	}
	if k.Sets, err = f.sets(); err != nil {
		return k, err
	}
	k.Notes, err = evidence.ReadNotes(filepath.Join(f.dir, evidence.NotesFile))
	return k, err
}

// sets reads the results of evidence and, unless it only checks, writes their pages.
func (f resultsFlags) sets() (map[string][]evidence.Result, error) {
	dirs, err := filepath.Glob(filepath.Join(f.dir, reports.KeptEvidence, "*"))
	if err != nil {
		return nil, usageError(err)
	}
	out := map[string][]evidence.Result{}
	for _, dir := range dirs {
		all, err := evidence.NewStore(dir).All()
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			continue
		}
		out[filepath.Base(dir)] = all
		if !f.check {
			if _, err := reports.WriteEvidence(dir, all, f.tree); err != nil {
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
	name, err := keptName(b.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := refuse([]maker{{b.Name, b.Versions, true}}, repoAround(f.dir)); err != nil {
		return err
	}
	to := filepath.Join(f.dir, reports.KeptBench)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return rundir.WriteJSON(filepath.Join(to, name+".json"), b)
}

func (f resultsFlags) keepChaos(dir string) error {
	info, err := rundir.ReadInfo(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return usageError(fmt.Errorf("%s holds neither a chaos run (%s) nor a benchmark (%s)", dir, rundir.InfoFile, reports.BenchFile))
	}
	if err != nil {
		return err
	}
	name, err := keptName(info.Run)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	var verdict checker.Result
	if err := readJSON(filepath.Join(dir, rundir.VerdictFile), &verdict); err != nil {
		return fmt.Errorf("keep %s (check it first: fencepost check %s): %w", name, dir, err)
	}
	var report reports.Report
	if err := readJSON(filepath.Join(dir, reports.JSONFile), &report); err != nil {
		return fmt.Errorf("keep %s (report it first: fencepost report %s): %w", name, dir, err)
	}
	if err := refuse([]maker{{name, info.Versions, reports.AsExpected(reports.ChaosResult(info, &verdict))}}, repoAround(f.dir)); err != nil {
		return err
	}
	to := filepath.Join(f.dir, reports.KeptChaos, name)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return errors.Join(
		rundir.WriteJSON(filepath.Join(to, rundir.InfoFile), info),
		rundir.WriteJSON(filepath.Join(to, rundir.VerdictFile), condense(verdict)),
		rundir.WriteJSON(filepath.Join(to, reports.JSONFile), condenseReport(report)),
	)
}

// condense keeps of each property's violations the first; Count has them all.
// Drawings are not kept.
func condense(v checker.Result) checker.Result {
	v.Properties = append([]checker.Property(nil), v.Properties...)
	for i := range v.Properties {
		p := &v.Properties[i]
		p.Visualization = ""
		p.Violations = p.Violations[:min(len(p.Violations), 1)]
	}
	return v
}

func condenseReport(r reports.Report) reports.Report {
	r.Takeovers = nil
	return r
}

// keptName makes sure that a name read from a file stays within the directory.
func keptName(name string) (string, error) {
	if name == "" || !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) {
		return "", fmt.Errorf("the name %q cannot be that of a file", name)
	}
	return name, nil
}

func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
