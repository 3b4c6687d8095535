package main

import "github.com/spf13/cobra"

func newReportCmd() *cobra.Command { return &cobra.Command{Use: "report"} }
