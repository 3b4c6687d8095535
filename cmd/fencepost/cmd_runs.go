package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"fencepost/harness/record/rundir"
)

func newRunsCmd() *cobra.Command {
	var runs string
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List or delete the directories of runs, or sum up the points that they reached",
	}
	cmd.PersistentFlags().StringVar(&runs, "runs", "runs", "directory of the runs' directories")
	cmd.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "List runs, the newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := runsIn(cmd, runs); err != nil {
				return err
			}
			return listRuns(cmd.OutOrStdout(), runs)
		},
	}, newPruneCmd(&runs), newPointsCmd(&runs))
	return cmd
}

func newPruneCmd(runs *string) *cobra.Command {
	var p rundir.Pruning
	var older string
	var dry bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete runs that are PASS, except the newest",
		Long: `Deletes the directories of runs, except the newest ones and those that are not PASS (FAIL,
INVALID, UNKNOWN, not checked), which only --all deletes. What is not the directory of a
run, with a run.json that names it, is never touched. What "fencepost results" and
"fencepost evidence" keep does not need the directories.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.Older, err = age(older); err != nil {
				return usageError(err)
			}
			if p.Keep < 0 {
				return usageError(fmt.Errorf("--keep=%d is negative", p.Keep))
			}
			if err := runsIn(cmd, *runs); err != nil {
				return err
			}
			return pruneRuns(cmd.OutOrStdout(), *runs, p, dry)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&p.Keep, "keep", 20, "keep the newest so many, whatever their verdict")
	fl.StringVar(&older, "older", "", "delete only what is older than this, such as 36h or 7d")
	fl.BoolVar(&p.All, "all", false, "delete also what is not PASS")
	fl.BoolVar(&dry, "dry-run", false, "only print what would be deleted")
	return cmd
}

// age is a duration that may also be in days.
func age(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err == nil && n > 0 && n < 36500 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("--older=%s is not an age, such as 36h or 7d", s)
}

func listRuns(out io.Writer, dir string) error {
	runs, err := rundir.List(dir)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	var total int64
	for _, r := range runs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Dir, cmp.Or(r.Verdict, notChecked), r.Info.Contention, r.Info.System, mib(r.Bytes))
		total += r.Bytes
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d runs, %s\n", len(runs), mib(total))
	return nil
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func pruneRuns(out io.Writer, dir string, p rundir.Pruning, dry bool) error {
	runs, err := rundir.List(dir)
	if err != nil {
		return err
	}
	said := "deleted"
	if dry {
		said = "would delete"
	}
	var errs []error
	var n int
	var freed int64
	for _, r := range p.Choose(runs, time.Now()) {
		if !dry {
			if err := rundir.Remove(r.Dir); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		n, freed = n+1, freed+r.Bytes
		fmt.Fprintf(out, "%s %s  %s  %s\n", said, r.Dir, cmp.Or(r.Verdict, notChecked), mib(r.Bytes))
	}
	fmt.Fprintf(out, "%s %d of %d runs, %s\n", said, n, len(runs), mib(freed))
	return errors.Join(errs...)
}

// latest is by which name people call the newest run in a directory of runs. It is a
// convenience, so a failure to make it is no error.
const latest = "latest"

// latestRun is the newest run's name, "" if there is none.
func latestRun(runs string) string {
	name, err := os.Readlink(filepath.Join(runs, latest))
	if err != nil {
		return ""
	}
	return name
}

// linkLatest calls a run's directory the newest. "" is a run that did not come to have
// one: then nobody is, and not the one before.
func linkLatest(runs, dir string) {
	if dir == "" {
		_ = os.Remove(filepath.Join(runs, latest))
		return
	}
	link := filepath.Join(filepath.Dir(dir), latest)
	tmp := link + ".tmp"
	_ = os.Remove(tmp)
	if os.Symlink(filepath.Base(dir), tmp) == nil {
		_ = os.Rename(tmp, link)
	}
}

// forgetLatest calls nobody the newest if a command could not carry out what it had to and
// the newest is still the one from before it: it is not what was asked for.
func forgetLatest(runs, before string, err error) {
	if err == nil || exitCodeOf(err) != exitNotDone || latestRun(runs) != before {
		return
	}
	linkLatest(runs, "")
}
