package scenario

import (
	"fmt"
	"slices"

	"fencepost/harness/env/cluster"
)

// Kind is what a scenario has the system do. It answers whatever differs between locks, jobs,
// orders and drills; how each is run is package run's.
type Kind struct {
	Name string
	// Workers: processes work through phases and faults. Without them the harness is the only
	// client, and there is nothing to set but the seed.
	Workers bool
	// Jobs: the workers are schedulers, and share a queue of shards; else they compete for locks.
	Jobs bool
	// Sink is the only kind of sink that will do (package sinks), "" for any.
	Sink string
	// Control is why it needs nodes that the harness may break; "": only its faults may.
	Control string
	// RedOn is the Paxos variant on which its runs must be red by P2, "" for none.
	RedOn string

	of      func(*Spec) bool
	section func(*Spec) error // checks what is its own in the file
	load    func(Workload) string
}

// Names of kinds.
const (
	KindDrill  = "drill"
	KindOrders = "orders"
	KindJobs   = "jobs"
	KindLocks  = "locks"
)

// kinds are all there are. A scenario's is the first that has it.
var kinds = []Kind{
	{
		Name: KindDrill, Control: "its drill cuts nodes off from each other", RedOn: cluster.PaxosV2UnsafeReadsRejects,
		of:      func(s *Spec) bool { return s.Drill != "" },
		section: checkDrill,
	},
	{
		Name: KindOrders, Workers: true, Jobs: true, Sink: ordersSink,
		of:      func(s *Spec) bool { return s.Workload.Jobs != nil && s.Workload.Jobs.Orders != nil },
		section: checkOrders, load: jobLoad,
	},
	{
		Name: KindJobs, Workers: true, Jobs: true,
		of:      func(s *Spec) bool { return s.Workload.Jobs != nil },
		section: checkJobs, load: jobLoad,
	},
	{
		Name: KindLocks, Workers: true,
		of:      func(*Spec) bool { return true },
		section: checkClients, load: lockLoad,
	},
}

// Kinds are all there are.
func Kinds() []Kind { return kinds }

// Kind is the scenario's.
func (s *Spec) Kind() Kind {
	return kinds[slices.IndexFunc(kinds, func(k Kind) bool { return k.of(s) })]
}

// Load is the work of the scenario in words, "" if it has no workers.
func (s *Spec) Load() string {
	if k := s.Kind(); k.load != nil {
		return k.load(s.Workload)
	}
	return ""
}

func checkClients(*Spec) error { return nil } // what is theirs is every workload's

func lockLoad(w Workload) string {
	return fmt.Sprintf("%d workers with %d clients each, ttl %s", w.Workers, w.Clients, w.TTL.D())
}

// Locks is how many locks the workload's clients compete for.
func (w Workload) Locks() int {
	switch w.Contention {
	case Low:
		return w.Workers * w.Clients
	case High:
		return 1
	}
	return mediumLocks
}
