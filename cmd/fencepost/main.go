// Command fencepost is the test harness's command line; `fencepost help` lists its commands.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fencepost/checker"
	"fencepost/harness/env/cluster/docker"
	"fencepost/harness/env/kept"
	"fencepost/harness/env/osproc"
	"fencepost/harness/env/sandbox"
	"fencepost/harness/record/progress"
	"fencepost/internal/choice"
	"fencepost/internal/terminal"
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
		newOwnCmd(),
		newExplainCmd(),
		newReportCmd(),
		newResultsCmd(),
		newEvidenceCmd(),
		newPowerCmd(),
		newFieldCmd(),
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

// output is where a command of runs tells what it does: text for people or, with
// --json, events alone. What is written to it is a line of text, or a step event.
type output struct {
	io.Writer
	show func(progress.Event)
	text *progress.Text // nil with --json
}

const jsonFlag = "json"

// jsonOutput adds --json to a command of runs.
func jsonOutput(fl *pflag.FlagSet) {
	fl.Bool(jsonFlag, false, "print progress as JSON, one event per line (docs/cli.md), and no text")
}

// outputOf is a command's output on its standard output.
func outputOf(cmd *cobra.Command) *output {
	out := cmd.OutOrStdout()
	if asked, err := cmd.Flags().GetBool(jsonFlag); err == nil && asked {
		show := progress.JSON(out)
		return &output{Writer: stepWriter{show}, show: show}
	}
	return textOutput(out, terminal.Of(out, environment(cmd.Context())))
}

// textOutput is for people.
func textOutput(out io.Writer, s terminal.Style) *output {
	t := progress.NewText(out, s)
	return &output{Writer: t, show: t.Show, text: t}
}

// verdict prints what the event of a verdict is too short for.
func (o *output) verdict(res *checker.Result) {
	if o.text != nil {
		checker.PrintPainted(o.text, res, o.text.Style().Verdict)
	}
}

// printJSON prints what --json asks a command that judges or explains for.
func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// stepWriter shows lines of text as events.
type stepWriter struct{ show func(progress.Event) }

func (w stepWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if line = strings.TrimSpace(line); line != "" {
			w.show(progress.Step(line))
		}
	}
	return len(p), nil
}

// environment is the environment of the user's shell: in the kept cluster's
// daemon it is not the process's own.
func environment(ctx context.Context) func(string) string {
	if k, ok := ctx.Value(keptKey{}).(keptRun); ok {
		return kept.Getenv(k.env)
	}
	return os.Getenv
}

// refuseBadArgs makes bad input of what a command of the tree takes for bad arguments, and
// gives commands that only hold others a refusal of those that there are not.
func refuseBadArgs(cmd *cobra.Command) {
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = func(_ *cobra.Command, args []string) error { return noneOf(cmd, args) }
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if cmd.Name() == "help" {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if of, rest, err := cmd.Root().Find(args); err == nil {
				return noneOf(of, rest)
			}
			return noneOf(cmd.Root(), args)
		}
	}
	if args := cmd.Args; args != nil {
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			err := args(cmd, given)
			if bad := (*exitError)(nil); err == nil || errors.As(err, &bad) {
				return err
			}
			return usageError(err)
		}
	}
	for _, c := range cmd.Commands() {
		refuseBadArgs(c)
	}
}

// noneOf is an error about arguments, of which the first should be a command of cmd.
func noneOf(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return choice.Unknown("command", args[0], names...)
}

// runsIn is bad input if the directory of runs is none. That it is not there yet is
// well, unless somebody has named it: then it is probably misspelt.
func runsIn(cmd *cobra.Command, dir string) error {
	switch st, err := os.Stat(dir); {
	case err == nil && !st.IsDir():
		return usageError(fmt.Errorf("--runs=%s is not a directory", dir))
	case errors.Is(err, os.ErrNotExist) && cmd.Flags().Changed("runs"):
		return usageError(fmt.Errorf("--runs=%s: there is no such directory", dir))
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return usageError(fmt.Errorf("--runs: %w", err))
	}
	return nil
}
