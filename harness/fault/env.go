package fault

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/gateway"
	"fencepost/harness/env/link"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/sinks"
)

// Env is what faults act on, and what the harness sees of it.
type Env struct {
	Cluster cluster.Cluster
	Fleet   *fleet.Fleet
	// WorkerLinks are the links worker->node.
	WorkerLinks *link.Fabric
	// Sink is the run's sink, nil if it is not a process of its own.
	Sink Service
	// Rival opens sessions of somebody else in the sink's database; nil: it is in none.
	Rival func(ctx context.Context) (sinks.Rival, error)
	// Admin opens sessions of that database's administrator; nil as Rival.
	Admin func(ctx context.Context) (sinks.Admin, error)
	// Proxy is before a sink that is reached by HTTP, if a fault of the plan needs it.
	Proxy *gateway.Gateway
	// TLS is the configuration of a connection to the node with this IP; nil, or a nil
	// result: no TLS.
	TLS func(ip string) *tls.Config
	// Inert is the family of faults whose actions this harness leaves out, though it
	// says that it took them: a known-broken variant. Their proofs stay as they are.
	Inert Family

	// Hello is what the node with an IP answers in whatever state, as long as it runs; nil: Cassandra's.
	Hello func(ip string) []byte
	// SpeaksFirst: a node says something on each new connection, before it is asked.
	SpeaksFirst bool
	// Read makes a SERIAL read with the node as coordinator, to see whether consensus
	// is reachable through it; NoQuorum reports an error by which the coordinator
	// itself says that it is not. ReadAs names what another store has instead of a
	// SERIAL read, for evidence; "": it is one.
	Read     func(ctx context.Context, node string) error
	ReadAs   string
	NoQuorum func(error) bool
	// SinkGreeting is what a sink that is a process answers, with whatever, before it
	// knows who asks.
	SinkGreeting []byte
	// Spoken is how many requests with statements a link was given so far, and how many
	// answers to such, whatever became of them on it: no heartbeats, no setting up of
	// connections. Unknown (false) of a link whose protocol nobody reads.
	Spoken func(l *link.Link) (requests, answers int64, known bool)
	// Stamps reads what workers have written with their wall clocks; Stay what the
	// rows say of a client's claim on a lock or a job. Nil: such a system's rows are
	// not known.
	Stamps func(ctx context.Context) ([]Stamp, error)
	Stay   func(ctx context.Context, key string) (Claim, error)

	// Store is the servers of a store other than Cassandra; nil: the nodes are Cassandra's.
	Store Store
	// Queues are those of the run's jobs; nil: they are in none.
	Queues QueueRows

	claims *claims
	// capacity is how many jobs a second ended under the last saturate; shared by all injections.
	capacity *atomic.Uint64
	fault    string
	hit      *Hit
}

// Hit is the client at whose armed point a fault comes, and for how long it shall stay there.
type Hit struct {
	Proc, Key string
	Hold      time.Duration
}

// Ready makes an Env that is filled in fit for use.
func (e *Env) Ready() *Env {
	e.claims, e.capacity = &claims{}, new(atomic.Uint64)
	return e
}

// For is the Env of one injection of a fault; hit is nil if it comes at an instant.
func (e *Env) For(fault string, hit *Hit) *Env {
	out := *e
	out.fault, out.hit = fault, hit
	return &out
}

// readThrough names what Read does through a node.
func (e *Env) readThrough(node string) string {
	return cmp.Or(e.ReadAs, "a SERIAL read") + " through " + node
}

// inert reports whether the fault at hand does nothing.
func (e *Env) inert() bool {
	return e.Inert != "" && (e.Inert == EveryFamily || kinds[e.fault].Family == e.Inert)
}

// do takes an action of the fault; a fault changes things by do and by set alone.
func (e *Env) do(action func() error) error {
	if e.inert() {
		return nil
	}
	return action()
}

// set switches ends of links.
func (e *Env) set(ctx context.Context, ends []link.End, m link.Mode) error {
	if e.inert() {
		return link.Settle(ctx, ends) // not nothing: what is under way counts before a switch, as with any other
	}
	return link.SetEnds(ctx, ends, m)
}

// Hold is for how long the client that was hit is to stay: what a slow job does.
func (e *Env) Hold() (hold time.Duration) {
	if e.hit == nil || !kinds[e.fault].Needs.Hold {
		return e.held()
	}
	_ = e.do(func() error { hold = e.held(); return nil })
	return hold
}

func (e *Env) held() time.Duration {
	if e.hit == nil {
		return 0
	}
	return e.hit.Hold
}

func (e *Env) nodes(names []string) ([]cluster.Node, error) {
	return found(names, e.Cluster.Node, "no node %s in this cluster")
}

func (e *Env) workers(names []string) ([]*fleet.Worker, error) {
	return found(names, e.Fleet.Worker, "no worker %s in this run")
}

func found[T any](names []string, get func(string) (T, bool), missing string) ([]T, error) {
	var out []T
	for _, name := range names {
		one, ok := get(name)
		if !ok {
			return nil, fmt.Errorf(missing, name)
		}
		out = append(out, one)
	}
	return out, nil
}

// others are the nodes that are not named.
func (e *Env) others(names []string) []string {
	var out []string
	for _, n := range e.Cluster.Nodes() {
		if !slices.Contains(names, n.Name()) {
			out = append(out, n.Name())
		}
	}
	return out
}

// SinkTarget is the target of faults of the sink itself, where it is a service.
const SinkTarget = "sink"

// Service is the sink's process; *osproc.Service is one.
type Service interface {
	Addr() string
	PID() int
	// Standing is how many processes it has, if they all stand still.
	Standing() (int, error)
	Kill(ctx context.Context) error
	Start(ctx context.Context) error
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

var errNoService = errors.New("this run's sink is not a separate process, so it cannot be killed or paused")
