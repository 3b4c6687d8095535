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
	"fencepost/harness/evidence"
	"fencepost/harness/rundir"
	"fencepost/reports"
)

// resultsFlags are the flags of `fencepost results`.
type resultsFlags struct {
	dir   string
	file  string
	check bool
}

func newResultsCmd() *cobra.Command {
	var f resultsFlags
	cmd := &cobra.Command{
		Use:   "results [RUN…]",
		Short: "Keep runs and benchmarks in the repository and write RESULTS.md from all that are kept",
		Long: `Copies what RESULTS.md needs of each RUN (a directory under runs/, of a chaos run that
was checked or of a benchmark) to results/, condensed to some kilobytes, and then writes
RESULTS.md from everything in results/, and from nothing else: whoever has the repository
can write it again. Without RUN it only does that. To forget a run, remove it from results/.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.OutOrStdout(), args)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.dir, "results", "results", "directory of what is kept")
	fl.StringVar(&f.file, "file", "RESULTS.md", "the file to write")
	fl.BoolVar(&f.check, "check", false, "write nothing; exit 1 if the file is not what the kept runs give")
	return cmd
}

// Directories of what is kept.
const (
	keptChaos = "chaos" // a directory a run: run.json, verdict.json, report.json
	keptBench = "bench" // a file a benchmark
	// keptEvidence has a directory a set, with a file a run.
	keptEvidence = "evidence"
)

func (f resultsFlags) run(out io.Writer, args []string) error {
	if f.check && len(args) > 0 {
		return usageError(errors.New("results --check writes nothing and takes no run"))
	}
	for _, arg := range args {
		if err := f.keep(out, arg); err != nil {
			return err
		}
	}
	runs, err := filepath.Glob(filepath.Join(f.dir, keptChaos, "*", rundir.InfoFile))
	if err != nil {
		return usageError(err)
	}
	for i, r := range runs {
		runs[i] = filepath.Dir(r)
	}
	benches, err := filepath.Glob(filepath.Join(f.dir, keptBench, "*.json"))
	if err != nil {
		return usageError(err)
	}
	power, err := evidence.NewStore(filepath.Join(f.dir, powerSet)).All()
	if err != nil {
		return err
	}
	sets, err := f.sets()
	if err != nil {
		return err
	}
	text, err := reports.Results(runs, benches, sets, power...)
	if err != nil {
		return err
	}
	if f.check {
		return f.compare(text)
	}
	tmp := f.file + ".tmp"
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		return err
	}
	if err := os.Rename(tmp, f.file); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d runs, %d benchmarks\n", f.file, len(runs), len(benches))
	return nil
}

// sets reads the results of evidence and, unless it only checks, writes their pages.
func (f resultsFlags) sets() (map[string][]evidence.Result, error) {
	dirs, err := filepath.Glob(filepath.Join(f.dir, keptEvidence, "*"))
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
			if _, err := reports.WriteEvidence(dir, all); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// compare reports a file that somebody edited or forgot to write.
func (f resultsFlags) compare(text string) error {
	have, err := os.ReadFile(f.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(have) != text {
		return fmt.Errorf("%s is not what the files in %s give: run fencepost results", f.file, f.dir)
	}
	return nil
}

// keep copies the parts of a run that results are made of.
func (f resultsFlags) keep(out io.Writer, dir string) error {
	dir, err := filepath.EvalSymlinks(dir) // runs/latest
	if err != nil {
		return usageError(err)
	}
	bench := filepath.Join(dir, reports.BenchFile)
	switch _, err := os.Stat(bench); {
	case err == nil:
		return f.keepBench(out, bench)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return f.keepChaos(out, dir)
}

func (f resultsFlags) keepBench(out io.Writer, path string) error {
	b, err := reports.ReadBench(path)
	if err != nil {
		return err
	}
	name, err := keptName(b.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	warnCommit(out, b.Name, b.Versions)
	to := filepath.Join(f.dir, keptBench)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return rundir.WriteJSON(filepath.Join(to, name+".json"), b)
}

func (f resultsFlags) keepChaos(out io.Writer, dir string) error {
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
	warnCommit(out, name, info.Versions)
	to := filepath.Join(f.dir, keptChaos, name)
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

// warnCommit says so when a result belongs to no commit.
func warnCommit(out io.Writer, name string, versions map[string]string) {
	c := versions["fencepost"]
	if c == "" || c == "unknown" || strings.HasSuffix(c, "-dirty") {
		fmt.Fprintf(out, "note: %s was made by a state of the program that no commit holds (%q): commit, build and measure again before publishing it\n", name, c)
	}
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
