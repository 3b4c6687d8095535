package external

import (
	"context"
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
		ContactPoints: ips, Port: cassandra.DefaultPort, Keyspace: Prefix + "probe_" + cluster.NewID(), Dial: c.dial,
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

// Error is why a cluster cannot be used, and what to do about it.
type Error struct {
	// Where is the node's address or name; "" if it is none of a single node.
	Where   string
	Problem string
	Remedy  string
	Cause   error // nil if Problem says it all
}

func (e *Error) Error() string {
	s := "external cluster: "
	if e.Where != "" {
		s += e.Where + ": "
	}
	s += e.Problem
	if e.Cause != nil {
		s += " (" + firstLine(e.Cause) + ")"
	}
	return s + "\n  remedy: " + e.Remedy
}

func (e *Error) Unwrap() error { return e.Cause }

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// ControlError says that a node is not the harness's to do this to.
type ControlError struct{ Node, Op string }

func (e *ControlError) Error() string {
	return fmt.Sprintf("cluster: cannot %s %s: it is a node of an external cluster, which the harness only uses", e.Op, e.Node)
}

// Is reports whether target is cluster.ErrState.
func (e *ControlError) Is(target error) bool { return target == cluster.ErrState }

// connecting says why a connection to a node was not made. named: it is at a contact
// point, not where its peers say.
func connecting(where string, l login.Login, named bool, err error) *Error {
	e := &Error{Where: where, Cause: cause(err)}
	switch cassandra.Diagnose(err, l.TLS != nil) {
	case cassandra.NotTrusted:
		e.Problem, e.Remedy = "its certificate is signed by an authority that is not trusted here", "name the file with the authority's certificate (PEM) by --tls-ca"
	case cassandra.OtherName:
		e.Problem, e.Remedy = "its certificate is for another name", "name it in --contact-points by a name that is in its certificate, or give the name that all nodes' certificates have by --tls-server-name"
	case cassandra.BadCertificate:
		e.Problem, e.Remedy = "its certificate does not hold", "renew the certificate, or check this machine's clock; --tls-insecure goes without any verification"
	case cassandra.SpeaksNoTLS:
		e.Problem, e.Remedy = "it does not speak TLS on this port", "leave --tls away, or name the port for TLS in --contact-points (host:port)"
	case cassandra.RefusesTLS:
		e.Problem, e.Remedy = "it refuses the TLS connection", "it may want a client's certificate that it trusts: --tls-cert and --tls-key"
	case cassandra.WantsLogin:
		e.Problem, e.Remedy = "it asks for a login", "--username, and the password in "+PasswordEnv+" or a file named by --password-file"
	case cassandra.WrongLogin:
		e.Problem, e.Remedy = "it refuses user "+l.Username, "check --username, and the password in "+PasswordEnv+" or --password-file"
	case cassandra.MayNotLogin:
		e.Problem, e.Remedy = "user "+l.Username+" may not log in here", "as a superuser: ALTER ROLE "+quoted(l.Username)+" WITH LOGIN = true; and see whether the role may use this data centre"
	case cassandra.OtherProtocol:
		e.Problem, e.Remedy = "it does not speak version 4 of the native protocol", "fencepost needs "+minVersion
	case cassandra.Unreachable:
		e.Problem = "it cannot be reached"
		e.Remedy = "check host and port in --contact-points, that the node runs, and firewalls between here and there"
		if !named {
			e.Remedy = "this is the address that the cluster announces for it: if it has another one from here, name that in --contact-points too (host:port)"
		}
	case cassandra.SpeaksNoCQL:
		e.Problem, e.Remedy = "it takes the connection but does not answer in the native protocol", "it may want TLS: --tls; or this is the port of something else"
	case cassandra.EndsTLS:
		e.Problem, e.Remedy = "it ends the connection before TLS is agreed on", "leave --tls away, or check that the port is one for TLS; it may also want a client's certificate: --tls-cert and --tls-key"
	default:
		e.Problem, e.Remedy = "no connection", "see that cqlsh connects from this machine with the same address, user and certificates"
	}
	return e
}

// using says why a statement through a node failed.
func using(where, what string, l login.Login, err error) *Error {
	e := &Error{Where: where, Cause: cause(err)}
	user := l.Username
	if user == "" {
		user = "anonymous"
	}
	switch cassandra.Refused(err) {
	case cassandra.Unauthorized:
		e.Problem = what + ": user " + user + " may not do that"
		e.Remedy = "as a superuser: " + Grant(user)
	case cassandra.NoQuorum:
		e.Problem = what + ": too few replicas answer"
		e.Remedy = "a run must begin on a healthy cluster: see nodetool status, start what is down, or wait until it is less busy"
	case cassandra.Invalid:
		e.Problem = what + ": the cluster refuses such statements"
		e.Remedy = "fencepost needs conditional statements (IF) and reads at SERIAL, keyspaces and tables: use " + minVersion
	default:
		e.Problem, e.Remedy = what+" failed", "see the node's own log, and that it is not overloaded"
	}
	return e
}

// cause is the innermost error that says something: what is around it is of the
// harness's own making.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		if _, ok := err.(*net.OpError); ok {
			return err // it names the address
		}
		err = inner
	}
}
