package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/docker"
	"fencepost/harness/env/kept"
	"fencepost/harness/env/sandbox"
)

// upOptions are the flags of up.
type upOptions struct {
	background bool
	inside     bool // this is the process inside the sandbox
	nodes      nodeChoice
	layout     cluster.Layout
	heapMiB    int
	seed       uint64
	cluster    string
	image      string
	schedulers schedulersOptions
}

func newUpCmd() *cobra.Command {
	var o upOptions
	var datacenters string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster and leave it running for later runs",
		Long: `Starts three Cassandra nodes in a sandbox and keeps them running until
"fencepost down" or Ctrl-C. Meanwhile "fencepost exec -- CMD" runs a command
beside them, and runs with CLUSTER=up use them instead of starting their own. With
--cluster=docker the nodes are containers, and there is no sandbox. With --schedulers=3
it also does what "fencepost schedulers" does. With
--datacenters=3,1 there are four nodes in two data centres, for scenarios that need them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.image = imageOf(cmd)
			if err := o.lay(datacenters); err != nil {
				return usageError(err)
			}
			if err := o.nodes.check(); err != nil {
				return err
			}
			if err := o.schedulers.check("schedulers", 0); err != nil {
				return err
			}
			switch {
			case o.cluster != "auto" && o.cluster != "local" && o.cluster != "docker":
				return usageError(fmt.Errorf("unknown cluster %q; what can be kept up is local (as is auto) and docker", o.cluster))
			case o.inside:
				return upInside(cmd.Context(), o)
			case o.background:
				return upBackground(o)
			case o.cluster == "docker":
				return upDocker(cmd.Context(), o)
			default:
				return upOutside(cmd.Context(), o)
			}
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.background, "background", false, "return when the cluster is ready, and leave it running")
	o.nodes.flags(f)
	f.StringVar(&datacenters, "datacenters", cluster.Plain().String(), "nodes per data centre, comma-separated: 3,1 is n1 to n3 in dc1 and n4 in dc2 (for scenarios that need it)")
	f.IntVar(&o.heapMiB, "heap", 512, "heap of a node, in MiB")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the links' random numbers")
	f.StringVar(&o.cluster, "cluster", "auto", "local (three nodes in a sandbox; so does auto), docker (three containers)")
	dockerFlags(f)
	o.schedulers.flags(f, "schedulers", "how many schedulers run beside it", 0)
	hidden(f, &o.inside, "inside")
	return cmd
}

// lay reads --datacenters.
func (o *upOptions) lay(datacenters string) (err error) {
	if o.layout, err = cluster.ParseLayout(datacenters); err != nil {
		return fmt.Errorf("--datacenters: %w", err)
	}
	switch several := len(o.layout) > 1; {
	case several && o.cluster == "docker":
		return fmt.Errorf("--datacenters=%s: containers make one data centre only: use --cluster=local", o.layout)
	case several && o.schedulers.count > 0:
		return fmt.Errorf("--datacenters=%s: schedulers run beside a cluster of one data centre only: use --schedulers=0", o.layout)
	case o.cluster == "docker" && !o.layout.Equal(cluster.Plain()):
		return fmt.Errorf("--datacenters=%s: --cluster=docker starts three nodes", o.layout)
	case o.cluster == "docker":
		return o.nodes.inContainers()
	}
	return nil
}

// args are the arguments by which a re-executed up gets the same options.
func (o upOptions) args(more ...string) []string {
	args := []string{"up", "--cassandra=" + o.nodes.release, "--paxos=" + o.nodes.paxos, "--heap=" + strconv.Itoa(o.heapMiB), "--seed=" + strconv.FormatUint(o.seed, 10), "--cluster=" + o.cluster, "--image=" + o.image}
	if !o.layout.Equal(cluster.Plain()) {
		args = append(args, "--datacenters="+o.layout.String())
	}
	if o.schedulers.count > 0 {
		args = append(args, "--schedulers="+strconv.Itoa(o.schedulers.count), "--port="+strconv.Itoa(o.schedulers.port))
	}
	return append(args, more...)
}

// upOutside owns the kept cluster: it holds the lock as long as the sandbox lives.
func upOutside(ctx context.Context, o upOptions) error {
	return owning(ctx, o.schedulers, func(ctx context.Context, _ kept.Paths) error {
		return exitOf(sandbox.Run(ctx, o.args("--inside")))
	})
}

// owning keeps a cluster by keep and holds the lock meanwhile. There are schedulers beside
// it; if they cannot run, neither does the cluster.
func owning(ctx context.Context, o schedulersOptions, keep func(context.Context, kept.Paths) error) error {
	paths, err := kept.DefaultPaths()
	if err != nil {
		return err
	}
	lock, err := kept.Lock(paths)
	if err != nil {
		return err
	}
	defer lock.Close()
	if o.count == 0 {
		return keep(ctx, paths)
	}
	files, err := o.listen() // before the cluster takes its half a minute
	if err != nil {
		return err
	}
	defer closeFiles(files)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := upSchedulers(ctx, paths, o, files)
		if err != nil {
			cancel()
		}
		ended <- err
	}()
	err = keep(ctx, paths)
	cancel()
	if failed := <-ended; failed != nil {
		return failed // the cause of the other, if there is one
	}
	return err
}

// upInside starts the cluster and serves until it is told to end.
func upInside(ctx context.Context, o upOptions) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	paths, err := kept.DefaultPaths()
	if err != nil {
		return err
	}
	network, err := sandbox.NewNetwork()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	say := sayer()
	c, err := cluster.StartLocal(ctx, network, cluster.LocalConfig{
		Release: o.nodes.release, PaxosVariant: o.nodes.paxos, Layout: o.layout, HeapMiB: o.heapMiB, Seed: o.seed, Progress: say,
	})
	var bad *cluster.ConfigError
	switch {
	case errors.As(err, &bad):
		return usageError(err)
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted before the cluster was up")
	case err != nil:
		return err
	}
	return upServe(ctx, paths, c, network, say)
}

// upDocker owns and serves a kept cluster of containers. There is no sandbox around it.
func upDocker(ctx context.Context, o upOptions) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return owning(ctx, o.schedulers, func(ctx context.Context, paths kept.Paths) error {
		say := sayer()
		c, _, err := startDocker(ctx, docker.Config{Image: o.image, PaxosVariant: o.nodes.paxos, HeapMiB: o.heapMiB, Seed: o.seed, Progress: say}, os.Stdout)
		if err != nil {
			return err
		}
		return upServe(ctx, paths, c, nil, say)
	})
}

// sayer tells a person what goes on, with the seconds since now.
func sayer() func(string) {
	began := time.Now()
	return func(s string) { fmt.Printf("%6.1fs  %s\n", time.Since(began).Seconds(), s) }
}

// upServe serves the cluster until it is told to end, and ends it.
func upServe(ctx context.Context, paths kept.Paths, c cluster.Cluster, network *sandbox.Network, say func(string)) (err error) {
	defer func() {
		say("ending the cluster …")
		err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}()
	for _, n := range c.Nodes() {
		say(fmt.Sprintf("%s  %s:%d  log %s", n.Name(), n.IP(), c.CQLPort(), n.LogFile()))
	}
	say("up. `fencepost exec -- CMD` runs a command beside it, `fencepost down` stops it")
	return kept.Serve(ctx, paths, c, network, handleKept, nil)
}

// upBackground starts up in a session of its own, and returns when it answers.
func upBackground(o upOptions) error {
	paths, err := kept.DefaultPaths()
	if err != nil {
		return err
	}
	if held, err := kept.Held(paths); err != nil {
		return err
	} else if held {
		_, err := kept.Lock(paths) // says who holds it
		return err
	}
	log, err := os.Create(paths.Log)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", o.args()...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	follow, err := os.Open(paths.Log)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	defer follow.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := io.Copy(os.Stdout, follow); err != nil {
			return fmt.Errorf("log: %w", err)
		}
		select {
		case <-tick.C:
			if _, err := kept.Query(paths); err == nil && o.schedulers.ready() {
				if _, err := io.Copy(os.Stdout, follow); err != nil {
					return fmt.Errorf("log: %w", err)
				}
				fmt.Println("`fencepost serve` shows live runs in a browser")
				if o.schedulers.count > 0 {
					fmt.Println("schedulers: " + o.schedulers.urls())
				}
				return nil
			}
		case <-exited:
			_, _ = io.Copy(os.Stdout, follow)
			return &exitError{code: max(1, cmd.ProcessState.ExitCode()), err: fmt.Errorf("the cluster did not come up; its log is %s", paths.Log)}
		case s := <-signals:
			// Not up yet: an interrupt means that it is not wanted any more.
			_ = cmd.Process.Signal(s)
		}
	}
}

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

func newExecCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "exec -- CMD [ARG...]",
		Short: "Run a command beside the cluster of \"fencepost up\"",
		Long: `Runs a command inside the sandbox of the cluster that "fencepost up" keeps, with
this terminal, directory and environment. It finds the nodes' addresses in
FENCEPOST_CONTACT_POINTS and their port in FENCEPOST_CQL_PORT. There is no other
network inside. The exit code is the command's.`,
		Args: someArgs("exec: name a command: fencepost exec -- CMD"),
		RunE: func(_ *cobra.Command, args []string) error {
			paths, err := kept.DefaultPaths()
			if err != nil {
				return err
			}
			// Signals go to the command, and end this one with it.
			return exitOf(kept.Exec(context.Background(), paths, args))
		},
	}
}
