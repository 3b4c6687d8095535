package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/env/osproc"
	"fencepost/harness/env/sandbox"
	"fencepost/harness/record/history"
)

const (
	// startTimeout bounds the start until all servers are healthy.
	startTimeout = time.Minute
	closeTimeout = 30 * time.Second
)

var errStartTimeout = errors.New("the servers took too long to start; is the machine overloaded?")

// Config says how servers are started.
type Config struct {
	// CacheDir overrides cluster.CacheDir().
	CacheDir string
	// LogDir receives n1.log …; default as of cluster.LocalConfig.
	LogDir string
	// Seed seeds the links' random numbers.
	Seed uint64
	// First is the first server's number on the network, from 0: so several stores can be on one.
	First int
	// Clocks: the servers' wall clocks can be set (SetClock).
	Clocks bool
	// Progress is told, in words for a person, what is going on; nil: nobody is.
	Progress func(string)
	// Logger receives what goes wrong later; default slog.Default().
	Logger *slog.Logger
}

// Cluster is the servers of a store.
type Cluster struct {
	Kind     Kind
	Site     Site // but for its Primary: see site
	config   Config
	program  Program
	faketime string // the library that sets clocks, "" without
	mu       sync.Mutex
	scratch  *cluster.Scratch
	links    *link.Fabric
	nodes    cluster.NodeSet[*server]
	cluster.Watchers

	closeOnce sync.Once
	closeErr  error
}

var _ cluster.Cluster = (*Cluster)(nil)

// server is one process on a sandbox host.
type server struct {
	*cluster.Machine
	host    *sandbox.Host
	dir     string
	command func(ctx context.Context) (*exec.Cmd, error)
}

