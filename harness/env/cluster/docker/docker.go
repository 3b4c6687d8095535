package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
)

const (
	// closeTimeout bounds the removal of everything; the daemon takes seconds.
	closeTimeout = time.Minute
	// carryTimeout bounds the wait for bytes on every link of a healthy cluster:
	// each node speaks to each other at least once in a few seconds (gossip).
	carryTimeout = 30 * time.Second
)

var errStartTimeout = errors.New("the cluster took too long to start; is the machine overloaded?")

// Cluster is a cluster of containers.
type Cluster struct {
	config Config
	cli    *client.Client
	id     string
	labels map[string]string
	bridge *bridge
	links  *link.Fabric
	nodes  cluster.NodeSet[*node]
	info   map[string]string
	cluster.Watchers

	closeOnce sync.Once
	closeErr  error
}

var _ cluster.Cluster = (*Cluster)(nil)

// Start removes what killed owners have left, starts three nodes and returns when the
// cluster is healthy and every directed link has carried bytes. On error nothing is left
// running. Errors that a person can mend say how: *[DaemonError], *[ImageError],
// *[GatewayError], *[HolderError], *[LinksError], *cluster.MemoryError,
// *cluster.ConfigError, *cluster.ExitError.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	have, need, err := cluster.Memory(config.local())
	if err != nil {
		return nil, err
	}
	if have < need {
		return nil, &cluster.MemoryError{NeedMiB: need, AvailableMiB: have}
	}
	c, me, err := connected(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx, me); err != nil {
		return nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// connected is a cluster of this process without containers yet.
func connected(ctx context.Context, config Config) (*Cluster, owner, error) {
	me, err := thisProcess()
	if err != nil {
		return nil, owner{}, err
	}
	id := cluster.NewID()
	cli, err := connect(ctx)
	if err != nil {
		return nil, owner{}, err
	}
	return &Cluster{
		config: config, cli: cli, id: id, labels: map[string]string{labelCluster: id, labelOwner: me.String()},
		links: link.NewFabric(link.Options{Logger: config.Logger}),
	}, me, nil
}

func (c *Cluster) start(ctx context.Context, me owner) error {
	swept, err := sweep(ctx, c.cli, me)
	if err != nil {
		return err
	}
	if swept > 0 {
		c.config.Progress(fmt.Sprintf("removed the containers of %d clusters whose owner was killed", swept))
	}
	if err := ensureImage(ctx, c.cli, c.config.Image, c.config.Progress); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.config.StartTimeout, errStartTimeout)
	defer cancel()
	began := time.Now()
	c.config.Progress(fmt.Sprintf("starting %d containers of %s …", nodes, c.config.Image))
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.nodes.Each(func(n *node) error { return n.make(ctx) }); err != nil {
		return err
	}
	if err := c.nodes.Each(func(n *node) error { return n.Start(ctx) }); err != nil {
		return err
	}
	first := c.nodes[0].Prober()
	if err := first.Furnish(ctx, cluster.Layout{nodes}); err != nil {
		return err
	}
	if err := c.WaitHealthy(ctx); err != nil {
		return err
	}
	if err := c.carry(ctx); err != nil {
		return err
	}
	release, err := first.Release(ctx)
	if err != nil {
		return err
	}
	c.info = c.describe(release)
	c.config.Progress(fmt.Sprintf("%d nodes (Cassandra %s) are ready after %.1f s; all %d links between them carry bytes",
		nodes, release, time.Since(began).Seconds(), len(c.links.All())))
	return nil
}

// prepare makes the network, the links and the nodes' places in them; no container yet.
func (c *Cluster) prepare(ctx context.Context) (err error) {
	local, err := c.config.local().WithDefaults()
	if err != nil {
		return err
	}
	if c.config.LogDir, err = local.MakeLogDir("docker-" + c.id); err != nil {
		return err
	}
	if c.bridge, err = makeBridge(ctx, c.cli, "fencepost-"+c.id, c.labels); err != nil {
		return err
	}
	for i, ip := range c.bridge.ips {
		c.nodes = append(c.nodes, newNode(c, i, ip))
	}
	return c.connect()
}

// connect makes the links, and notes for each node which connections lead into them.
func (c *Cluster) connect() error {
	gateway := c.bridge.gateway.String()
	err := c.nodes.Mesh(c.links, cluster.MeshSpec{Gateway: gateway, Port: cluster.InternodePort, Seed: c.config.Seed}, func(from *node, to, proxy netip.AddrPort) error {
		from.redirects = append(from.redirects, redirect{to, proxy})
		return nil
	})
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return &GatewayError{Gateway: gateway, Err: syscall.EADDRNOTAVAIL}
	}
	return err
}

// carry returns when every link has carried bytes both ways.
func (c *Cluster) carry(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, carryTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var silent []string
		for _, l := range c.links.All() {
			if n := l.Counters(); n.ConnsOpened == 0 || n.Up.PassedBytes == 0 || n.Down.PassedBytes == 0 {
				silent = append(silent, l.Name())
			}
		}
		if len(silent) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &LinksError{Silent: silent, Gateway: c.bridge.gateway.String(), Subnet: c.bridge.subnet.String()}
		}
	}
}

