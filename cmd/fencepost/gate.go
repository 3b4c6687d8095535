package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fencepost/checker"
	"fencepost/harness/env/cluster"
	"fencepost/reports"
)

// gateFlags say where the output for CI systems goes.
type gateFlags struct{ junit, summary string }

// autoSummary asks for the summary page of the CI system's own; summaryEnv names it.
const (
	autoSummary = "auto"
	summaryEnv  = "GITHUB_STEP_SUMMARY"
)

func (g *gateFlags) flags(fl *pflag.FlagSet) {
	fl.StringVar(&g.junit, "junit", "", "write JUnit XML to this file: a suite a run, a test case a property")
	fl.StringVar(&g.summary, "summary", "", "write a Markdown summary to this file; +FILE appends; auto appends to $"+summaryEnv)
}

// resolve makes the paths absolute and finds out what auto means here. What cannot
// be written is refused now, not after hours of runs.
func (g *gateFlags) resolve(ctx context.Context, out io.Writer) error {
	if g.summary == autoSummary {
		if g.summary = ""; os.Getenv(summaryEnv) != "" {
			g.summary = "+" + os.Getenv(summaryEnv)
		} else {
			fmt.Fprintf(out, "no summary is written: %s is not set\n", summaryEnv)
		}
	}
	var err error
	if g.junit, err = writable(ctx, "junit", g.junit); err != nil {
		return err
	}
	path, added := strings.CutPrefix(g.summary, "+")
	if path, err = writable(ctx, "summary", path); added {
		path = "+" + path
	}
	g.summary = path
	return err
}

// writable is the absolute path of a file that can be made; "" stays.
func writable(ctx context.Context, flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	path = within(ctx, path)
	if st, err := os.Stat(filepath.Dir(path)); err != nil || !st.IsDir() {
		return "", usageError(fmt.Errorf("--%s: there is no directory %s", flag, filepath.Dir(path)))
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return "", usageError(fmt.Errorf("--%s: %s is a directory", flag, path))
	}
	return path, nil
}

// onSite is the function of that name for work with output for CI systems: by the process that
// does it, or by this one if it never came to that. todo are the names of the runs.
func (g gateFlags) onSite(cmd *cobra.Command, want string, nodes nodeChoice, layouts []cluster.Layout, more, todo []string, work func(*site) ([]reports.GateRun, error)) error {
	here := false
	more = append(more, "--junit="+g.junit, "--summary="+g.summary)
	err := onSite(cmd, want, nodes, layouts, more, func(s *site) error {
		here = true
		told, err := work(s)
		return g.end(told, err)
	})
	if ee := (*exitError)(nil); err == nil || here || errors.As(err, &ee) && ee.err == nil {
		return err
	}
	var told []reports.GateRun
	for _, name := range todo {
		told = append(told, reports.GateRun{Name: name, Err: err.Error()})
	}
	return g.end(told, err)
}

// readGateRun is a run with its page as it is called from here.
func readGateRun(ctx context.Context, dir string, res *checker.Result) (reports.GateRun, error) {
	run, err := reports.ReadGateRun(dir, res)
	if run.Page != "" {
		run.Page = shorter(ctx, run.Page)
	}
	return run, err
}

// asked: somebody is to be told.
func (g gateFlags) asked() bool { return g.junit != "" || g.summary != "" }

// write writes what was asked for.
func (g gateFlags) write(runs []reports.GateRun) error {
	var errs []error
	if g.junit != "" {
		var b bytes.Buffer
		errs = append(errs, reports.WriteJUnit(&b, runs), os.WriteFile(g.junit, b.Bytes(), 0o644))
	}
	if g.summary != "" {
		var b bytes.Buffer
		errs = append(errs, reports.WriteSummary(&b, runs), writeSummary(g.summary, b.Bytes()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("tell the CI system: %w", err)
	}
	return nil
}

func writeSummary(to string, b []byte) error {
	path, added := strings.CutPrefix(to, "+")
	mode := os.O_TRUNC
	if added {
		mode = os.O_APPEND
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|mode, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// end ends a command with its error: the CI system is told, and the command's own
// exit code stands whether that succeeds or not.
func (g gateFlags) end(runs []reports.GateRun, err error) error {
	told := g.write(runs)
	if told == nil {
		return err
	}
	code := exitNotDone
	if ee := (*exitError)(nil); errors.As(err, &ee) {
		if code = ee.code; ee.err == nil {
			err = nil
		}
	}
	return &exitError{code: code, err: errors.Join(err, told)}
}
