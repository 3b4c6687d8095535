// Command fencepost is the test harness's command line; `fencepost help` lists its commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fencepost/harness/env/cluster/docker"
	"fencepost/harness/env/osproc"
	"fencepost/harness/env/sandbox"
)

// exitUsage is the exit code for bad input: flags, scenario files, histories
// (EX_USAGE of sysexits.h).
const exitUsage = 64

// exitNotDone is the exit code if a command could not do its work. It is not a
// verdict's: 1 says that a property is violated, and nothing else.
const exitNotDone = 2

// exitError carries an exit code to main; err may be nil when all was said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError marks err as bad input.
func usageError(err error) error { return &exitError{code: exitUsage, err: err} }

// exitWith ends a command that has said all with an exit code.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return &exitError{code: code}
}

// exitOf ends a command as another process ended that did its work.
func exitOf(code int, err error) error {
	if err != nil {
		return err
	}
	return exitWith(code)
}

// oneArg takes exactly one argument, someArgs at least one; otherwise says what is wanted.
func oneArg(otherwise string) cobra.PositionalArgs { return argsFrom(1, 1, otherwise) }

func someArgs(otherwise string) cobra.PositionalArgs { return argsFrom(1, math.MaxInt, otherwise) }

func argsFrom(least, most int, otherwise string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usageError(errors.New(otherwise))
		}
		return nil
	}
}

// hidden adds a flag that only the tool itself sets.
func hidden(fl *pflag.FlagSet, p *bool, name string) {
	fl.BoolVar(p, name, false, "")
	fl.Lookup(name).Hidden = true
}

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:           "fencepost",
		Short:         "Chaos tests and benchmarks for locks, leases and schedulers on Cassandra",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(err) })
	root.AddCommand(
		newChaosCmd(),
		newBenchCmd(),
		newCheckCmd(),
		newRecheckCmd(),
		newLintCmd(),
		newExplainCmd(),
		newReportCmd(),
		newResultsCmd(),
		newEvidenceCmd(),
		newPowerCmd(),
		newSoakCmd(),
		newReplayCmd(),
		newRunsCmd(),
		newServeCmd(),
		newListCmd(),
		newScenarioCmd(),
		newUpCmd(),
		newSchedulersCmd(),
		newDownCmd(),
		newExecCmd(),
		newDoctorCmd(),
	)
	complete(root)
	root.InitDefaultHelpCmd()
	refuseBadArgs(root)
	return root
}

func main() {
	docker.Init()
	osproc.Init()
	sandbox.Init()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newRootCmd().ExecuteContext(ctx)
	stop()
	os.Exit(exitCode(err, os.Stderr))
}

// exitCodeOf is the exit code that an error stands for.
func exitCodeOf(err error) int {
	if ee := (*exitError)(nil); errors.As(err, &ee) {
		return ee.code
	}
	return exitNotDone
}

// exitCode prints err and returns the exit code that it stands for.
func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	code := exitCodeOf(err)
	var ee *exitError
	if errors.As(err, &ee) && ee.err == nil && err == error(ee) {
		return code // all was said
	}
	fmt.Fprintln(stderr, "fencepost: "+err.Error())
	return code
}
