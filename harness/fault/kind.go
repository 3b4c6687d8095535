package fault

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// Family is faults that act by the same means.
type Family string

// EveryFamily is, as Env.Inert, all of them.
const EveryFamily Family = "every"

// Families.
const (
	FamilyLinks   Family = "links"
	FamilyLatency Family = "latency"
	FamilyReplies Family = "replies"
	FamilyKill    Family = "kill"
	FamilyPause   Family = "pause"
	FamilySuspend Family = "suspend"
	FamilyClock   Family = "clock"
	FamilySlowJob Family = "slow-job"
	FamilyNode    Family = "node"
	FamilySink    Family = "sink"
	FamilyRows    Family = "rows"
	FamilyProxy   Family = "proxy"
	FamilyLoad    Family = "load"
	FamilyQueues  Family = "queues"
	// FamilyServerClock is of servers' wall clocks; FamilyClock is of workers'.
	FamilyServerClock Family = "server-clock"
)

// Kind is a kind of fault. Whatever else knows of it reads it here: the file with its code
// registers it.
type Kind struct {
	Name   string
	On     TargetKind
	Family Family
	// About says what it does, Proof what a run must have seen of it to count; words in
	// asterisks are Terms.
	About, Proof string
	// Params names the Params that it takes.
	Params []string
	Needs  Needs
	// Takes is what its targets are without, for those who judge a run.
	Takes history.Takes
	// Swarm is how a swarm draws it; nil: never.
	Swarm *Draw
	New   func(Spec) (Fault, error)
}

// Needs are what a run must have for a kind of fault.
type Needs struct {
	Jobs    bool // workers with jobs
	Clocks  bool // fencepost's own workers: no other program reads the clocks that it changes
	Service bool // a sink that is a process of its own
	Rows    bool // a sink in a database, whose rows others can lock
	Proxy   bool // a sink that is reached by HTTP, with a proxy before it
	Nodes   int  // at least so many nodes, and of a fault of workers no more than workers; 0: any number
	Hold    bool // a client that is held: the fault is nothing but the hold of its trigger
	// Leaderless: nodes of which each that sees a majority can do all.
	Leaderless bool
	// Peers: nodes that have links to each other.
	Peers bool
	// Server says why servers of a store other than Cassandra cannot have the fault, "" if they can; nil: it is
	// one of Cassandra's nodes too.
	Server func(servers.Kind) (why string)
}

// Stores are those whose servers can have the fault; nil: it does not matter.
func (n Needs) Stores() (out []string) {
	if n.Server == nil {
		return nil
	}
	for _, k := range servers.Kinds() {
		if n.Server(k) == "" {
			out = append(out, k.Name)
		}
	}
	return out
}

// Words say what is needed.
func (n Needs) Words() (out []string) {
	for _, need := range []struct {
		is bool
		of string
	}{{n.Jobs, "jobs"}, {n.Clocks, "fencepost's own workers"}, {n.Service, "a sink that is a process"}, {n.Rows, "a sink in a database"},
		{n.Proxy, "a sink that is reached by HTTP"}, {n.Hold, "a trigger with a hold"}} {
		if need.is {
			out = append(out, need.of)
		}
	}
	if n.Server != nil {
		out = append(out, "servers of "+strings.Join(n.Stores(), ", "))
	}
	return out
}

// linkFamilies act on links and leave processes alone; under stillFamilies a worker does
// nothing at all.
var (
	linkFamilies  = []Family{FamilyLinks, FamilyLatency, FamilyReplies}
	stillFamilies = []Family{FamilyKill, FamilyPause, FamilySuspend}
)

// Judged is what a checker has to know of the kind.
func (k Kind) Judged() history.FaultKind {
	return history.FaultKind{
		Links: slices.Contains(linkFamilies, k.Family), Still: slices.Contains(stillFamilies, k.Family),
		Holds: k.Needs.Hold, Takes: k.Takes,
	}
}

var kinds = map[string]Kind{}

func register(all ...Kind) {
	for _, k := range all {
		if _, twice := kinds[k.Name]; twice {
			panic("two faults " + k.Name)
		}
		kinds[k.Name] = k
	}
}

// Kinds are all there are, by name.
func Kinds() []Kind {
	return slices.SortedFunc(maps.Values(kinds), func(a, b Kind) int { return strings.Compare(a.Name, b.Name) })
}

// Of is the kind with this name; nothing if there is none.
func Of(name string) Kind { return kinds[name] }

// Term is what several faults have to prove, by a short name.
type Term struct{ Name, Text string }

// Terms are those that proofs name.
var Terms = []Term{
	{"cut", "Into each end that is cut (a direction of a link) the harness sends its own byte, over a connection of which it holds both ends. The byte comes out before the fault, not while it is active, and again when it is healed. " +
		"The end's counter shows 0 bytes passed of everybody else's. Over all ends something was held or dropped, so that somebody ran into the cut."},
	{"asked", "As a client, past the counters: what is behind each link answers a request through it before and after. Meanwhile it answers a request past the link, but none through it."},
	{"reads", "A SERIAL read through each node is answered before and after. Meanwhile it is answered where there is a majority; elsewhere the coordinator itself says that there is none (unavailable, or its own timeout: no answer is no proof). On another store its own request takes the place of the SERIAL read ([stores.md](stores.md))."},
	{"replies lost", "A *cut* of the answers, *asked*. The other direction carries the harness's byte, and requests of the worker's. Of each worker at least one answer to a statement was lost, not one to a heartbeat of its driver."},
	{"delayed", "The harness times its own bytes through each end, over connections of which it holds both ends, before, during and after; and requests through the links to nodes and sink, made as a client makes them. The median during the fault is longer by at least half the latency, whatever the jitter. Bytes of others were delayed too."},
	{"gone", "The kernel no longer has the process: its id is free, or another process's."},
	{"stands still", "Every thread of the process is stopped (state T in /proc)."},
	{"passes", "A read of the harness's passes the proxy before and after."},
	{"silent", "It answers a request of the harness's before and after, and none meanwhile."},
}

func plain(f Fault) func(Spec) (Fault, error) {
	return func(Spec) (Fault, error) { return f, nil }
}

// Families are all there are, sorted.
func Families() []Family {
	var out []Family
	for _, k := range kinds {
		out = append(out, k.Family)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Inert is the known-broken harness that leaves the family's actions out.
func (f Family) Inert() string { return "broken/harness-" + string(f) + "-inert" }

// Draw is how a swarm draws a kind of fault. All kinds of a lane come equally often.
type Draw struct {
	// Place is its own among those of the same TargetKind: what a seed draws depends on it.
	Place int
	// Params completes the spec; nil: nothing to draw.
	Params func(*rand.Rand, *Spec)
	// Points are those of locks at which it may come; nil: at an instant.
	Points []control.Point
	// All: it is aimed at all workers at once.
	All bool
	// Restart: healing takes as long as a node needs to start.
	Restart bool
}

// Drawn are the kinds that swarms draw for targets of one kind, in the order of their places.
func Drawn(on TargetKind) []Kind {
	others := func(k Kind) bool { return k.On != on || k.Swarm == nil }
	return slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Collect(maps.Values(kinds)), others)),
		func(a, b Kind) int { return cmp.Compare(a.Swarm.Place, b.Swarm.Place) })
}

func drawMode(rng *rand.Rand, s *Spec) { s.Mode = []string{"stall", "drop"}[rng.IntN(2)] }
