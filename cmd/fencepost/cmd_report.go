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
	"time"

	"github.com/spf13/cobra"

	"fencepost/reports"
	"fencepost/reports/serve"
)

// newReportCmd makes reports again from what is on disk.
func newReportCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "report RUN_DIR…",
		Short: "Make the report of a run or a benchmark again, from its files alone",
		Long: `Make the report of a run or a benchmark again, from its files alone.

RUN_DIR is a run's directory (runs/latest) or a benchmark's. This rewrites, for a
run, report.html, plots/*.svg, operations.csv, latency.csv, timeline.csv and
report.json; for a benchmark bench.html, plots/*.svg, bench.csv and bench_rounds.csv.
Nothing is judged again: that is "fencepost check". How to read a report:
docs/reading-a-report.md.

Exit codes: 0, whatever the verdict; 2 if a file of the run cannot be read (the report
is there and says which); 64 if RUN_DIR is neither a run's nor a benchmark's.`,
		Args: someArgs("report on what? Name a run's directory, such as runs/latest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, arg := range args {
				if err := reportOn(cmd.Context(), relativeTo(workDir(cmd.Context()), arg), cmd.OutOrStdout()); err != nil {
					errs = append(errs, err)
				}
			}
			if len(errs) == 1 {
				return errs[0]
			}
			return errors.Join(errs...)
		},
	}
}

// reportOn writes one directory's report and prints where it is.
func reportOn(ctx context.Context, dir string, out io.Writer) error {
	bench := filepath.Join(dir, reports.BenchFile)
	if _, err := os.Stat(bench); err == nil {
		b, err := reports.ReadBench(bench)
		if err != nil {
			return usageError(err)
		}
		if err := reports.WriteBench(dir, b); err != nil {
			return fmt.Errorf("report of %s: %w", dir, err)
		}
		fmt.Fprintf(out, "report: %s\n", filepath.Join(dir, reports.BenchPage))
		return nil
	}
	path, err := reports.WriteRun(ctx, dir)
	if path != "" {
		fmt.Fprintf(out, "report: %s\n", path)
	}
	switch {
	case errors.Is(err, reports.ErrNoRun), errors.Is(err, fs.ErrNotExist) && path == "":
		return usageError(err)
	case err != nil:
		return fmt.Errorf("report: %w", err)
	}
	return nil
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
