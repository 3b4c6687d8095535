package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"fencepost/reports/serve"
)

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
