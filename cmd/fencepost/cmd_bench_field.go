package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"fencepost/bench/field"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/sandbox"
	"fencepost/harness/target/system"
)

// fieldSuites is the locks of the field. Outside of the sandbox it has no network yet.
func (f benchFlags) fieldSuites() ([]benchSuite, error) {
	if f.counted && f.rounds == 0 {
		return nil, errors.New("no rounds: there is nothing else to measure of the field")
	}
	bin, err := binDir(context.Background(), "")
	if err != nil {
		return nil, err
	}
	s, err := field.New(field.Config{Config: f.config(), Systems: f.locks, BinDir: bin, Network: f.network, First: cluster.Plain().Nodes()})
	if err != nil {
		return nil, err
	}
	for _, name := range f.locks {
		if sys, err := system.Find(name); err == nil { // else it is none of the table's
			if err := builtHere(sys, bin); err != nil {
				return nil, err
			}
		}
	}
	return []benchSuite{{Suite: s, command: f.command("subject", subjectField)}}, nil
}

// amongServers measures in a sandbox of its own, in which there is a Cassandra cluster if the core is
// measured, and suites start the servers of other stores.
func (f benchFlags) amongServers(cmd *cobra.Command, out *output) (err error) {
	ctx := cmd.Context()
	if !sandbox.Inside() {
		if err := sandbox.Available(); err != nil {
			return fmt.Errorf("the servers of %s cannot run here: %w", subjectField, err)
		}
		return exitOf(sandbox.Run(ctx, append(slices.Clone(os.Args[1:]), fmt.Sprintf("--seed=%d", f.seed))))
	}
	if f.network, err = sandbox.NewNetwork(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.network.Close()) }()
	var c cluster.Cluster
	if slices.Contains(f.locks, system.Core) {
		say := func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), "  "+s) }
		if c, err = startNodes(ctx, f.network, nodeChoice{}, cluster.Plain(), say); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	}
	suites, err := f.suites()
	if err != nil {
		return err
	}
	return f.runAll(ctx, suites, c, "local", out)
}
