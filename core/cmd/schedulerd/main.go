// Command schedulerd is the scheduler as a service: it owns shards of queues on Cassandra,
// runs their jobs, fires their schedules, and serves the HTTP API of core/service/api. Any number
// of them share a keyspace. docs/core.md tells how to run it.
//
// What it is told goes straight into the options of the packages that it is made of
// (config.go): a row names a flag, a variable of the environment, the option with its
// default and rules, and the help. --help, docs/settings.md and the tests follow from it.
//
// To add a setting: add its row to define, in config.go, and run make docs. Only one that is
// no option of a package also needs a field of config; and a rule about two settings goes
// into check.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // authorities of HTTPS, where the system has none
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 64 // EX_USAGE of sysexits.h
)

// usageError is a configuration that cannot be used.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	root := newRootCmd(getenv, stderr)
	root.SetArgs(append([]string{}, args...)) // of nil it would take the process's own
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "schedulerd: %v\nschedulerd --help shows all settings.\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "schedulerd: %v\n", err)
	return exitFailed
}

func newRootCmd(getenv func(string) string, logs io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "schedulerd",
		Short:         "A scheduler on Cassandra: jobs and schedules by HTTP, each effect once",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	var c config
	s := newSettings(root.PersistentFlags())
	s.flags.SortFlags = false
	c.define(s)
	root.Long = "A scheduler on Cassandra: jobs and schedules by HTTP, each effect once.\n\n" +
		"Every setting is a flag or a variable of the environment, named behind it; a flag wins.\n" +
		"Secrets have no flags:\n" + s.secretsHelp()
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	load := func() (*config, *slog.Logger, error) {
		err := s.read(getenv)
		if err = errors.Join(err, c.check(s.flags.Changed("name"))); err != nil {
			return nil, nil, usageError{fmt.Errorf("the settings cannot be used:\n%w", err)}
		}
		log := slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: c.log.level})).With("worker", c.scheduler.Name)
		c.scheduler.Engine.Logger = log
		for _, name := range s.unknown(os.Environ()) {
			log.Warn("environment variable is not a setting and has no effect", "name", name)
		}
		return &c, log, nil
	}
	// until has do work with the settings until it is done or a signal ends it.
	until := func(do func(context.Context, *config, *slog.Logger) error) func(*cobra.Command, []string) error {
		return func(*cobra.Command, []string) error {
			cfg, log, err := load()
			if err != nil {
				return err
			}
			ctx, stop := stopOnSignal(log)
			defer stop()
			return do(ctx, cfg, log)
		}
	}
	root.RunE = until(serve)
	root.AddCommand(&cobra.Command{
		Use: "migrate", Short: "Create the keyspace and its tables, or check them, and end", Args: cobra.NoArgs,
		RunE: until(func(ctx context.Context, c *config, _ *slog.Logger) error {
			_, _, err := c.scheduler.Prepare(ctx)
			return c.explain(ctx, err)
		}),
	}, &cobra.Command{
		Use: "raise-fences", Short: "After the keyspace was restored from a snapshot, before any scheduler starts: raise the fences of all shards, and end", Args: cobra.NoArgs,
		RunE: until(raiseFences),
	}, &cobra.Command{
		Use: "probe", Short: "Ask the process with these settings on this machine whether it is ready", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, err := load()
			if err != nil {
				return err
			}
			return probe(cmd.Context(), cfg)
		},
	}, &cobra.Command{
		Use: "settings", Short: "Write all settings as tables in Markdown", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { s.table(cmd.OutOrStdout()) },
	})
	return root
}

// stopOnSignal returns a context that SIGTERM or SIGINT ends. A second one ends the
// process, at once: its shards are taken over when their ttl is over.
func stopOnSignal(log *slog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case sig := <-signals:
				if n > 0 {
					log.Error("second signal: exiting at once; other processes take the shards over after their TTL", "signal", sig.String())
					os.Exit(exitFailed)
				}
				log.Info("stopping: claiming no more jobs, waiting for runs, then handing over shards", "signal", sig.String())
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel() }
}

// probeTimeout bounds a probe.
const probeTimeout = 8 * time.Second

// probe asks the process with these settings, on this machine, whether it is ready: for
// containers that have no other program to ask with.
func probe(ctx context.Context, c *config) error {
	host := c.web.host
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, strconv.Itoa(c.web.port))+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		return fmt.Errorf("not ready: status %d: %s", res.StatusCode, strings.TrimSpace(string(text)))
	}
	return nil
}
