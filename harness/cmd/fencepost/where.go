package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"fencepost/harness/cluster"
	"fencepost/harness/kept"
	"fencepost/harness/sandbox"
)

// keptRun is what a command that runs inside the kept-up cluster's daemon finds
// in its context.
type keptRun struct {
	cluster cluster.Cluster
	dir     string
}

type keptKey struct{}

// keptCluster returns the kept-up cluster if the command runs inside its daemon.
func keptCluster(ctx context.Context) (cluster.Cluster, bool) {
	k, ok := ctx.Value(keptKey{}).(keptRun)
	return k.cluster, ok
}

// workDir is the directory that relative paths are meant from.
func workDir(ctx context.Context) string {
	if k, ok := ctx.Value(keptKey{}).(keptRun); ok {
		return k.dir
	}
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}

// handleKept is the daemon's handler: it runs one command line in-process.
func handleKept(ctx context.Context, req kept.Request, c cluster.Cluster, _ *sandbox.Network) int {
	root := newRootCmd()
	root.SetArgs(req.Args)
	root.SetIn(req.Stdin)
	root.SetOut(req.Stdout)
	root.SetErr(req.Stderr)
	err := root.ExecuteContext(context.WithValue(ctx, keptKey{}, keptRun{cluster: c, dir: req.Dir}))
	return exitCode(err, req.Stderr)
}

// runInKept hands this command line to the daemon.
func runInKept(ctx context.Context, args []string) error {
	paths, err := kept.DefaultPaths()
	if err != nil {
		return err
	}
	code, err := kept.Run(ctx, paths, args)
	if err != nil {
		return err
	}
	return exitWith(code)
}

// startLocal starts the local cluster inside the sandbox.
func startLocal(ctx context.Context, progress io.Writer) (cluster.Cluster, func() error, error) {
	network, err := sandbox.NewNetwork()
	if err != nil {
		return nil, nil, fmt.Errorf("sandbox network: %w", err)
	}
	c, err := cluster.StartLocal(ctx, network, cluster.LocalConfig{
		Progress: func(s string) { fmt.Fprintln(progress, "  "+s) },
	})
	if err != nil {
		_ = network.Close()
		return nil, nil, fmt.Errorf("local cluster: %w", err)
	}
	return c, func() error {
		err := c.Close(context.WithoutCancel(ctx))
		if e := network.Close(); err == nil {
			err = e
		}
		return err
	}, nil
}

// versions go into run.json.
func versions(c cluster.Cluster) map[string]string {
	v := map[string]string{"go": runtime.Version(), "fencepost": commit()}
	for k, s := range c.Info() {
		v[k] = s
	}
	return v
}

// commit is the git commit that the tool was built from.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	rev, dirty := "unknown", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	return rev + dirty
}
