package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"fencepost/bench"
	"fencepost/bench/jobs"
	"fencepost/bench/locks"
	"fencepost/harness/env/cluster"
)

// suiteConfig is what a suite is made from: one of them.
type suiteConfig struct {
	Locks *locks.Config `json:"locks,omitempty"`
	Jobs  *jobs.Config  `json:"jobs,omitempty"`
}

func (c suiteConfig) suite() (bench.Joint, error) {
	switch {
	case c.Locks != nil:
		return locks.New(*c.Locks)
	case c.Jobs != nil:
		return jobs.New(*c.Jobs)
	}
	return nil, errors.New("a suite of nothing")
}

// newBenchAgentCmd is a process over which `fencepost bench` spreads arms; it starts it.
func newBenchAgentCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "agent",
		Short:  "A process of a benchmark, which gives it orders on its standard input",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A signal is for the benchmark, which then ends this process in order.
			return bench.Serve(context.WithoutCancel(cmd.Context()), os.Stdin, os.Stdout, func(raw json.RawMessage) (bench.Joint, error) {
				var c suiteConfig
				if err := json.Unmarshal(raw, &c); err != nil {
					return nil, err
				}
				return c.suite()
			})
		},
	}
}

// processesDir is where the logs of a benchmark's processes are in its directory.
const processesDir = "processes"

// launchOf says how the processes of a suite are started, nil if it has none.
func launchOf(s benchSuite, c cluster.Cluster, dir string) (*bench.Launch, error) {
	spread := false
	for _, a := range s.Design().Plan.Arms {
		spread = spread || a.Processes > 0
	}
	if !spread {
		return nil, nil
	}
	access := cluster.AccessTo(c)
	l := &bench.Launch{
		Command: func() *exec.Cmd { return exec.Command("/proc/self/exe", "bench", "agent") },
		Dir:     filepath.Join(dir, processesDir), Suite: s.config,
		Reach: bench.Reach{Nodes: map[string]string{}, Port: access.Config.Port, ConnectTimeout: access.Config.ConnectTimeout, Login: access.Login},
	}
	for _, n := range c.Nodes() {
		l.Reach.Nodes[n.IP()] = cluster.AddrOf(c, n)
	}
	return l, os.MkdirAll(l.Dir, 0o755)
}
