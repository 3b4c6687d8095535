package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/osproc"
)

const (
	// holderTimeout bounds the start of a holder.
	holderTimeout = 30 * time.Second
	// commitLogMiB is the size of the commit log's file system: see the local backend.
	commitLogMiB = 256
)

// node is a holder of a network namespace, and a container of Cassandra in it.
type node struct {
	cluster   *Cluster
	index     int
	name, ip  string
	logFile   string
	redirects []redirect
	id        string // of Cassandra's container

	mu     sync.Mutex
	state  cluster.State
	life   *life // nil without a process
	closed bool  // the cluster is being removed
}

var _ cluster.Node = (*node)(nil)

func newNode(c *Cluster, i int, ip string) *node {
	name := "n" + strconv.Itoa(i+1)
	return &node{cluster: c, index: i, name: name, ip: ip, logFile: filepath.Join(c.config.LogDir, name+".log"), state: cluster.Stopped}
}

func (n *node) Name() string    { return n.name }
func (n *node) IP() string      { return n.ip }
func (n *node) LogFile() string { return n.logFile }

func (n *node) State() cluster.State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

// make creates the two containers and starts the holder.
func (n *node) make(ctx context.Context) error {
	c := n.cluster
	name := c.bridge.name + "-" + n.name
	_, err := c.cli.VolumeCreate(ctx, client.VolumeCreateOptions{
		Name: name, Driver: "local", Labels: c.labels,
		DriverOpts: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": fmt.Sprintf("size=%dm,mode=1777", commitLogMiB)},
	})
	if err != nil {
		return fmt.Errorf("docker: volume for the commit log of %s: %w", n.name, err)
	}
	inMemory := mount.Mount{Type: mount.TypeVolume, Source: name, Target: commitLog}
	holder, err := n.hold(ctx, name+"-net", inMemory)
	if err != nil {
		return err
	}
	yaml, err := cluster.NodeYAML{
		IPs: c.bridge.ips, Index: n.index, Data: dataDir, Paxos: c.config.PaxosVariant, CommitLog: cluster.CommitLogBatch,
	}.Text()
	if err != nil {
		return err
	}
	ctr, err := tc.Run(ctx, c.config.Image, tc.WithNoStart(), tc.WithName(name), tc.WithLabels(c.labels),
		tc.WithEnv(c.config.environment(n.ip, c.bridge.ips)),
		tc.WithFiles(tc.ContainerFile{Reader: strings.NewReader(yaml), ContainerFilePath: confDir + "/cassandra.yaml", FileMode: 0o666},
			tc.ContainerFile{Reader: strings.NewReader(cluster.Logback), ContainerFilePath: confDir + "/logback.xml", FileMode: 0o666}),
		tc.WithHostConfigModifier(func(h *container.HostConfig) {
			h.NetworkMode = container.NetworkMode("container:" + holder)
			h.Mounts = append(h.Mounts, inMemory)
			h.LogConfig = readableLog
		}))
	if err != nil {
		return fmt.Errorf("docker: create %s: %w", n.name, err)
	}
	n.id = ctr.GetContainerID()
	return nil
}

// readableLog: a daemon may send logs where they cannot be read back.
var readableLog = container.LogConfig{Type: "json-file"}

// hold starts the holder and returns its id when the redirects are made.
func (n *node) hold(ctx context.Context, name string, mounts ...mount.Mount) (string, error) {
	c := n.cluster
	text, err := json.Marshal(n.redirects)
	if err != nil {
		return "", fmt.Errorf("docker: %w", err)
	}
	// This very program, even if its file was replaced meanwhile.
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("docker: %w", err)
	}
	defer exe.Close()
	ip, err := netip.ParseAddr(n.ip)
	if err != nil {
		return "", fmt.Errorf("docker: %w", err)
	}
	var host *container.HostConfig
	ctr, err := tc.Run(ctx, c.config.Image, tc.WithName(name), tc.WithLabels(c.labels),
		tc.WithEnv(map[string]string{holdEnv: string(text)}),
		tc.WithFiles(tc.ContainerFile{Reader: exe, ContainerFilePath: holdPath, FileMode: 0o755}),
		tc.WithConfigModifier(func(cfg *container.Config) {
			cfg.Entrypoint, cfg.Cmd, cfg.User = []string{holdPath}, nil, "0"
			cfg.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
		}),
		tc.WithHostConfigModifier(func(h *container.HostConfig) {
			h.CapAdd = append(h.CapAdd, "NET_ADMIN")
			h.Mounts = append(h.Mounts, mounts...)
			h.LogConfig = readableLog
			h.NetworkMode = container.NetworkMode(c.bridge.name)
			host = h
		}),
		// testcontainers publishes the image's ports last of all, to everybody who
		// can reach this machine; nodes ask for no password.
		tc.WithAdditionalLifecycleHooks(tc.ContainerLifecycleHooks{PreCreates: []tc.ContainerRequestHook{
			func(context.Context, tc.ContainerRequest) error {
				host.PortBindings = nil
				return nil
			},
		}}),
		tc.WithEndpointSettingsModifier(func(m map[string]*network.EndpointSettings) {
			m[c.bridge.name] = &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: ip}}
		}),
		tc.WithWaitStrategyAndDeadline(holderTimeout, wait.ForLog(holding)))
	if err != nil {
		e := &HolderError{Node: n.name, Err: err}
		if ctr != nil {
			if log, logErr := ctr.Logs(context.WithoutCancel(ctx)); logErr == nil {
				b, _ := io.ReadAll(io.LimitReader(log, 4096))
				e.Log = strings.TrimSpace(string(b))
				log.Close()
			}
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", e
	}
	return ctr.GetContainerID(), nil
}

