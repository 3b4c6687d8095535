package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/docker"
)

// clusterUsage is the help of --cluster, wherever a run may be made.
const clusterUsage = `auto, local (three nodes in a sandbox), docker (three containers), up (the cluster of "fencepost up")`

// dockerFlags are the flags of the container backend.
func dockerFlags(fl *pflag.FlagSet) {
	fl.String("image", docker.Image(), "image of the nodes, with --cluster=docker; default from "+docker.ImageEnv)
}

// imageOf is the --image of a command that has one.
func imageOf(cmd *cobra.Command) string {
	if f := cmd.Flags().Lookup("image"); f != nil {
		return f.Value.String()
	}
	return ""
}

// insteadOfLocal is where auto goes if the local cluster cannot run.
func insteadOfLocal(ctx context.Context, want string, cannot error) (where, why string, err error) {
	if want != "auto" {
		return "", "", fmt.Errorf("the local cluster cannot run here: %w", cannot)
	}
	detail, err := docker.Check(ctx)
	if err != nil {
		return "", "", fmt.Errorf("neither the local cluster nor containers can run here: %w", errors.Join(cannot, err))
	}
	return "docker", fmt.Sprintf("%s; the local cluster cannot run here: %s", detail, firstLine(cannot)), nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// onDocker does work on a cluster of containers. The tool stays outside: the links
// listen where the containers reach them.
func onDocker(cmd *cobra.Command, paxos string, work func(cluster.Cluster) error) error {
	c, closeCluster, err := startDocker(cmd.Context(), docker.Config{PaxosVariant: paxos, Image: imageOf(cmd)}, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	err = work(c)
	if closeErr := closeCluster(); closeErr != nil {
		return errors.Join(err, closeErr)
	}
	return err
}

// startDocker starts a cluster of containers; the function ends it.
func startDocker(ctx context.Context, config docker.Config, progress io.Writer) (cluster.Cluster, func() error, error) {
	if config.Progress == nil {
		config.Progress = func(s string) { fmt.Fprintln(progress, "  "+s) }
	}
	c, err := docker.Start(ctx, config)
	var bad *cluster.ConfigError
	switch {
	case errors.As(err, &bad):
		return nil, nil, usageError(err)
	case err != nil && ctx.Err() != nil:
		return nil, nil, fmt.Errorf("interrupted before the cluster was up: %w", err)
	case err != nil:
		return nil, nil, err
	}
	return c, func() error { return c.Close(context.WithoutCancel(ctx)) }, nil
}

// dockerAgain is what make is told to use the same containers once more.
func dockerAgain(c cluster.Cluster) string {
	if image := c.Info()["image"]; image != docker.DefaultImage {
		return " CLUSTER=docker IMAGE=" + image
	}
	return " CLUSTER=docker"
}

// checkDocker asks the daemon itself; the docker command line is not needed.
func checkDocker(ctx context.Context) finding {
	f := finding{name: "docker"}
	detail, err := docker.Check(ctx)
	var de *docker.DaemonError
	switch {
	case errors.As(err, &de):
		f.detail, f.remedy = fmt.Sprintf("%s: %v", de.Host, de.Err), "needed only for CLUSTER=docker: "+de.Remedy
	case err != nil:
		f.detail, f.remedy = err.Error(), "needed only for CLUSTER=docker"
	default:
		f.detail = detail
	}
	return f
}
