package fault

import (
	"slices"
	"sort"

	"fencepost/harness/env/link"
)

// Family is faults that act by the same means.
type Family string

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
)

// entry is one row of the table of faults.
type entry struct {
	about  string
	family Family
	proof  string   // what a run must have seen of it
	takes  []string // parameters
	make   func(Spec) (Fault, error)
}

// slowJobName is the fault that the trigger's hold is.
const slowJobName = "slow-job"

// Term is what several faults have to prove, by a short name.
type Term struct{ Name, Text string }

// Terms are those that proofs name.
var Terms = []Term{
	{"cut", "Into each end that is cut (a direction of a link) the harness sends a byte of its own, by a connection both ends of which it holds: it comes out before the fault, not while it is in force, and again when it is healed. " +
		"The end's counter shows 0 bytes passed of everybody else's. Over all ends something was held or dropped, so that somebody ran into the cut."},
	{"asked", "Past the counters, as a client: what is behind each link answers a request through it before and after, and meanwhile one beside it but none through it."},
	{"reads", "A SERIAL read through each node is answered before and after. Meanwhile it is answered where there is a majority; elsewhere the coordinator itself says that there is none (unavailable, or its own timeout: no answer is no proof)."},
	{"replies lost", "A *cut* of what is answered, *asked*. The other direction carries the harness's byte, and requests of the worker's. Of each worker at least one answer to a statement was lost, not one to a heartbeat of its driver."},
	{"delayed", "Bytes of the harness's own are timed through each end, by connections both ends of which it holds, before, during and after; and requests through the links to nodes and sink, made as a client makes them. The median during the fault is longer by half the latency at least, whatever the jitter. Bytes of others were delayed too."},
	{"gone", "The kernel no longer has the process: its id is free, or another process's."},
	{"stands still", "Every thread of the process is stopped (state T in /proc)."},
	{"silent", "It answers a request of the harness's before and after, and none meanwhile."},
}