func (c *Cluster) describe(release string) map[string]string {
	return map[string]string{
		"backend": "docker", "cassandra": release, "image": c.config.Image,
		"redirect": "nftables, by a container in each node's network namespace",
		"docker":   "API " + c.cli.ClientVersion(), "paxos_variant": c.config.PaxosVariant,
		"nodes": strconv.Itoa(nodes), "heap_mib": strconv.Itoa(c.config.HeapMiB), "cores": strconv.Itoa(runtime.NumCPU()),
		"commit_log": cluster.CommitLogBatch + ", in memory",
	}
}

// Nodes returns n1, n2, n3.
func (c *Cluster) Nodes() []cluster.Node { return c.nodes.All() }

// Node returns the node of that name.
func (c *Cluster) Node(name string) (cluster.Node, bool) { return c.nodes.Named(name) }

// Links holds the internode links.
func (c *Cluster) Links() *link.Fabric { return c.links }

// CQLPort is 9042.
func (c *Cluster) CQLPort() int { return cqlPort }

// Info describes the cluster: backend, cassandra (as the nodes say), image, docker,
// redirect, paxos_variant, nodes, heap_mib, cores, commit_log.
func (c *Cluster) Info() map[string]string { return maps.Clone(c.info) }

// WaitHealthy returns when all nodes are ready and see each other.
func (c *Cluster) WaitHealthy(ctx context.Context) error {
	return c.nodes.Each(func(n *node) error { return n.Healthy(ctx) })
}

// Close removes the containers, the network, the volumes and the links. The logs stay.
func (c *Cluster) Close(context.Context) error {
	c.closeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		for _, n := range c.nodes {
			n.Abandon()
		}
		errs := []error{remove(ctx, c.cli, c.id)}
		for _, n := range c.nodes {
			errs = append(errs, n.AwaitGone(ctx))
		}
		c.closeErr = errors.Join(append(errs, c.links.Close(), c.cli.Close())...)
	})
	return c.closeErr
}

const (
	// DefaultImage is the official image of the version that the project is tested with.
	DefaultImage = "cassandra:" + cluster.DefaultRelease
	// ImageEnv names another image.
	ImageEnv = "FENCEPOST_IMAGE"

	nodes   = 3
	cqlPort = 9042
)

// Image is what ImageEnv says, or DefaultImage.
func Image() string {
	if image := os.Getenv(ImageEnv); image != "" {
		return image
	}
	return DefaultImage
}

// Config says what Start starts. The zero value is three nodes of the official image
// with Paxos v2.
type Config struct {
	// Image is the nodes' image; default Image(). It must be made as the official one is:
	// configuration in /etc/cassandra, data in /var/lib/cassandra, CASSANDRA_SEEDS and so on.
	Image string
	// PaxosVariant is one of cluster.PaxosVariants; default v2.
	PaxosVariant string
	// HeapMiB is each node's heap; default 512, at least 256.
	HeapMiB int
	// LogDir receives n1.log …; default: a new directory in the cache's logs/.
	LogDir string
	// Seed seeds the links' random numbers.
	Seed uint64
	// StartTimeout bounds the start, without pulling the image; default 5 minutes.
	StartTimeout time.Duration
	// Progress is told, in words for a person, what is going on; nil: nobody is.
	Progress func(string)
	// Logger receives what goes wrong later, e.g. a crash; default slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Image == "" {
		c.Image = Image()
	}
	l, err := c.local().WithDefaults()
	c.PaxosVariant, c.HeapMiB, c.StartTimeout, c.Progress, c.Logger = l.PaxosVariant, l.HeapMiB, l.StartTimeout, l.Progress, l.Logger
	return c, err
}

// local is what it shares with the local backend.
func (c Config) local() cluster.LocalConfig {
	return cluster.LocalConfig{
		PaxosVariant: c.PaxosVariant, HeapMiB: c.HeapMiB, LogDir: c.LogDir, StartTimeout: c.StartTimeout, Progress: c.Progress, Logger: c.Logger,
	}
}

// Where the official image keeps its data and its configuration.
const (
	dataDir   = "/var/lib/cassandra"
	commitLog = dataDir + "/commitlog"
	confDir   = "/etc/cassandra"
)

// environment is a node's: what the official image's entrypoint writes over
// cassandra.yaml, and what Cassandra's own start script reads.
func (c Config) environment(ip string, all []string) map[string]string {
	return map[string]string{
		"CASSANDRA_CLUSTER_NAME":          "fencepost",
		"CASSANDRA_SEEDS":                 strings.Join(all, ","),
		"CASSANDRA_LISTEN_ADDRESS":        ip,
		"CASSANDRA_BROADCAST_ADDRESS":     ip,
		"CASSANDRA_RPC_ADDRESS":           ip,
		"CASSANDRA_BROADCAST_RPC_ADDRESS": ip,
		"CASSANDRA_ENDPOINT_SNITCH":       "SimpleSnitch",
		// In pairs; the second is heeded by CMS alone.
		"MAX_HEAP_SIZE": fmt.Sprintf("%dM", c.HeapMiB),
		"HEAP_NEWSIZE":  fmt.Sprintf("%dM", c.HeapMiB/4),
		// What makes a start take seconds instead of minutes.
		"JVM_EXTRA_OPTS": "-Dcassandra.ring_delay_ms=2000 -Dcassandra.skip_wait_for_gossip_to_settle=0 " +
			"-Dcassandra.memtable.row_overhead_size=180 -Djava.net.preferIPv4Stack=true",
	}
}
