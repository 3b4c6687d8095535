package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/docker"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/env/kept"
	"fencepost/harness/env/sandbox"
	"fencepost/internal/choice"
	"fencepost/reports/evidence"
)

// keptRun is what a command that runs inside the kept-up cluster's daemon finds
// in its context.
type keptRun struct {
	cluster cluster.Cluster
	dir     string
	env     []string // the client's
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
	err := root.ExecuteContext(context.WithValue(ctx, keptKey{}, keptRun{cluster: c, dir: req.Dir, env: req.Env}))
	return exitCode(err, req.Stderr)
}

// nodeChoice is what nodes the work wants, where it matters; "" takes the default, or
// what a kept cluster has.
type nodeChoice struct {
	store, release, paxos string
	// clocks: those of another store's servers can be set.
	clocks bool
}

// flags adds its flags.
func (n *nodeChoice) flags(fl *pflag.FlagSet) {
	fl.StringVar(&n.release, "cassandra", "", "release of Cassandra: "+strings.Join(cluster.Releases(), ", ")+" (default "+cluster.DefaultRelease+", or what a kept cluster has)")
	fl.StringVar(&n.paxos, "paxos", "", "Paxos variant of the cluster: "+strings.Join(cluster.PaxosVariants(), ", ")+" (default "+cluster.PaxosV2+", or what a kept cluster has)")
}

// check refuses what no cluster can have.
func (n nodeChoice) check() error {
	if n.paxos != "" && !slices.Contains(cluster.PaxosVariants(), n.paxos) {
		return usageError(choice.Unknown("Paxos variant", n.paxos, cluster.PaxosVariants()...))
	}
	if err := cluster.CheckRelease(n.release, n.paxos); err != nil {
		return usageError(err)
	}
	if n.store == "" || n.store == servers.Cassandra {
		return nil
	}
	if _, err := servers.Of(n.store); err != nil {
		return usageError(err)
	}
	if n.release != "" || n.paxos != "" {
		return usageError(fmt.Errorf("--store=%s: --cassandra and --paxos are of Cassandra", n.store))
	}
	return nil
}

// or is the choice, and where it leaves something open that of another.
func (n nodeChoice) or(other nodeChoice) nodeChoice {
	return nodeChoice{
		store: cmp.Or(n.store, other.store), release: cmp.Or(n.release, other.release), paxos: cmp.Or(n.paxos, other.paxos),
		clocks: n.clocks || other.clocks,
	}
}

// variables are what make is told to choose the same.
func (n nodeChoice) variables() (s string) {
	if n.release != "" {
		s += " CASSANDRA=" + n.release
	}
	if n.paxos != "" {
		s += " PAXOS=" + n.paxos
	}
	return s
}

// on says why a cluster that is there already is another.
func (n nodeChoice) on(c cluster.Cluster) error {
	if n == (nodeChoice{}) {
		return nil
	}
	if n.store != "" {
		return fmt.Errorf("--store=%s: the cluster that is kept up is Cassandra's: use --cluster=local", n.store)
	}
	for _, k := range []struct{ what, want, has, flag string }{
		{"Cassandra", n.release, c.Info()["cassandra"], "cassandra"},
		{"Paxos", n.paxos, c.Info()["paxos_variant"], "paxos"},
	} {
		if k.want != "" && k.want != k.has {
			return fmt.Errorf("the cluster that is kept up has %s %s, not %s: use --cluster=local, or fencepost down and then fencepost up --%s=%s",
				k.what, k.has, k.want, k.flag, k.want)
		}
	}
	return nil
}

// inContainers says why containers cannot have that.
func (n nodeChoice) inContainers() error {
	if n.store != "" {
		return fmt.Errorf("--store=%s: only the local backend starts its servers: use --cluster=local", n.store)
	}
	if n.release != "" && n.release != cluster.DefaultRelease {
		return fmt.Errorf("--cassandra=%s: containers have the release of their image: use --image=cassandra:%s", n.release, n.release)
	}
	return nil
}

// onCluster is onSite for work that needs one cluster. seed is handed on, as it may have
// been drawn in this process.
func onCluster(cmd *cobra.Command, want string, layout cluster.Layout, seed uint64, work func(c cluster.Cluster, backend string) error) error {
	return onSite(cmd, want, nodeChoice{}, []cluster.Layout{layout}, []string{fmt.Sprintf("--seed=%d", seed)}, onOne(layout, work))
}

// onOne is work on a site that needs one cluster.
func onOne(layout cluster.Layout, work func(c cluster.Cluster, backend string) error) func(*site) error {
	return func(s *site) error {
		c, err := s.on(layout)
		if err != nil {
			return err
		}
		return work(c, s.backend)
	}
}

