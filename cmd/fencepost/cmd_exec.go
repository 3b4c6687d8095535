package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"fencepost/harness/env/kept"
)

func newExecCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "exec -- CMD [ARG...]",
		Short: "Run a command beside the cluster of \"fencepost up\"",
		Long: `Runs a command inside the sandbox of the cluster that "fencepost up" keeps, with
this terminal, directory and environment. It finds the nodes' addresses in
FENCEPOST_CONTACT_POINTS and their port in FENCEPOST_CQL_PORT. There is no other
network inside. The exit code is the command's.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(errors.New("exec: name a command: fencepost exec -- CMD"))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			paths, err := kept.DefaultPaths()
			if err != nil {
				return err
			}
			// Signals go to the command, and end this one with it.
			code, err := kept.Exec(context.Background(), paths, args)
			if err != nil {
				return err
			}
			if code != 0 {
				return &exitError{code: code}
			}
			return nil
		},
	}
}
