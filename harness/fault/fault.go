package fault

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"fencepost/harness/cluster"
	"fencepost/harness/fleet"
	"fencepost/harness/link"
)

// OpTimeout bounds one operation of a fault (not the time that it is in force).
const OpTimeout = 30 * time.Second

// RestartTimeout bounds the restart of a node, which takes 10 s on an idle machine.
const RestartTimeout = 120 * time.Second

// Spec is a fault as scenario files write it.
type Spec struct {
	// Fault is the name: see Names.
	Fault string `yaml:"fault"`
	// Targets are nodes (n1), workers (w1), random-node, random-worker or coordinator.
	Targets []string `yaml:"targets"`
	// Mode is how a cut treats bytes: stall (hold them and deliver at heal, as
	// TCP does; default) or drop (discard, and close at heal).
	Mode string `yaml:"mode,omitempty"`
}

// Random targets, resolved when the plan is made.
const (
	RandomNode   = "random-node"
	RandomWorker = "random-worker"
)

// Coordinator as a target is the node through which the clients' requests for
// the run's first lock go, found when the fault is injected: a fault of another
// node may leave a single lock's clients untouched.
const Coordinator = "coordinator"

// Links switches links' modes. The fabric does it; a known-broken variant of the
// harness does not.
type Links interface {
	Set(ctx context.Context, links []*link.Link, d link.Dir, m link.Mode) error
}

// Env is what faults act on.
type Env struct {
	Cluster cluster.Cluster
	Fleet   *fleet.Fleet
	// WorkerLinks are the links worker->node.
	WorkerLinks *link.Fabric
	Links       Links
	// Read makes a SERIAL read with the node as coordinator, to see whether
	// consensus is reachable through it.
	Read func(ctx context.Context, node string) error
}

// Evidence is what a probe found.
type Evidence struct {
	Proven bool
	Text   string
}

// Active is a fault in force.
type Active interface {
	// Probe looks whether the fault bites; called once, before Heal.
	Probe(ctx context.Context) Evidence
	// Heal ends the fault and returns when it is over.
	Heal(ctx context.Context) error
}

// Fault is a fault that can be put in force.
type Fault interface {
	// Kind is what its targets are.
	Kind() TargetKind
	Inject(ctx context.Context, env *Env, targets []string) (Active, error)
}

// TargetKind is node or worker.
type TargetKind string

// Target kinds.
const (
	Node   TargetKind = "node"
	Worker TargetKind = "worker"
)

// entry is one row of the table of faults.
type entry struct {
	about string
	make  func(Spec) (Fault, error)
}

// table is all faults by name.
var table = map[string]entry{
	"partition": {"cut nodes off from the other nodes, both ways; clients still reach them", func(s Spec) (Fault, error) {
		m, err := cutMode(s.Mode)
		return partition{m}, err
	}},
	"partition-client": {"cut workers off from every node of the lock store, both ways; they still reach the sink", func(s Spec) (Fault, error) {
		m, err := cutMode(s.Mode)
		return clientPartition{m}, err
	}},
	"lost-replies": {"requests of workers to the lock store arrive and are executed, the answers are dropped", plain(lostReplies{})},
	"kill-worker":  {"SIGKILL worker processes; started again as a new life at heal", plain(killWorker{})},
	"pause-worker": {"SIGSTOP worker processes, SIGCONT at heal", plain(pauseWorker{})},
	"kill-node":    {"SIGKILL Cassandra nodes; started again at heal", plain(killNode{})},
	"slow-job":     {"a client stays in its critical section for the trigger's hold", plain(slowJob{})},
}

func plain(f Fault) func(Spec) (Fault, error) {
	return func(s Spec) (Fault, error) {
		if s.Mode != "" {
			return nil, fmt.Errorf("fault %s has no mode", s.Fault)
		}
		return f, nil
	}
}

// Names lists the faults.
func Names() []string {
	names := make([]string, 0, len(table))
	for n := range table {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// About says what a fault does.
func About(name string) string { return table[name].about }

// New makes the fault that s names, or says what is wrong with s.
func New(s Spec) (Fault, error) {
	e, ok := table[s.Fault]
	if !ok {
		return nil, fmt.Errorf("unknown fault %q; the faults are %s", s.Fault, strings.Join(Names(), ", "))
	}
	f, err := e.make(s)
	if err != nil {
		return nil, err
	}
	if len(s.Targets) == 0 {
		return nil, fmt.Errorf("fault %s has no targets", s.Fault)
	}
	for _, t := range s.Targets {
		if err := checkTarget(f.Kind(), t); err != nil {
			return nil, fmt.Errorf("fault %s: %w", s.Fault, err)
		}
	}
	return f, nil
}

func checkTarget(kind TargetKind, t string) error {
	prefix, random := "n", RandomNode
	if kind == Worker {
		prefix, random = "w", RandomWorker
	}
	if t == random || kind == Node && t == Coordinator || len(t) > 1 && strings.HasPrefix(t, prefix) && strings.Trim(t[1:], "0123456789") == "" {
		return nil
	}
	return fmt.Errorf("target %q is not a %s (such as %s1, or %s)", t, kind, prefix, random)
}

func cutMode(mode string) (link.Kind, error) {
	switch mode {
	case "", "stall":
		return link.Stall, nil
	case "drop":
		return link.Drop, nil
	}
	return link.Stall, fmt.Errorf("unknown mode %q; the modes are stall, drop", mode)
}

func (e *Env) nodes(names []string) ([]cluster.Node, error) {
	var out []cluster.Node
	for _, name := range names {
		n, ok := e.Cluster.Node(name)
		if !ok {
			return nil, fmt.Errorf("no node %s in this cluster", name)
		}
		out = append(out, n)
	}
	return out, nil
}

func (e *Env) workers(names []string) ([]*fleet.Worker, error) {
	var out []*fleet.Worker
	for _, name := range names {
		w, ok := e.Fleet.Worker(name)
		if !ok {
			return nil, fmt.Errorf("no worker %s in this run", name)
		}
		out = append(out, w)
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