// onSite does work on clusters: at once, if this process has one (the kept cluster's
// daemon) or starts them (the inside of a sandbox); else it chooses where, says why, and
// has this command line carried out there, with more arguments. layouts are those that the
// work needs.
func onSite(cmd *cobra.Command, want string, nodes nodeChoice, layouts []cluster.Layout, more []string, work func(*site) error) error {
	ctx := cmd.Context()
	if err := wanted(want, layouts); err != nil {
		return usageError(err)
	}
	if want == clusterExternal {
		return onExternal(cmd, nodes, work)
	}
	if err := noExternalFlags(cmd, want); err != nil {
		return err
	}
	if c, ok := keptCluster(ctx); ok {
		if err := nodes.on(c); err != nil {
			return usageError(err)
		}
		return work(&site{backend: "up", cluster: c})
	}
	if sandbox.Inside() {
		if want == "docker" {
			return usageError(errors.New("no container can be reached from inside the sandbox: use --cluster=docker outside of it"))
		}
		s := &site{backend: "local", start: func(n nodeChoice, l cluster.Layout) (cluster.Cluster, func() error, error) {
			return startLocal(ctx, n.or(nodes), l, cmd.ErrOrStderr())
		}}
		return s.do(work)
	}
	if nodes.store != "" && want == "auto" {
		want = "local" // what is kept up is Cassandra's
	}
	where, why, err := chooseCluster(ctx, want)
	if err != nil {
		return err
	}
	fmt.Fprintf(outputOf(cmd), "cluster: %s (%s)\n", where, why)
	if where == "docker" {
		// The tool stays outside: the links listen where the containers reach them.
		if err := nodes.inContainers(); err != nil {
			return usageError(err)
		}
		c, end, err := startDocker(ctx, docker.Config{PaxosVariant: nodes.paxos, Image: imageOf(cmd)}, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return (&site{backend: where, cluster: c, end: end}).do(work)
	}
	args := append(slices.Clone(os.Args[1:]), more...)
	if where == "up" {
		return runInKept(ctx, args)
	}
	return exitOf(sandbox.Run(ctx, args))
}

// chooseCluster resolves --cluster and says why.
func chooseCluster(ctx context.Context, want string) (where, why string, err error) {
	paths, err := kept.DefaultPaths()
	if err != nil {
		return "", "", err
	}
	up, err := kept.Held(paths)
	if err != nil {
		return "", "", err
	}
	switch want {
	case "local", "auto":
		if want == "auto" && up {
			return "up", "a cluster is kept up by fencepost up", nil
		}
		if err := sandbox.Available(); err != nil {
			return insteadOfLocal(ctx, want, err)
		}
		if want == "auto" {
			return "local", "Cassandra nodes in a sandbox of namespaces; no cluster is kept up", nil
		}
		return "local", "as asked", nil
	case "docker":
		return "docker", "as asked", nil
	case "up":
		if !up {
			return "", "", usageError(errors.New("no cluster is kept up: start one with fencepost up --background, or use --cluster=local"))
		}
		return "up", "as asked", nil
	}
	return "", "", usageError(choice.Unknown("cluster", want, "auto", "local", "docker", "up", "external"))
}

// runInKept hands this command line to the daemon.
func runInKept(ctx context.Context, args []string) error {
	paths, err := kept.DefaultPaths()
	if err != nil {
		return err
	}
	return exitOf(kept.Run(ctx, paths, args))
}

// startLocal starts the local cluster inside the sandbox.
func startLocal(ctx context.Context, nodes nodeChoice, layout cluster.Layout, progress io.Writer) (cluster.Cluster, func() error, error) {
	network, err := sandbox.NewNetwork()
	if err != nil {
		return nil, nil, fmt.Errorf("sandbox network: %w", err)
	}
	c, err := startNodes(ctx, network, nodes, layout, func(s string) { fmt.Fprintln(progress, "  "+s) })
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

func startNodes(ctx context.Context, network *sandbox.Network, nodes nodeChoice, layout cluster.Layout, progress func(string)) (cluster.Cluster, error) {
	if nodes.store == "" {
		return cluster.StartLocal(ctx, network, cluster.LocalConfig{
			Release: nodes.release, PaxosVariant: nodes.paxos, Layout: layout, Progress: progress,
		})
	}
	k, err := servers.Of(nodes.store)
	if err != nil {
		return nil, err
	}
	return servers.Start(ctx, network, k, servers.Config{Progress: progress, Clocks: nodes.clocks})
}

// versions go into run.json.
func versions(c cluster.Cluster) map[string]string {
	v := built()
	if c == nil {
		return v
	}
	for k, s := range c.Info() {
		v[k] = s
	}
	return v
}

// built is what run.json says of the tool itself.
func built() map[string]string {
	return map[string]string{"go": runtime.Version(), evidence.CommitKey: builtFrom, evidence.TreeKey: builtOf}
}

// What the tool was built from, set by the Makefile: the git commit, with -dirty for a
// changed work tree, and the digest of what decides a verdict (scripts/digest).
var builtFrom, builtOf = unknownBuild, unknownBuild

const unknownBuild = "unknown"

// today is the digest of what decides a verdict in this tool, "" if it is not known.
func today() string {
	if builtOf == unknownBuild {
		return ""
	}
	return builtOf
}

// place is where the commands that make runs work.
type place struct{ cluster, runs, bin string }

// flags adds its flags; clusters says which there are, runs what is there.
func (p *place) flags(fl *pflag.FlagSet, clusters, runs string) {
	fl.StringVar(&p.cluster, "cluster", "auto", clusters)
	dockerFlags(fl)
	fl.StringVar(&p.runs, "runs", "runs", "directory for the "+runs+"' directories")
	fl.StringVar(&p.bin, "bin", "", "directory of the worker executables (default: the tool's own)")
	jsonOutput(fl)
}

// resolve makes the paths absolute.
func (p *place) resolve(ctx context.Context) (err error) {
	p.runs = within(ctx, p.runs)
	p.bin, err = binDir(ctx, p.bin)
	return err
}

// binDir is where the worker executables are; "" means beside the tool.
func binDir(ctx context.Context, bin string) (string, error) {
	if bin != "" {
		return within(ctx, bin), nil
	}
	exe, err := os.Executable()
	return filepath.Dir(exe), err
}

// within makes a path that the user gave absolute.
func within(ctx context.Context, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(workDir(ctx), path)
}

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