// Start starts the process and returns when its CQL port answers.
func (n *node) Start(ctx context.Context) error {
	l, err := n.spawn(ctx)
	if err != nil {
		return err
	}
	switch err := cluster.AwaitPort(ctx, net.JoinHostPort(n.ip, strconv.Itoa(cqlPort)), l.done); {
	case errors.Is(err, cluster.ErrEnded):
		return &cluster.ExitError{Node: n.name, Status: l.end.Ending(), LogFile: n.logFile, Tail: cluster.Complaints(n.logFile, l.logPos)}
	case err != nil:
		return fmt.Errorf("docker: %s does not answer on its CQL port yet (log: %s): %w", n.name, n.logFile, err)
	}
	n.answered(l)
	return nil
}

// answered notes that this life of the node has answered.
func (n *node) answered(l *life) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life == l && n.state == cluster.Starting {
		n.state = cluster.Running
	}
}

func (n *node) prober() cluster.Prober {
	return cluster.Prober{
		Name: n.name, IP: n.ip, Port: cqlPort, LogFile: n.logFile, Logger: n.cluster.config.Logger,
		Attempt: func() (func(), error) {
			n.mu.Lock()
			l, state := n.life, n.state
			n.mu.Unlock()
			if state != cluster.Running && state != cluster.Starting {
				return nil, &cluster.StateError{Node: n.name, Op: "probe", State: state}
			}
			return func() { n.answered(l) }, nil
		},
	}
}

// WaitReady returns when a conditional update through this node has an answer.
func (n *node) WaitReady(ctx context.Context) error { return n.prober().Ready(ctx) }

func (n *node) Kill(ctx context.Context) error {
	return n.stop(ctx, "kill", cluster.Killed, sigKill)
}

func (n *node) Stop(ctx context.Context) error {
	return n.stop(ctx, "stop", cluster.Stopped, "SIGTERM")
}

// sigKill cannot be refused.
const sigKill = "SIGKILL"

// stop signals the process and waits until it is gone. One that does not end in time is
// killed.
func (n *node) stop(ctx context.Context, op string, then cluster.State, signal string) error {
	n.mu.Lock()
	l, before := n.life, n.state
	if l == nil || before == cluster.Paused && signal != sigKill {
		defer n.mu.Unlock()
		return &cluster.StateError{Node: n.name, Op: op, State: before}
	}
	n.state = then
	n.mu.Unlock()
	if err := l.ask(ctx, signal, func() error { return n.signal(ctx, signal) }); err != nil && !l.over() {
		n.mu.Lock()
		if n.life == l {
			n.state = before
		}
		n.mu.Unlock()
		return fmt.Errorf("docker: %s %s: %w", op, n.name, err)
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
	}
	err := fmt.Errorf("docker: %s %s: its process has not ended yet: %w", op, n.name, context.Cause(ctx))
	if signal == sigKill {
		return err
	}
	l.late(signal)
	kill, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	return errors.Join(err, n.stop(kill, "kill", cluster.Killed, sigKill))
}

// signal has the daemon send a signal to the container's first process.
func (n *node) signal(ctx context.Context, name string) error {
	_, err := n.cluster.cli.ContainerKill(ctx, n.id, client.ContainerKillOptions{Signal: name})
	return err
}

func (n *node) Pause(ctx context.Context) error {
	return n.freeze(ctx, "pause", cluster.Running, cluster.Paused, "SIGSTOP")
}

func (n *node) Resume(ctx context.Context) error {
	return n.freeze(ctx, "resume", cluster.Paused, cluster.Running, "SIGCONT")
}

func (n *node) freeze(ctx context.Context, op string, from, to cluster.State, signal string) error {
	n.mu.Lock()
	l := n.life
	if n.state != from || l == nil {
		defer n.mu.Unlock()
		return &cluster.StateError{Node: n.name, Op: op, State: n.state}
	}
	err := n.signal(ctx, signal)
	if err == nil {
		// The signal is sent, so this is the state even if its effect is slow.
		n.state = to
	}
	n.mu.Unlock()
	if err == nil {
		err = n.awaitStopped(ctx, l, to == cluster.Paused)
	}
	if err != nil {
		return fmt.Errorf("docker: %s %s: %w", op, n.name, err)
	}
	return nil
}

func (n *node) Standing() error {
	if letter := n.ProcessState(); letter != "T" {
		return fmt.Errorf("%s: its process is in state %q, not stopped", n.name, letter)
	}
	n.mu.Lock()
	l := n.life
	n.mu.Unlock()
	if l == nil || !l.visible {
		return nil // its threads cannot be seen from here
	}
	return osproc.Standing(l.pid)
}

// ending tells the node that its containers are about to be removed.
func (n *node) ending() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.life != nil {
		n.state = cluster.Killed
	}
}

// await returns when the present life, if there is one, has been seen to end.
func (n *node) await(ctx context.Context) error {
	n.mu.Lock()
	l := n.life
	n.mu.Unlock()
	if l == nil {
		return nil
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return errors.New("docker: " + n.name + " does not end")
	}
}
