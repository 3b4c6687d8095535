package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"fencepost/harness/env/cluster"
)

const (
	// holderTimeout bounds the start of a holder.
	holderTimeout = 30 * time.Second
	// commitLogMiB is the size of the commit log's file system: see the local backend.
	commitLogMiB = 256
)

// node is a holder of a network namespace, and a container of Cassandra in it.
type node struct {
	*cluster.Machine
	cluster   *Cluster
	index     int
	redirects []redirect
	id        string // of Cassandra's container
	life      *life  // the last one
}

func newNode(c *Cluster, i int, ip string) *node {
	n := &node{cluster: c, index: i}
	name := "n" + strconv.Itoa(i+1)
	n.Machine = cluster.NewMachine(cluster.MachineSpec{
		Name: name, IP: ip, LogFile: filepath.Join(c.config.LogDir, name+".log"), Logger: c.config.Logger, Begin: n.begin, Ended: c.Tell,
	})
	return n
}

// make creates the two containers and starts the holder.
func (n *node) make(ctx context.Context) error {
	c := n.cluster
	name := c.bridge.name + "-" + n.Name()
	_, err := c.cli.VolumeCreate(ctx, client.VolumeCreateOptions{
		Name: name, Driver: "local", Labels: c.labels,
		DriverOpts: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": fmt.Sprintf("size=%dm,mode=1777", commitLogMiB)},
	})
	if err != nil {
		return fmt.Errorf("docker: volume for the commit log of %s: %w", n.Name(), err)
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
		tc.WithEnv(c.config.environment(n.IP(), c.bridge.ips)),
		tc.WithFiles(tc.ContainerFile{Reader: strings.NewReader(yaml), ContainerFilePath: confDir + "/cassandra.yaml", FileMode: 0o666},
			tc.ContainerFile{Reader: strings.NewReader(cluster.Logback), ContainerFilePath: confDir + "/logback.xml", FileMode: 0o666}),
		tc.WithHostConfigModifier(func(h *container.HostConfig) {
			h.NetworkMode = container.NetworkMode("container:" + holder)
			h.Mounts = append(h.Mounts, inMemory)
			h.LogConfig = readableLog
		}))
	if err != nil {
		return fmt.Errorf("docker: create %s: %w", n.Name(), err)
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
	ip, err := netip.ParseAddr(n.IP())
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
		e := &HolderError{Node: n.Name(), Err: err}
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
