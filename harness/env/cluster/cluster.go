package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"fencepost/core/store/cassandra"
	"fencepost/harness/env/link"
	"fencepost/harness/env/login"
)

// State is what the harness has done to a node, or found out about it.
type State string

const (
	// Running: the process runs and has answered on its CQL port.
	Running State = "running"
	// Starting: the process runs, its CQL port has not answered yet.
	Starting State = "starting"
	// Paused: stopped by SIGSTOP.
	Paused State = "paused"
	// Stopped: ended by SIGTERM, or not started yet.
	Stopped State = "stopped"
	// Killed: ended by SIGKILL from here.
	Killed State = "killed"
	// Crashed: ended although nobody here asked for it.
	Crashed State = "crashed"
)

// Node is one Cassandra node. Safe for concurrent use; an operation that does
// not fit the node's state is a *[StateError].
type Node interface {
	// Name is the node's name: n1, n2, n3.
	Name() string
	// IP is the node's address for CQL, and its identity in the ring.
	IP() string
	// State is the node's present state.
	State() State
	// PID is the process id as the tool sees it, 0 without a process.
	PID() int
	// ProcessState is the letter in /proc/PID/stat (R, S, T …), "" without a process.
	ProcessState() string
	// Kill sends SIGKILL and returns when the process is gone. A paused node can be killed.
	Kill(ctx context.Context) error
	// Pause sends SIGSTOP and returns when every thread of the process is stopped.
	Pause(ctx context.Context) error
	// Resume sends SIGCONT and returns when the process runs again.
	Resume(ctx context.Context) error
	// Stop sends SIGTERM, which makes Cassandra drain, and returns when the process is
	// gone. One that is not when ctx is over is killed, which is an error.
	Stop(ctx context.Context) error
	// Standing says that every thread of the process is stopped, by an error if not.
	Standing() error
	// Start starts a node that has no process, on its old data, and returns when
	// its CQL port answers. If ctx is over before, the node goes on starting.
	Start(ctx context.Context) error
	// WaitReady returns when an LWT at QUORUM through this node works.
	WaitReady(ctx context.Context) error
	// LogFile is the file with everything the node has printed, over all its lives.
	LogFile() string
}

// Cluster is a set of nodes and the links between them.
type Cluster interface {
	// Nodes returns all nodes, in order of their names.
	Nodes() []Node
	// Node returns the node of that name.
	Node(name string) (Node, bool)
	// Links holds the directed internode links: n1->n2, n1->n3 …
	Links() *link.Fabric
	// CQLPort is the port of every node's native protocol.
	CQLPort() int
	// Info describes the cluster for reports: backend, versions, paxos_variant …
	Info() map[string]string
	// WaitHealthy returns when every node sees every other and an LWT at QUORUM
	// works through each of them.
	WaitHealthy(ctx context.Context) error
	// Close ends all nodes and links and removes their data. It is idempotent.
	// Everything is dead when it returns, whatever ctx says.
	Close(ctx context.Context) error
}

// Access is how the harness reaches a cluster, and how it makes keyspaces there.
type Access struct {
	// Config is a session's past all links, without a keyspace.
	Config cassandra.Config
	// Login is what workers have to show or to know; nil: nothing.
	Login *login.Login
	// Replication is that of a keyspace of the harness's own.
	Replication cassandra.Replication
	// Shared: others have keyspaces there too, so one that exists is not ours.
	Shared bool
	// Notes are what weakens a verdict that is found there.
	Notes []string
}

// accessible is a Cluster that is not simply reached at its nodes' IPs.
type accessible interface {
	Access() Access
	Addr(node string) string
}

// AccessTo says how a cluster is reached.
func AccessTo(c Cluster) Access {
	if a, ok := c.(accessible); ok {
		return a.Access()
	}
	return direct(c)
}

// maxReplicas is the number of replicas of a row in a data centre that has so many nodes.
const maxReplicas = 3

// direct is the access to a cluster at its nodes' IPs.
func direct(c Cluster) Access {
	var ips []string
	for _, n := range c.Nodes() {
		ips = append(ips, n.IP())
	}
	return Access{
		Config:      cassandra.Config{ContactPoints: ips, Port: c.CQLPort()},
		Replication: Layout{len(ips)}.replication(maxReplicas),
	}
}

// AddrOf is host:port at which a node's native protocol is reached.
func AddrOf(c Cluster, n Node) string {
	if a, ok := c.(accessible); ok {
		return a.Addr(n.Name())
	}
	return net.JoinHostPort(n.IP(), strconv.Itoa(c.CQLPort()))
}

// ErrState is what every [StateError] is.
var ErrState = errors.New("the node's state does not allow this")

// StateError says that an operation does not fit a node's state.
type StateError struct {
	Node  string
	Op    string // e.g. "pause"
	State State
}

func (e *StateError) Error() string {
	hint := ""
	if e.State == Paused {
		hint = "; resume it first"
	}
	return fmt.Sprintf("cluster: cannot %s %s: it is %s%s", e.Op, e.Node, e.State, hint)
}

