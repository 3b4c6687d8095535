package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"fencepost/internal/choice"
)

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