// Start starts a store's servers in the sandbox's network and returns when they serve. On
// error nothing is left running.
func Start(ctx context.Context, network *sandbox.Network, k Kind, config Config) (*Cluster, error) {
	if config.Progress == nil {
		config.Progress = func(string) {}
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.CacheDir == "" {
		dir, err := cluster.CacheDir()
		if err != nil {
			return nil, err
		}
		config.CacheDir = dir
	}
	program, err := k.Find(ctx, config.CacheDir)
	if err != nil {
		return nil, fmt.Errorf("the servers of %s are not here: run %s: %w", k.Name, k.Fetch, err)
	}
	var faketime string
	if config.Clocks {
		if faketime, err = findFaketime(k, config.CacheDir); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	config.Progress(fmt.Sprintf("starting %s %s, servers: %d …", k.Name, program.Version, k.Servers))
	c := &Cluster{Kind: k, config: config, program: program, faketime: faketime, links: link.NewFabric(link.Options{Logger: config.Logger})}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errStartTimeout)
	defer cancel()
	if err := c.start(ctx, network); err != nil {
		return nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	config.Progress(fmt.Sprintf("%s is ready after %.1f s", k.Name, time.Since(began).Seconds()))
	return c, nil
}

func (c *Cluster) start(ctx context.Context, network *sandbox.Network) (err error) {
	if c.faketime != "" {
		if err := sandbox.MountMemory(sharedMemory, sharedMemorySize); err != nil {
			return err
		}
	}
	if c.scratch, err = cluster.NewScratch(c.config.CacheDir); err != nil {
		return err
	}
	if c.config.LogDir, err = (cluster.LocalConfig{CacheDir: c.config.CacheDir, LogDir: c.config.LogDir}).MakeLogDir(filepath.Base(c.scratch.Dir)); err != nil {
		return err
	}
	c.Site.Port = c.Kind.Port
	for i := range c.Kind.Servers {
		c.Site.IPs = append(c.Site.IPs, cluster.NodeIP(c.config.First+i))
		c.Site.Dirs = append(c.Site.Dirs, filepath.Join(c.scratch.Dir, c.name(i)))
	}
	for i := range c.Kind.Servers {
		n, err := c.prepare(ctx, network, i)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", c.Kind.Name, c.name(i), err)
		}
		c.nodes = append(c.nodes, n)
	}
	for _, p := range c.Kind.Peers {
		m := cluster.MeshSpec{Gateway: sandbox.Gateway, Port: p.Port, Purpose: p.Purpose, Seed: c.config.Seed, Patience: p.Patience}
		if err := c.nodes.Mesh(c.links, m, func(from *server, to, proxy netip.AddrPort) error {
			return from.host.Redirect(to, proxy)
		}); err != nil {
			return err
		}
	}
	if err := c.nodes.Each(func(n *server) error { return n.Start(ctx) }); err != nil {
		return err
	}
	return c.WaitHealthy(ctx)
}

// name is the i-th server's.
func (c *Cluster) name(i int) string { return cluster.NodeName(c.config.First + i) }

// prepare makes a server that has not started yet.
func (c *Cluster) prepare(ctx context.Context, network *sandbox.Network, i int) (_ *server, err error) {
	n := &server{dir: c.Site.Dirs[i]}
	command := func(context.Context, Site) (*exec.Cmd, error) { return c.command(i) }
	if c.Kind.Lay != nil {
		command, err = c.Kind.Lay(ctx, c.config.CacheDir, c.Site, i)
	} else {
		err = c.lay(i)
	}
	if err != nil {
		return nil, err
	}
	n.command = func(ctx context.Context) (*exec.Cmd, error) {
		cmd, err := command(ctx, c.site())
		if err == nil {
			cmd.Env = append(cmd.Env, c.faketimeEnv(i)...)
		}
		return cmd, err
	}
	if c.faketime != "" {
		if err := c.setClock(i, 0); err != nil {
			return nil, err
		}
	}
	name := c.name(i)
	host, err := network.AddHost(name, c.Site.IPs[i])
	if err != nil {
		return nil, err
	}
	n.host = host
	n.Machine = cluster.NewMachine(cluster.MachineSpec{
		Name: name, IP: c.Site.IPs[i], Port: c.Kind.Port, EndSignal: c.Kind.EndSignal, LogFile: filepath.Join(c.config.LogDir, name+".log"), Logger: c.config.Logger,
		Begin: n.begin, Ended: c.Tell, Ready: func(ctx context.Context) error { return c.Kind.Ready(ctx, c.site(), i) },
	})
	return n, nil
}

// lay writes a server's files.
func (c *Cluster) lay(i int) error {
	if err := os.MkdirAll(c.Site.DataDir(i), 0o700); err != nil {
		return err
	}
	if c.Kind.Files == nil {
		return nil
	}
	for name, text := range c.Kind.Files(c.site(), i) {
		if err := os.WriteFile(filepath.Join(c.Site.Dirs[i], name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// command is a life of a server. One that has lost its data gets its files again.
func (c *Cluster) command(i int) (*exec.Cmd, error) {
	if stored, err := c.Stored(c.name(i)); err != nil {
		return nil, err
	} else if !stored {
		if err := c.lay(i); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(c.program.Path, slices.Concat(c.program.Args, c.Kind.Args(c.site(), i))...)
	cmd.Env = append(cluster.NodeEnv(), c.program.Env...)
	return cmd, nil
}

// begin starts the process.
func (n *server) begin(ctx context.Context, _ int64, ended func(*history.ProcessLife)) (cluster.Life, error) {
	cmd, err := n.command(ctx)
	if err != nil {
		return nil, err
	}
	cmd.Dir = n.dir
	return osproc.Start(osproc.Spec{Kind: history.LifeServer, Name: n.Name(), Command: cmd, Log: n.LogFile(), Start: n.host.Start, Ended: ended})
}

// Nodes returns n1, n2 …
func (c *Cluster) Nodes() []cluster.Node { return c.nodes.All() }

// Node returns the server of that name.
func (c *Cluster) Node(name string) (cluster.Node, bool) { return c.nodes.Named(name) }

// Links holds the directed links between servers.
func (c *Cluster) Links() *link.Fabric { return c.links }

// CQLPort is the port of clients.
func (c *Cluster) CQLPort() int { return c.Kind.Port }

// Info describes the servers: backend, store, its version under the store's name, nodes.
func (c *Cluster) Info() map[string]string {
	info := map[string]string{
		"backend": "local", "store": c.Kind.Name, c.Kind.Name: c.program.Version, "nodes": strconv.Itoa(len(c.nodes)),
	}
	if c.faketime != "" {
		info[Faketime] = "preloaded"
	}
	return info
}

// WaitHealthy returns when every server serves.
func (c *Cluster) WaitHealthy(ctx context.Context) error {
	return c.nodes.Each(func(n *server) error { return n.WaitReady(ctx) })
}

// Close kills all servers and removes hosts, links and data. The logs stay.
func (c *Cluster) Close(context.Context) error {
	c.closeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		errs := []error{c.nodes.Kill(ctx)}
		for _, n := range c.nodes {
			errs = append(errs, n.host.Close())
		}
		errs = append(errs, c.links.Close())
		if c.faketime != "" {
			errs = append(errs, sandbox.Unmount(sharedMemory))
		}
		if c.scratch != nil {
			errs = append(errs, c.scratch.Close())
		}
		c.closeErr = errors.Join(errs...)
	})
	return c.closeErr
}

// Read makes a read through a server that must not be stale.
func (c *Cluster) Read(ctx context.Context, node string) error {
	for i, n := range c.nodes {
		if n.Name() == node {
			return c.Kind.Read(ctx, c.site(), i)
		}
	}
	return fmt.Errorf("no node %s", node)
}

// Secret is the file with what programs show to a server at a login, "" if they show nothing.
func (c *Cluster) Secret() string {
	if c.Kind.Secret == nil {
		return ""
	}
	return c.Kind.Secret(c.site())
}

// Hello is what the server with this IP answers.
func (c *Cluster) Hello(ip string) []byte { return c.Kind.Hello(slices.Index(c.Site.IPs, ip)) }

// NoQuorum reports an error of Read by which the server says that it sees no quorum.
func (c *Cluster) NoQuorum(err error) bool { return c.Kind.NoQuorum != nil && c.Kind.NoQuorum(err) }

// Leader is the address of the server that decides about what a run keeps under its name.
func (c *Cluster) Leader(ctx context.Context, run string) (ip string, err error) {
	i, err := c.Kind.Leader(ctx, c.site(), run)
	if err != nil {
		return "", fmt.Errorf("leader of %s: %w", c.Kind.Name, err)
	}
	return c.Site.IPs[i], nil
}
