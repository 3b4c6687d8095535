package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fencepost/reports"
	"fencepost/reports/evidence"
	"fencepost/reports/serve"
)

// newReportCmd makes reports again from what is on disk.
func newReportCmd() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report RUN_DIR|FILE…",
		Short: "Make the report of a run or a benchmark again, from its files alone",
		Long: `Make the report of a run or a benchmark again, from its files alone.

RUN_DIR is a run's directory (runs/latest) or a benchmark's. This rewrites, for a
run, report.html, plots/*.svg, operations.csv, latency.csv, timeline.csv and
report.json; for a benchmark bench.html, plots/*.svg, bench.csv and bench_rounds.csv.
Nothing is judged again: that is "fencepost check". How to read a report:
docs/reading-a-report.md.

FILE holds benchmarks that were kept: bench.json, or results/bench.jsonl with one a line
(FILE#NAME picks one). The page of a bench.json is written beside it; that of a line, or of
a file with another name, to a directory NAME beside FILE. With --out it is written to
OUT/NAME.

Exit codes: 0, whatever the verdict; 2 if a file of the run cannot be read (the report
is there and says which); 64 if an argument is neither a run's nor a benchmark's, or a
benchmark cannot be read.`,
		Args: someArgs("report on what? Name a run's directory, such as runs/latest, or a file of benchmarks, such as results/bench.jsonl"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out != "" {
				out = within(cmd.Context(), out)
			}
			var errs []error
			for _, arg := range args {
				if err := reportOn(cmd.Context(), relativeTo(workDir(cmd.Context()), arg), out, cmd.OutOrStdout()); err != nil {
					errs = append(errs, err)
				}
			}
			if len(errs) == 1 {
				return errs[0]
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "of benchmarks: write each page to a directory in this one, by the benchmark's name (default: beside its file)")
	return cmd
}

// reportOn writes the report of a run's directory, or those of a benchmark's or a file of
// them, and prints where they are.
func reportOn(ctx context.Context, path, under string, out io.Writer) error {
	if isBench(path) {
		return reportBenches(path, under, out)
	}
	if under != "" {
		return usageError(fmt.Errorf("--out is for benchmarks, and %s is none: a run's report is written to its directory", path))
	}
	report, err := reports.WriteRun(ctx, path)
	if report != "" {
		fmt.Fprintf(out, "report: %s\n", report)
	}
	switch {
	case errors.Is(err, reports.ErrNoRun), errors.Is(err, fs.ErrNotExist) && report == "":
		return usageError(err)
	case err != nil:
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// isBench tells what may hold benchmarks from a run's directory.
func isBench(path string) bool {
	if at, err := os.Stat(path); err == nil && at.IsDir() {
		_, err := os.Stat(filepath.Join(path, reports.BenchFile))
		return err == nil
	}
	file, _, _ := strings.Cut(path, "#")
	return strings.HasSuffix(file, ".json") || strings.HasSuffix(file, evidence.Ending)
}

// reportBenches writes the page of each benchmark of a path.
func reportBenches(path, under string, out io.Writer) error {
	all, err := reports.OpenBenches(path)
	if err != nil {
		return usageError(err)
	}
	for _, b := range all {
		dir, err := pageDir(b, path, under)
		if err == nil {
			_, err = b.Numbers()
		}
		if err != nil {
			return usageError(fmt.Errorf("%s: %w", path, err))
		}
		if err := errors.Join(os.MkdirAll(dir, 0o755), reports.WriteBench(dir, b)); err != nil {
			return fmt.Errorf("report of %s: %w", path, err)
		}
		fmt.Fprintf(out, "report: %s\n", filepath.Join(dir, reports.BenchPage))
	}
	return nil
}

// pageDir is where the page of a benchmark goes that is in path.
func pageDir(b reports.BenchResult, path, under string) (string, error) {
	at, err := os.Stat(path)
	switch {
	case under != "":
		return b.BenchDir(under)
	case err == nil && at.IsDir():
		return path, nil
	case filepath.Base(path) == reports.BenchFile:
		return filepath.Dir(path), nil
	}
	return b.BenchDir(filepath.Dir(path))
}

// defaultListen can be reached from this machine only.
const defaultListen = "127.0.0.1:7070"

func newServeCmd() *cobra.Command {
	var o serve.Options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Browse runs in a web page, including live ones",
		Long: `Serves the directory of runs as web pages until Ctrl-C: a list with search, filters and
sorting, each run's report and files, a comparison of several runs, and the
phases, rates, faults and violations of live runs. It reads files and changes nothing.
/metrics is for Prometheus.

It listens on loopback only. There is no login, so with another --listen address
everybody who reaches it sees everything.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Runs = within(cmd.Context(), o.Runs)
			if err := runsIn(cmd, o.Runs); err != nil {
				return err
			}
			return serveRuns(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.Runs, "runs", "runs", "directory of the runs' directories")
	fl.StringVar(&o.Listen, "listen", defaultListen, "address to listen at; port 0 takes a free one")
	return cmd
}

// goodbye is how long requests that are under way have at the end.
const goodbye = 3 * time.Second

// serveRuns serves until ctx is done.
func serveRuns(ctx context.Context, o serve.Options, out, warn io.Writer) error {
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return usageError(fmt.Errorf("--listen=%s is not HOST:PORT, such as %s: %w", o.Listen, defaultListen, err))
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("%w (--listen=127.0.0.1:0 takes a free port)", err)
	}
	if !serve.Loopback(l.Addr().String()) {
		fmt.Fprintf(warn, "warning: no login: everybody who reaches %s sees every run, its logs and its command line\n", l.Addr())
	}
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	o.Stop, o.Version = stop, builtFrom
	h, err := serve.New(o)
	if err != nil {
		l.Close()
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	fmt.Fprintf(out, "http://%s/ shows %s; Ctrl-C ends it\n", l.Addr(), o.Runs)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	cancel() // streams end first: they would never be idle
	last, done := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer done()
	err = srv.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	<-ended // http.ErrServerClosed
	return err
}
