package cluster

import (
	"context"

	"fencepost/harness/env/link"
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
