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

	"github.com/spf13/cobra"

	"fencepost/harness/target/system"
	"fencepost/internal/choice"
	"fencepost/reports"
	"fencepost/reports/evidence"
)

// fieldFlags are the flags of `fencepost field`.
type fieldFlags struct {
	runner
	systems, scenarios, page, bench string
	seeds                           int
	first                           uint64
	fresh, retry, check             bool
}

func newFieldCmd() *cobra.Command {
	var f fieldFlags
	cmd := &cobra.Command{
		Use:   "field",
		Short: "Run the locks and schedulers of the field under the same faults, and write their table",
		Long: `Runs the core, and each lock and scheduler on another store, under each fault of the table that its store can have, stores
the results in results/evidence/field.jsonl, and writes docs/field.md from all that are kept. What
is stored is not run again, so the same command resumes where it stopped. Each run has fresh
servers. What takes minutes to build (` + optInNames() + `) is run if --system names it.
Exit code: 0 if all is as the systems' rows say (fencepost list systems), else as for evidence.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fl := cmd.Flags()
	f.flags(fl, filepath.Join("results", "evidence"))
	fl.StringVar(&f.systems, "system", "", "only these systems, with commas between: "+strings.Join(fieldNames(), ", "))
	fl.StringVar(&f.scenarios, "scenarios", "", "only these faults, with commas between: "+strings.Join(evidence.FieldFaults, ", "))
	fl.StringVar(&f.page, "page", filepath.Join("docs", "field.md"), "the page to write")
	fl.StringVar(&f.bench, "bench", filepath.Join("results", reports.KeptBench+evidence.Ending), "file of kept benchmarks: the page has the last one of the field")
	fl.IntVar(&f.seeds, "seeds", 3, "number of seeds")
	fl.Uint64Var(&f.first, "first", 1, "the first seed")
	fl.BoolVar(&f.fresh, "fresh", false, "run everything again; a stored PASS is replaced, other results are kept with the new one")
	fl.BoolVar(&f.retry, "retry", false, "run again what is not as it must be; the old result is kept with the new one")
	fl.BoolVar(&f.check, "check", false, "run and write nothing; exit 2 if the page is not what the kept runs give")
	return cmd
}

func fieldNames() (out []string) {
	for _, s := range system.Field() {
		out = append(out, s.Name)
	}
	return out
}

// optInNames are those that are run only by their name.
func optInNames() string {
	var out []string
	for _, s := range system.Stored() {
		if s.OptIn {
			out = append(out, s.Name)
		}
	}
	return strings.Join(out, ", ")
}

// jobs are the runs to do.
func (f fieldFlags) jobs() ([]evidence.Job, error) {
	systems, faults := slices.DeleteFunc(system.Field(), func(s system.System) bool { return s.OptIn }), evidence.FieldFaults
	if f.systems != "" {
		systems = nil
		for _, name := range strings.Split(f.systems, ",") {
			i := slices.Index(fieldNames(), name)
			if i < 0 {
				return nil, choice.Unknown("system", name, fieldNames()...)
			}
			systems = append(systems, system.Field()[i])
		}
	}
	if f.scenarios != "" {
		faults = strings.Split(f.scenarios, ",")
		for _, name := range faults {
			if !slices.Contains(evidence.FieldFaults, name) {
				return nil, choice.Unknown("fault of the table", name, evidence.FieldFaults...)
			}
		}
	}
	if f.seeds < 1 || f.seeds > 1000 {
		return nil, fmt.Errorf("--seeds=%d: 1 to 1000", f.seeds)
	}
	jobs := evidence.FieldJobs(systems, f.first, f.seeds, func(j evidence.Job) bool {
		return slices.Contains(faults, j.Scenario) && suitsField(j)
	})
	if len(jobs) == 0 {
		return nil, errors.New("no store of these systems can have one of these faults")
	}
	return jobs, nil
}

// suitsField reports whether the store of a job's system can have its faults.
func suitsField(j evidence.Job) bool {
	_, _, _, err := planOf(j)
	return err == nil
}

func (f fieldFlags) run(cmd *cobra.Command) error {
	ctx, out := cmd.Context(), outputOf(cmd)
	jobs, err := f.jobs()
	if err != nil {
		return usageError(err)
	}
	page := within(ctx, f.page)
	if err := f.resolve(ctx, reports.KeptField); err != nil {
		return err
	}
	store := evidence.NewStore(f.results)
	all, err := store.All()
	if err != nil {
		return usageError(err)
	}
	if f.check {
		have, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		if text, err := f.text(ctx, all); err != nil || string(have) != text {
			return errors.Join(err, fmt.Errorf("%s is not what the kept runs give: fencepost field writes it", f.page))
		}
		return nil
	}
	if err := f.builtFor(jobs); err != nil {
		return err
	}
	if f.cluster == "auto" {
		f.cluster = "local" // what is kept up is Cassandra's
	}
	return onSite(cmd, f.cluster, nodeChoice{}, needed(jobs, layoutOf), nil, func(s *site) error {
		loop := f.loop(store, s, out)
		loop.Fresh, loop.Retry, loop.Run = f.fresh, f.retry, onFreshServers(s, loop.Run)
		fmt.Fprintf(out, "field: %d runs; results in %s\n", len(jobs), store.File())
		tally, err := loop.Do(ctx, slices.Values(jobs), len(jobs))
		if err == nil {
			tally, err = f.twins(ctx, loop, store, jobs, tally, out)
		}
		return finish(out, tally, tally.Jobs, store, errors.Join(err, f.write(ctx, store, page)))
	})
}

// write writes the page.
func (f fieldFlags) write(ctx context.Context, store *evidence.Store, page string) error {
	all, err := store.All()
	if err != nil {
		return err
	}
	text, err := f.text(ctx, all)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(text), 0o644)
}

// notes is the file of notes on all kept results, above those of sets.
func (f fieldFlags) notes() string {
	return filepath.Join(filepath.Dir(filepath.Dir(f.results)), evidence.NotesFile)
}

// text is the page of these runs and of the last benchmark.
func (f fieldFlags) text(ctx context.Context, all []evidence.Result) (string, error) {
	benches, err := reports.ReadBenches(within(ctx, f.bench))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	notes, err := evidence.ReadNotes(f.notes())
	if err != nil {
		return "", err
	}
	return reports.Field(reports.FieldKept{Systems: system.Field(), Runs: all, Benches: benches, Notes: notes}, suitsField)
}

// twins runs the red ones of these jobs again, with inert faults.
func (f fieldFlags) twins(ctx context.Context, loop *evidence.Loop, store *evidence.Store, jobs []evidence.Job, t evidence.Tally, out io.Writer) (evidence.Tally, error) {
	all, err := store.All()
	if err != nil {
		return t, err
	}
	twins := evidence.FieldTwins(slices.DeleteFunc(ofToday(all), func(r evidence.Result) bool { return !slices.Contains(jobs, r.Job) }))
	if len(twins) == 0 {
		return t, nil
	}
	fmt.Fprintf(out, "field: %d red runs, each once more with inert faults\n", len(twins))
	more, err := loop.Do(ctx, slices.Values(twins), len(twins))
	return t.Plus(more), err
}
