package fault

import (
	"context"
	"crypto/tls"
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

// Spec is a fault as scenario files write it. A parameter that a fault does not
// take is an error.
type Spec struct {
	// Fault is the name: see Names.
	Fault string `yaml:"fault"`
	// Targets are nodes (n1), workers (w1), the sink, random-node, random-worker, all-nodes,
	// all-workers or coordinator.
	Targets []string `yaml:"targets"`
	// Mode is how a cut treats bytes: stall (hold them and deliver at heal, as
	// TCP does; default) or drop (discard, and close at heal).
	Mode string `yaml:"mode,omitempty"`
	// Sense of a one-way partition: out (what the targets send is lost; default)
	// or in (what they are sent).
	Sense string `yaml:"sense,omitempty"`
	// Latency is a one-way delay, Jitter the largest deviation from it.
	Latency time.Duration `yaml:"latency,omitempty"`
	Jitter  time.Duration `yaml:"jitter,omitempty"`
	// Offset is by how much a wall clock is wrong, RatePPM by how many millionths
	// a lease clock runs too fast; both may be negative.
	Offset  time.Duration `yaml:"offset,omitempty"`
	RatePPM int64         `yaml:"rate_ppm,omitempty"`
	// Seed of what the fault draws itself; the plan sets it.
	Seed uint64 `yaml:"seed,omitempty"`
}

// given names the parameters that are set.
func (s Spec) given() []string {
	var out []string
	for _, p := range []struct {
		name string
		set  bool
	}{
		{"mode", s.Mode != ""}, {"sense", s.Sense != ""}, {"latency", s.Latency != 0}, {"jitter", s.Jitter != 0},
		{"offset", s.Offset != 0}, {"rate_ppm", s.RatePPM != 0},
	} {
		if p.set {
			out = append(out, p.name)
		}
	}
	return out
}

// Targets that are resolved when the plan is made.
const (
	RandomNode   = "random-node"
	RandomWorker = "random-worker"
	AllNodes     = "all-nodes"
	AllWorkers   = "all-workers"
)

// WorkerAtPoint as a target is the worker whose client reaches the step's point first, found
// when it does: one that was drawn may not get there while others keep the lock busy.
const WorkerAtPoint = "worker-at-point"

// Coordinator as a target is the node through which the clients' requests for
// the run's first lock go, found when the fault is injected: a fault of another
// node may leave a single lock's clients untouched. A node that does not run is
// passed over.
const Coordinator = "coordinator"

// Links switches links' modes. The fabric does it; a known-broken variant of the
// harness does not.
type Links interface {
	Set(ctx context.Context, ends []link.End, m link.Mode) error
}

// Env is what faults act on.
type Env struct {
	Cluster cluster.Cluster
	Fleet   *fleet.Fleet
	// WorkerLinks are the links worker->node.
	WorkerLinks *link.Fabric
	Links       Links
	// Sink is the run's sink, nil if it is not a process of its own.
	Sink Service
	// Read makes a SERIAL read with the node as coordinator, to see whether
	// consensus is reachable through it.
	Read func(ctx context.Context, node string) error
	// TLS is the configuration of a connection to the node with this IP; nil, or a nil
	// result: no TLS.
	TLS func(ip string) *tls.Config

	claims claims
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

// TargetKind is node, worker or sink.
type TargetKind string

// Target kinds.
const (
	Node   TargetKind = "node"
	Worker TargetKind = "worker"
	// SinkService has one target, SinkTarget.
	SinkService TargetKind = "sink"
)

// entry is one row of the table of faults.
type entry struct {
	about string
	takes []string // parameters
	make  func(Spec) (Fault, error)
}

// jobsOnly are the faults of what only workers with jobs have.
var jobsOnly = []string{"partition-peers", "heartbeat-loss"}

// NeedsClocks reports whether the fault changes clocks of fencepost's own workers, which
// no other program reads.
func NeedsClocks(name string) bool { return name == "clock" || name == "suspend" }

// NeedsJobs reports whether the fault is one of job scenarios only.
func NeedsJobs(name string) bool { return slices.Contains(jobsOnly, name) }

// table is all faults by name.
var table = map[string]entry{
	"partition":         {"cut nodes off from the other nodes, both ways; clients still reach them", []string{"mode"}, cutting(func(m link.Mode) Fault { return partition{mode: m, out: true, in: true} })},
	"partition-oneway":  {"cut one sense between nodes and the others: what the targets send is lost, or what they are sent", []string{"mode", "sense"}, newOneway},
	"partition-bridge":  {"cut all nodes but the target off from each other: only the target sees every node", []string{"mode"}, cutting(func(m link.Mode) Fault { return bridge{m} })},
	"partition-ring":    {"cut the first worker off from the first node, the second from the second …: each sees another majority", []string{"mode"}, cutting(func(m link.Mode) Fault { return ring{m} })},
	"partition-client":  {"cut workers off from every node of the lock store, both ways; they still reach the sink", []string{"mode"}, cutting(func(m link.Mode) Fault { return clientPartition{mode: m} })},
	"partition-peers":   {"cut workers off from what other workers enqueue for their shards (job scenarios)", []string{"mode"}, cutting(func(m link.Mode) Fault { return peerPartition{m} })},
	"heartbeat-loss":    {"cut the heartbeats of workers, by which they see each other, and nothing else (job scenarios)", []string{"mode"}, cutting(func(m link.Mode) Fault { return heartbeatLoss{m} })},
	"sink-outage":       {"cut workers off from the sink, both ways; they still reach the lock store", []string{"mode"}, cutting(func(m link.Mode) Fault { return clientPartition{mode: m, sink: true} })},
	"lost-replies":      {"requests of workers to the lock store arrive and are executed, the answers are dropped", nil, plain(lostReplies{})},
	"sink-lost-replies": {"requests of workers to the sink arrive and are executed, the answers are dropped", nil, plain(lostReplies{sink: true})},
	"latency":           {"delay all that workers and nodes say to each other, each way", []string{"latency", "jitter"}, delaying(func(m link.Mode) Fault { return latency{m} })},
	"slow-node":         {"delay all that nodes and their peers and clients say to each other, each way", []string{"latency", "jitter"}, delaying(func(m link.Mode) Fault { return slowNode{m} })},
	"flaky-links":       {"workers' links stall, drop, close and slow down by turns, each for a fraction of a second", nil, func(s Spec) (Fault, error) { return flakyLinks{s.Seed}, nil }},
	"kill-worker":       {"SIGKILL worker processes; started again as a new life at heal", nil, plain(killWorker{})},
	"stop-worker":       {"end worker processes in order (SIGTERM: schedulers give their shards away); started again at heal", nil, plain(stopWorker{})},
	"pause-worker":      {"SIGSTOP worker processes, SIGCONT at heal", nil, plain(pauseWorker{})},
	"kill-node":         {"SIGKILL Cassandra nodes; started again at heal", nil, plain(killNode{})},
	"pause-node":        {"SIGSTOP Cassandra nodes, SIGCONT at heal", nil, plain(pauseNode{})},
	"kill-sink":         {"SIGKILL the sink's process, with all that it has started; started again at heal (sinks that are processes of their own)", nil, plain(killSink{})},
	"pause-sink":        {"SIGSTOP the sink's process, with all that it has started; SIGCONT at heal (such sinks)", nil, plain(pauseSink{})},
	"restart-node":      {"end Cassandra nodes in order (SIGTERM: they drain); started again at heal", nil, plain(restartNode{})},
	"clock":             {"set the wall clock of workers wrong by an offset, or the rate of their lease clock", []string{"offset", "rate_ppm"}, newClockFault},
	"suspend":           {"the workers' machine sleeps: processes and timers stand still, the lease clock goes on", nil, plain(suspend{})},
	"slow-job":          {"a client stays in its critical section for the trigger's hold", nil, plain(slowJob{})},
}

func plain(f Fault) func(Spec) (Fault, error) {
	return func(Spec) (Fault, error) { return f, nil }
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
	for _, p := range s.given() {
		if !slices.Contains(e.takes, p) {
			return nil, fmt.Errorf("fault %s has no %s", s.Fault, p)
		}
	}
	f, err := e.make(s)
	if err != nil {
		return nil, fmt.Errorf("fault %s: %w", s.Fault, err)
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
	if kind == SinkService {
		if t != SinkTarget {
			return fmt.Errorf("target %q: the only one is %s", t, SinkTarget)
		}
		return nil
	}
	prefix, random, all := "n", RandomNode, AllNodes
	if kind == Worker {
		prefix, random, all = "w", RandomWorker, AllWorkers
	}
	if t == random || t == all || kind == Node && t == Coordinator || kind == Worker && t == WorkerAtPoint || len(t) > 1 && strings.HasPrefix(t, prefix) && strings.Trim(t[1:], "0123456789") == "" {
		return nil
	}
	return fmt.Errorf("target %q is not a %s (such as %s1, or %s)", t, kind, prefix, random)
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
