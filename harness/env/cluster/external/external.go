package external

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/cluster"
	"fencepost/harness/env/link"
	"fencepost/harness/env/login"
)

// PasswordEnv is the environment variable that may hold the password.
const PasswordEnv = "FENCEPOST_PASSWORD"

// Prefix begins the name of every keyspace that the harness makes.
const Prefix = "fp_"

const (
	connectTimeout = 5 * time.Second
	// requestTimeout bounds one request of a probe, probePoll is the pause before the next.
	requestTimeout = 5 * time.Second
	probePoll      = 100 * time.Millisecond
	closeTimeout   = time.Minute
)

// Grant is what a role needs: who makes a keyspace has every right in it.
func Grant(role string) string {
	return "GRANT CREATE ON ALL KEYSPACES TO " + quoted(role) + ";"
}

// GrantSettings lets a role read the settings that a report names.
func GrantSettings(role string) string {
	return "GRANT SELECT ON TABLE system_views.settings TO " + quoted(role) + ";"
}

func quoted(role string) string { return `"` + strings.ReplaceAll(role, `"`, `""`) + `"` }

// Config says where the cluster is.
type Config struct {
	// ContactPoints are host or host:port of some nodes, or of all.
	ContactPoints []string
	// Login; its LocalDC is the data centre to use, which may be "" if there is one only.
	Login login.Login
	// ConnectTimeout bounds a dial, and each step of a connection's set-up; default 5 s.
	ConnectTimeout time.Duration
	// Progress is told, in words for a person, what is going on; nil: nobody is.
	Progress func(string)
	// Logger takes the driver's own messages; default slog.Default().
	Logger *slog.Logger
}

// Cluster is a cluster that somebody else runs.
type Cluster struct {
	login    login.Login
	base     cassandra.Config // with a keyspace: that of the probes
	repl     cassandra.Replication
	nodes    cluster.NodeSet[*node]
	addrs    map[string]string // by IP
	links    *link.Fabric
	info     map[string]string
	notes    []string
	progress func(string)
	made     bool // the keyspace of the probes

	closeOnce sync.Once
	closeErr  error
}

var _ cluster.Cluster = (*Cluster)(nil)

// Connect finds the nodes, makes sure that each can be used as a run needs it, and
// makes the keyspace of the probes. On error nothing is left.
func Connect(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	ringName, members, err := cfg.find(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{login: names(cfg.Login, members), addrs: map[string]string{}, links: link.NewFabric(link.Options{}), progress: cfg.Progress}
	c.login.LocalDC = members[0].DC
	var ips, versions, where []string
	for i, m := range members {
		n := &node{cluster: c, name: "n" + strconv.Itoa(i+1), ip: m.IP, addr: m.addr}
		c.nodes = append(c.nodes, n)
		c.addrs[m.IP] = m.addr
		ips, versions = append(ips, m.IP), append(versions, m.Version)
		where = append(where, fmt.Sprintf("%s %s", n.name, m.addr))
	}
	slices.Sort(versions)
	c.repl = cassandra.Replication{DCs: map[string]int{c.login.LocalDC: min(3, len(members))}}
	repl, err := c.repl.CQL()
	if err != nil {
		return nil, err
	}
	c.base = cassandra.Config{
		ContactPoints: ips, Port: cassandra.DefaultPort, Keyspace: probeKeyspace(), Dial: c.dial,
		ConnectTimeout: cfg.ConnectTimeout, Logger: cfg.Logger,
	}
	if err := c.login.Apply(&c.base); err != nil {
		return nil, err
	}
	c.info = map[string]string{
		"backend": "external", "cassandra": strings.Join(slices.Compact(versions), ", "), "cluster_name": ringName,
		"nodes": strconv.Itoa(len(members)), "addresses": strings.Join(where, ", "), "datacenter": c.login.LocalDC,
		"replication": repl, "login": c.login.String(),
	}
	cfg.Progress(fmt.Sprintf("cluster %q, data centre %s: %s", ringName, c.login.LocalDC, strings.Join(where, ", ")))
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return c, nil
}

func probeKeyspace() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return Prefix + "probe_" + hex.EncodeToString(b[:])
}

// dial opens a connection to the node with this IP where it is reached.
func (c *Cluster) dial(ctx context.Context, ip string) (net.Conn, error) {
	addr, ok := c.addrs[ip]
	if !ok {
		return nil, fmt.Errorf("%s is none of the nodes in use", ip)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// Nodes returns n1, n2, n3 …
func (c *Cluster) Nodes() []cluster.Node { return c.nodes.All() }

// Node returns the node of that name.
func (c *Cluster) Node(name string) (cluster.Node, bool) { return c.nodes.Named(name) }

// Links is empty: the links between the nodes are not the harness's.
func (c *Cluster) Links() *link.Fabric { return c.links }

// CQLPort is the default port; where a node is reached, Addr says.
func (c *Cluster) CQLPort() int { return cassandra.DefaultPort }

// Addr is host:port at which a node is reached.
func (c *Cluster) Addr(name string) string {
	for _, n := range c.nodes {
		if n.name == name {
			return n.addr
		}
	}
	return ""
}

// Access says how the cluster is reached, with its secrets.
func (c *Cluster) Access() cluster.Access {
	cfg := c.base
	cfg.Keyspace = ""
	l := c.login
	return cluster.Access{Config: cfg, Login: &l, Replication: c.repl, Shared: true, Notes: slices.Clone(c.notes)}
}

// Info describes the cluster: backend, cassandra, cluster_name, nodes, addresses,
// datacenter, replication, login (without what is secret), clocks, and, as far as
// they may be read, paxos_variant and commit_log.
func (c *Cluster) Info() map[string]string { return maps.Clone(c.info) }

// WaitHealthy returns when a conditional update through each node works.
func (c *Cluster) WaitHealthy(ctx context.Context) error {
	return c.nodes.Each(func(n *node) error { return n.WaitReady(ctx) })
}

// Close drops the keyspace of the probes and ends all sessions. The cluster stays.
func (c *Cluster) Close(ctx context.Context) error {
	c.closeOnce.Do(func() {
		for _, n := range c.nodes {
			n.close()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if c.made {
			if err := cassandra.DropKeyspace(ctx, c.base); err != nil {
				c.closeErr = fmt.Errorf("external cluster: keyspace %s is left, drop it by hand: %w", c.base.Keyspace, err)
			}
		}
		c.closeErr = errors.Join(c.closeErr, c.links.Close())
	})
	return c.closeErr
}