// table is all faults by name.
var table = map[string]entry{
	"partition": {"cut nodes off from the other nodes, both ways; clients still reach them", FamilyLinks, "*cut*, *reads*",
		[]string{"mode"}, cutting(func(m link.Mode) Fault { return partition{mode: m, out: true, in: true} })},
	"partition-oneway": {"cut one sense between nodes and the others: what the targets send is lost, or what they are sent", FamilyLinks, "*cut*, *reads*; the other direction of each link carries bytes",
		[]string{"mode", "sense"}, newOneway},
	"partition-bridge": {"cut all nodes but the target off from each other: only the target sees every node", FamilyLinks, "*cut*, *reads*",
		[]string{"mode"}, cutting(func(m link.Mode) Fault { return bridge{m} })},
	"partition-ring": {"cut the first worker off from the first node, the second from the second …: each sees another majority", FamilyLinks, "*cut*, *asked*; the links to the other nodes carry bytes",
		[]string{"mode"}, cutting(func(m link.Mode) Fault { return ring{m} })},
	"partition-client": {"cut workers off from every node of the lock store, both ways; they still reach the sink", FamilyLinks, "*cut*, *asked*; the sink answers through its links",
		[]string{"mode"}, cutting(func(m link.Mode) Fault { return clientPartition{mode: m} })},
	"partition-peers": {"cut workers off from what other workers enqueue for their shards (job scenarios)", FamilyLinks, "*cut*, *asked*",
		[]string{"mode"}, cutting(func(m link.Mode) Fault { return peerPartition{m} })},
	"heartbeat-loss": {"cut the heartbeats of workers, by which they see each other, and nothing else (job scenarios)", FamilyLinks, "*cut*, *asked*; the links to the shards carry bytes",
		[]string{"mode"}, cutting(func(m link.Mode) Fault { return heartbeatLoss{m} })},
	"sink-outage": {"cut workers off from the sink, both ways; they still reach the lock store", FamilyLinks, "*cut*, *asked*; the links to the lock store carry bytes",
		[]string{"mode"}, cutting(func(m link.Mode) Fault { return clientPartition{mode: m, sink: true} })},
	"flaky-links": {"workers' links stall, drop, close and slow down by turns, each for a fraction of a second", FamilyLinks,
		"After each change a connection of the harness's own through that link behaves as the change says. Bytes of others were held or dropped, and some passed",
		nil, func(s Spec) (Fault, error) { return flakyLinks{s.Seed}, nil }},
	"lost-replies": {"requests of workers to the lock store arrive and are executed, the answers are dropped", FamilyReplies, "*replies lost*",
		nil, plain(lostReplies{})},
	"sink-lost-replies": {"requests of workers to the sink arrive and are executed, the answers are dropped", FamilyReplies, "*replies lost*",
		nil, plain(lostReplies{sink: true})},
	"latency": {"delay all that workers and nodes say to each other, each way", FamilyLatency, "*delayed*",
		[]string{"latency", "jitter"}, delaying(func(m link.Mode) Fault { return latency{m} })},
	"slow-node": {"delay all that nodes and their peers and clients say to each other, each way", FamilyLatency, "*delayed*",
		[]string{"latency", "jitter"}, delaying(func(m link.Mode) Fault { return slowNode{m} })},
	"kill-worker": {"SIGKILL worker processes; started again as a new life at heal", FamilyKill, "*gone*",
		nil, plain(killWorker{})},
	"stop-worker": {"end worker processes in order (SIGTERM: schedulers give their shards away); started again at heal", FamilyKill, "*gone*",
		nil, plain(stopWorker{})},
	"pause-worker": {"SIGSTOP worker processes, SIGCONT at heal", FamilyPause, "*stands still*",
		nil, plain(pauseWorker{})},
	"kill-node": {"SIGKILL Cassandra nodes; started again at heal", FamilyNode, "*gone*; its port refuses connections",
		nil, plain(killNode{})},
	"restart-node": {"end Cassandra nodes in order (SIGTERM: they drain); started again at heal", FamilyNode, "*gone*; its port refuses connections",
		nil, plain(restartNode{})},
	"pause-node": {"SIGSTOP Cassandra nodes, SIGCONT at heal", FamilyNode, "*stands still*, *silent*",
		nil, plain(pauseNode{})},
	"kill-sink": {"SIGKILL the sink's process, with all that it has started; started again at heal (sinks that are processes of their own)", FamilySink, "*gone*; its port refuses connections",
		nil, plain(killSink{})},
	"pause-sink": {"SIGSTOP the sink's process, with all that it has started; SIGCONT at heal (such sinks)", FamilySink, "*stands still*, *silent*",
		nil, plain(pauseSink{})},
	"clock": {"set the wall clock of workers wrong by an offset, or the rate of their lease clock", FamilyClock,
		"The offset: in rows that each worker wrote meanwhile (the expiry of its locks, the times of its runs), against the time at which the nodes took them, within 500 ms or half of the offset. " +
			"The rate: the harness times ticks that the worker sends by the clock that its leases go by; the least late ones run wrong by 0.8 to 1.25 of the rate",
		[]string{"offset", "rate_ppm"}, newClockFault},
	"suspend": {"the workers' machine sleeps: processes and timers stand still, the lease clock goes on", FamilySuspend,
		"*stands still*. When the process runs again and its machine still sleeps, none of the ticks comes that it sends by its timers, which came before and come again once it is awake",
		nil, plain(suspend{})},
	slowJobName: {"a client stays in its critical section for the trigger's hold", FamilySlowJob,
		"The lock's row, which the harness reads itself, has the client as its holder under one token from the hit until the hold is over, or until the lease has run out. For a job: its row has one run. For a user's own program: the sink's ledger of the lock gets no entry",
		nil, plain(slowJob{})},
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

// Proof says what a run must have seen of a fault for it to count; words in asterisks are
// Terms.
func Proof(name string) string { return table[name].proof }

// FamilyOf is the family of a fault.
func FamilyOf(name string) Family { return table[name].family }

// Families are all there are, sorted.
func Families() []Family {
	var out []Family
	for _, e := range table {
		if !slices.Contains(out, e.family) {
			out = append(out, e.family)
		}
	}
	slices.Sort(out)
	return out
}