// Is reports whether target is ErrState.
func (e *StateError) Is(target error) bool { return target == ErrState }

// ExitError says that a node's process ended when it should not have.
type ExitError struct {
	Node string
	// Status is how it ended, e.g. "exit status 3" or "signal: killed".
	Status string
	// LogFile holds its whole output; Tail is the end of it, errors first.
	LogFile string
	Tail    []string
}

func (e *ExitError) Error() string {
	msg := fmt.Sprintf("cluster: %s ended by itself (%s); its log is %s", e.Node, e.Status, e.LogFile)
	if len(e.Tail) > 0 {
		msg += "\n    " + strings.Join(e.Tail, "\n    ")
	}
	return msg
}

// ConfigError says that a LocalConfig is not usable.
type ConfigError struct {
	Field string
	Err   error
}

func (e *ConfigError) Error() string { return fmt.Sprintf("cluster: %s: %v", e.Field, e.Err) }

func (e *ConfigError) Unwrap() error { return e.Err }

// MemoryError says that the machine has too little free memory for the nodes.
type MemoryError struct {
	NeedMiB, AvailableMiB int
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("cluster: %d MiB of memory are available, the nodes need about %d MiB: end other programs, or use a smaller heap or an external cluster",
		e.AvailableMiB, e.NeedMiB)
}

// Layout is how many nodes each data centre of a cluster has: of {3, 1} n1, n2 and n3 are
// in dc1, and n4 is in dc2. Clients are in dc1 and agree there. A single number is a
// cluster that knows no data centres.
type Layout []int

// maxNodes bounds a cluster.
const maxNodes = 9

// Plain is the layout of a cluster of which nothing is said: three nodes.
func Plain() Layout { return Layout{3} }

// ParseLayout reads what String writes.
func ParseLayout(s string) (Layout, error) {
	var l Layout
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q: numbers of nodes with commas between, such as 3,1", s)
		}
		l = append(l, n)
	}
	return l, l.Check()
}

// String is such as 3,1.
func (l Layout) String() string {
	words := make([]string, len(l))
	for i, n := range l {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

// Words says it to a person.
func (l Layout) Words() string {
	if len(l) < 2 {
		return fmt.Sprintf("%d nodes in one data centre", l.Nodes())
	}
	words := make([]string, len(l))
	for i, n := range l {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, " + ") + " nodes in " + strconv.Itoa(len(l)) + " data centres"
}

// Nodes is the number of nodes.
func (l Layout) Nodes() int {
	sum := 0
	for _, n := range l {
		sum += n
	}
	return sum
}

// Equal reports whether two clusters are laid out alike.
func (l Layout) Equal(other Layout) bool { return slices.Equal(l, other) }

// Check says what is wrong with it.
func (l Layout) Check() error {
	switch {
	case len(l) == 0:
		return errors.New("no data centre")
	case slices.Min(l) < 1:
		return fmt.Errorf("%s: a data centre has at least 1 node", l)
	case l.Nodes() > maxNodes:
		return fmt.Errorf("%s: %d nodes, at most %d", l, l.Nodes(), maxNodes)
	}
	return nil
}

// Datacenter is that of the i-th node, from 0; "" without such a node or data centres.
func (l Layout) Datacenter(i int) string {
	if len(l) < 2 || i < 0 {
		return ""
	}
	for dc, n := range l {
		if i < n {
			return datacenter(dc)
		}
		i -= n
	}
	return ""
}

func datacenter(i int) string { return "dc" + strconv.Itoa(i+1) }

// rack is the only one of a data centre.
const rack = "rack1"

// rackdc is the text of the i-th node's cassandra-rackdc.properties, "" if it needs none.
func (l Layout) rackdc(i int) string {
	dc := l.Datacenter(i)
	if dc == "" {
		return ""
	}
	return "dc=" + dc + "\nrack=" + rack + "\n"
}

// replication has factor replicas in each data centre, as far as there are nodes.
func (l Layout) replication(factor int) cassandra.Replication {
	if len(l) < 2 {
		return cassandra.Replication{Class: "SimpleStrategy", Factor: min(factor, l.Nodes())}
	}
	dcs := map[string]int{}
	for i, n := range l {
		dcs[datacenter(i)] = min(factor, n)
	}
	return cassandra.Replication{DCs: dcs}
}

// login is what clients have to know: in which data centre they agree; nil: nothing.
func (l Layout) login() *login.Login {
	if len(l) < 2 {
		return nil
	}
	return &login.Login{LocalDC: datacenter(0), LocalSerial: true}
}

// laidOut is a Cluster that may have several data centres.
type laidOut interface{ Layout() Layout }

// LayoutOf is the layout of a cluster.
func LayoutOf(c Cluster) Layout {
	if l, ok := c.(laidOut); ok {
		return l.Layout()
	}
	return Layout{len(c.Nodes())}
}

// DatacenterOf is a node's data centre, "" if the cluster knows none.
func DatacenterOf(c Cluster, node string) string {
	l := LayoutOf(c)
	return l.Datacenter(slices.IndexFunc(c.Nodes(), func(n Node) bool { return n.Name() == node }))
}
