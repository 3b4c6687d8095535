package main

import (
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"fencepost/harness/env/kept"
)

func newDownCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster that \"fencepost up\" started",
		Long: `Stops the cluster of "fencepost up" and what runs beside it, and returns when nothing of
it is left. Without such a cluster it does nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			paths, err := kept.DefaultPaths()
			if err != nil {
				return err
			}
			err = kept.Down(ctx, paths, func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) })
			if errors.Is(err, kept.ErrNotUp) {
				fmt.Fprintln(cmd.OutOrStdout(), "no cluster is up")
				return nil
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the cluster is down")
			return nil
		},
	}
}
