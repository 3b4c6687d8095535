package scenario

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/fault"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/internal/choice"
)

// Duration is a time.Duration written as "6s" or "250ms"; never negative.
type Duration time.Duration

// UnmarshalYAML reads a duration and refuses a negative one, with its line.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil {
		return lineErr(n, "%q is not a duration (such as 6s or 250ms)", n.Value)
	}
	if v < 0 {
		return lineErr(n, "duration %s is negative", n.Value)
	}
	*d = Duration(v)
	return nil
}

// MarshalYAML writes it as it is read.
func (d Duration) MarshalYAML() (any, error) { return time.Duration(d).String(), nil }

// D is the plain duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// lineError is an error at a line of a scenario file.
type lineError struct {
	line int
	msg  string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.msg) }

// AtLine is an error of what is in a line of a file.
func AtLine(line int, format string, args ...any) error {
	return &lineError{line, fmt.Sprintf(format, args...)}
}

func lineErr(n *yaml.Node, format string, args ...any) error {
	return &lineError{line: n.Line, msg: fmt.Sprintf(format, args...)}
}

// Spec is a scenario file.
type Spec struct {
	Name  string `yaml:"name"`
	About string `yaml:"about"` // one sentence: what happens and what must hold
	// Extends is another scenario whose phases and faults are this one's, unless it
	// has its own; "" once they are filled in.
	Extends string `yaml:"extends,omitempty"`
	// Cluster is what the scenario needs of the cluster that it runs on.
	Cluster  Cluster  `yaml:"cluster,omitempty"`
	Workload Workload `yaml:"workload"`
	// Workloads are the sets of parameters (see Set) that a seed may draw beside the
	// workload above: names, or all.
	Workloads []string `yaml:"workloads,flow,omitempty"`
	Phases    Phases   `yaml:"phases"`
	Faults    []Step   `yaml:"faults"`
	Swarm     *Swarm   `yaml:"swarm,omitempty"`
	Expect    Expect   `yaml:"expect"`
	// Drill is the name of a directed run without workers (see package paxos);
	// workload, phases, faults and expect are then empty.
	Drill string `yaml:"drill,omitempty"`
	file  string // where it was read
	set   string // the set that its workload has, "" for Plain
}

// Cluster is what a scenario needs of a cluster; nothing: three nodes in one data centre.
type Cluster struct {
	// Datacenters is how many nodes each data centre has: [3, 1] is n1 to n3 in dc1 and n4
	// in dc2. Keyspaces have a replica on every node. The system under test is in dc1, and
	// agrees there alone, by LOCAL_SERIAL and LOCAL_QUORUM; its processes have links to all
	// nodes.
	Datacenters cluster.Layout `yaml:"datacenters,flow,omitempty"`
	// Store is whose servers the nodes are (package servers), "" for Cassandra.
	Store string `yaml:"store,omitempty"`
}

// maxDatacenter is how many nodes of a data centre have replicas of every row. With more of
// them, a majority of the nodes would not be one of the replicas.
const maxDatacenter = 3

// File is where it was read.
func (s *Spec) File() string { return s.file }

// Layout is that of the cluster that the scenario needs.
func (s *Spec) Layout() cluster.Layout {
	if k, other := s.Store(); other {
		return cluster.Layout{k.Servers}
	}
	if s.Cluster.Datacenters == nil {
		return cluster.Plain()
	}
	return s.Cluster.Datacenters
}

// Cassandra is the store of a scenario that names none.
const Cassandra = servers.Cassandra

// Store is whose servers the nodes are; other is false for Cassandra's.
func (s *Spec) Store() (k servers.Kind, other bool) {
	k, err := servers.Of(s.Cluster.Store)
	return k, err == nil
}

func (s *Spec) validateCluster() error {
	l := s.Cluster.Datacenters
	if s.Cluster.Store == Cassandra {
		s.Cluster.Store = ""
	}
	if store := s.Cluster.Store; store != "" {
		if _, err := servers.Of(store); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	switch {
	case l == nil:
		return nil
	case s.Cluster.Store != "":
		return fmt.Errorf("datacenters: servers of %s are in one", s.Cluster.Store)
	case !s.Kind().Workers:
		return errors.New("a drill runs on three nodes in one data centre")
	case len(l) < 2:
		return fmt.Errorf("datacenters: %s: name the nodes of two or more, such as [3, 1], or leave it out", l)
	case slices.Max(l) > maxDatacenter:
		return fmt.Errorf("datacenters: %s: at most %d nodes in each, as every node has all rows", l, maxDatacenter)
	}
	return within(l.Check(), "datacenters")
}

// Contention levels: how many locks the clients compete for, or how many shards
// the jobs are spread over.
const (
	Low    = "low"    // a lock a client; 32 shards
	Medium = "medium" // 10 locks; 8 shards
	High   = "high"   // 1 lock; 1 shard
)

// mediumLocks is the number of locks at medium contention; lowShards and
// mediumShards are numbers of shards.
const (
	mediumLocks  = 10
	lowShards    = 32
	mediumShards = 8
)

// Workload describes the clients.
type Workload struct {
	Workers    int      `yaml:"workers"`    // processes; default 4
	Clients    int      `yaml:"clients"`    // a worker; default 3
	Contention string   `yaml:"contention"` // low, medium, high; default medium
	TTL        Duration `yaml:"ttl"`        // default 6s
	Hold       Duration `yaml:"hold"`       // mean time in the critical section; default 20ms
	Think      Duration `yaml:"think"`      // mean pause between cycles; default 10ms
	// Sink is what takes the effects (package sinks): "" is the system's own, cassandra.
	Sink string `yaml:"sink,omitempty"`
	// MixedVersions has workers run today's executable and that of the version before
	// (make previous): the first lives alternate, and each next life the other one, as in a
	// rolling upgrade that goes to and fro.
	MixedVersions bool `yaml:"mixed_versions,omitempty"`
	LockLoad      `yaml:",inline"`
	// Jobs makes it the job workload instead of the lock workload; clients, hold
	// and think then mean nothing.
	Jobs *Jobs `yaml:"jobs,omitempty"`
}

// Jobs describes the job workload: every worker is a scheduler that enqueues too.
type Jobs struct {
	Queues      int         `yaml:"queues,omitempty"`    // queues, which share the shards; each key is enqueued to all of them; default 1
	Rate        float64     `yaml:"rate"`                // jobs enqueued a second, by all workers, whatever the answers; default 60
	Steps       int         `yaml:"steps"`               // effects a job; default 1
	Length      Duration    `yaml:"length"`              // mean time that a run takes; default 20ms
	Flaky       float64     `yaml:"flaky"`               // part of the jobs whose first run fails
	Poison      float64     `yaml:"poison"`              // part of the jobs whose every run fails
	Ahead       Duration    `yaml:"ahead"`               // jobs are due up to so far ahead; 0: at once
	Storm       Duration    `yaml:"storm"`               // jobs are due at its next multiple on the wall clock, all at once; not with ahead
	Every       Duration    `yaml:"every"`               // each shard has a recurring schedule that fires so often; 0: none
	Window      Duration    `yaml:"window"`              // how late an occurrence of it may be and still fires; default 1h: none is missed
	Schedules   []Recurring `yaml:"schedules,omitempty"` // recurring schedules beside those of every, each in the shard of its key
	Sequence    int         `yaml:"sequence"`            // jobs that follow each; every other sequence goes on when one of them fails
	Mixture     *Mixture    `yaml:"mixture,omitempty"`   // parts of the jobs that are different; default: none
	Commands    *Commands   `yaml:"commands,omitempty"`  // what is asked for of jobs and shards beside; default: nothing
	API         bool        `yaml:"api,omitempty"`       // clients enqueue and give their commands through the scheduler's HTTP API
	Orders      *Orders     `yaml:"orders"`              // the jobs are a shop's orders; rate is of orders, and steps to sequence mean nothing
	MaxAttempts int         `yaml:"max_attempts"`        // default 8
	Retry       Duration    `yaml:"retry"`               // wait after the first failed run, doubling up to four times as long; default 500ms
	Slots       int         `yaml:"slots"`               // runs at once in a worker; default 32
	Dedupe      Duration    `yaml:"dedupe"`              // for how long the id of a job that has ended is remembered; default 1h: longer than the run
	Drain       Duration    `yaml:"drain"`               // bound on the time to the end of all jobs, when the enqueuing is over; default 60s
}

// Mixture says which parts of the jobs are different; 0: none.
type Mixture struct {
	AtMostOnce float64 `yaml:"at_most_once"` // have no other run if one is cut short
	Overrun    float64 `yaml:"overrun"`      // their first run takes longer than it may
	OddKeys    float64 `yaml:"odd_keys"`     // their key is the one before, but for case or a space
	NoKey      float64 `yaml:"no_key"`       // have no key: each is a job of its own
	OtherBody  float64 `yaml:"other_body"`   // are enqueued by the key of a job that is there, with another body
	Priorities int     `yaml:"priorities"`   // how many priorities there are, at random; 0: one
	Delays     float64 `yaml:"delays"`       // wait after failed runs by a list of their own, with a jitter of their own
}

// Commands say how often each of the product's commands is given, per second by all workers;
// 0: never.
type Commands struct {
	Cancel      float64 `yaml:"cancel"`       // of a job that was enqueued lately
	Hasten      float64 `yaml:"hasten"`       // likewise
	Redrive     float64 `yaml:"redrive"`      // of a job in the dead letter queue
	RedriveMany float64 `yaml:"redrive_many"` // of several at once
	Pause       float64 `yaml:"pause"`        // of a shard, for less than a second
	PauseQueue  float64 `yaml:"pause_queue"`  // of a whole queue by one command, likewise
}

// Orders describes the shop of an orders workload (examples/orders); its sink is PostgreSQL.
type Orders struct {
	Items int      `yaml:"items"` // that customers compete for; default 4
	Stock int      `yaml:"stock"` // of each item at the beginning; default 1000
	Hold  Duration `yaml:"hold"`  // how long items are kept for an order that is not paid; default 1m
}

// Queues is the number of queues of the job workload.
func (w Workload) Queues() int {
	if w.Jobs == nil {
		return 1
	}
	return max(w.Jobs.Queues, 1)
}

// Shards is the number of shards of each of the run's queues, at least one: several queues have as
// many together as one would have.
func (w Workload) Shards() int {
	switch w.Contention {
	case Low:
		return max(lowShards/w.Queues(), 1)
	case High:
		return 1
	}
	return max(mediumShards/w.Queues(), 1)
}

// Phases are the phases' lengths. A fault phase lasts until its faults are
// healed if that is longer.
type Phases struct {
	Warmup  Duration `yaml:"warmup"`  // default 3s
	Before  Duration `yaml:"before"`  // default 6s
	Fault   Duration `yaml:"fault"`   // default 8s
	Recover Duration `yaml:"recover"` // default 6s
}

// Step is one fault of a scenario with its time or trigger.
type Step struct {
	fault.Spec `yaml:",inline"`
	// Lane orders steps: those of one lane follow each other, each not before its
	// time. Steps without a lane run beside all others.
	Lane string `yaml:"lane,omitempty"`
	// At is the start, from the beginning of the fault phase.
	At Duration `yaml:"at"`
	// On starts the fault when a client reaches a point, not before At. A scenario gives at
	// least one of both.
	On *Trigger `yaml:"on"`
	// For is how long it lasts, at the least if there is Until.
	For Duration `yaml:"for"`
	// Until keeps it on for longer, until others have come far enough.
	Until *Until `yaml:"until,omitempty"`
	// Repeat is how often in all, one after the other; default 1. A triggered
	// step waits for the next hit each time.
	Repeat int `yaml:"repeat"`
	// InTurn injects the fault into one target after the other instead of all at once.
	InTurn bool `yaml:"in_turn,omitempty"`
	line   int
}

// Trigger is an event that sets a fault off.
type Trigger struct {
	Point control.Point `yaml:"point"`
	// Worker is the one to watch; default the step's first target if that is a
	// worker, else a random one.
	Worker string `yaml:"worker"`
	// Hold keeps the client that hit in its critical section for so long
	// (point holding only): a job that takes longer than planned.
	Hold Duration `yaml:"hold"`
}

// Until is an event that ends a fault: a client of a worker that is no target reaches a
// point at the lock or resource at which the trigger was. It stands there until the fault is
// healed, and for Stay longer.
type Until struct {
	Point control.Point `yaml:"point"`
	Stay  Duration      `yaml:"stay"`
}

// Swarm draws a plan's faults from its seed: two lanes, one of faults of nodes and
// one of faults of workers, each a sequence of faults with pauses between. Which
// kinds may come is itself drawn (swarm testing: Groce et al., ISSTA 2012): a run
// with some kinds left out reaches states that one with all of them does not. In
// the node lane at least one fault takes the quorum away from everybody and at
// least one pause leaves the cluster healthy.
type Swarm struct {
	// For is the time that the lanes have; default 40s.
	For Duration `yaml:"for"`
}

// Expect is what a run must contain to count; see history.Expect. MinCycles is
// by contention, then by phase.
type Expect struct {
	MinCycles map[string]map[string]int `yaml:"min_cycles"`
	Success   []history.Success         `yaml:"success"`
	Must      []string                  `yaml:"must"`
	Sometimes []string                  `yaml:"sometimes"`

	// Exempt are properties that the workload cannot exercise, with the reason: of any
	// other that the system promises something must be checked, or the run is INVALID.
	Exempt map[string]string `yaml:"exempt,omitempty"`

	RecoveryBoundMS int64 `yaml:"recovery_bound_ms,omitempty"`
	// Progress is what must get done while faults are in force.
	Progress []Progress `yaml:"progress,omitempty"`
	// Thresholds are bounds on the run's numbers; one beyond them fails P15.
	Thresholds []Threshold `yaml:"thresholds,omitempty"`
}

// UnmarshalYAML keeps the line and checks the fault's name.
func (s *Step) UnmarshalYAML(n *yaml.Node) error {
	type plain Step
	s.Repeat = 1
	if err := Decode(n, (*plain)(s)); err != nil {
		return err
	}
	s.line = n.Line
	if _, err := fault.New(s.Spec); err != nil {
		return lineErr(n, "%v", err)
	}
	if At(n, "at") == n && At(n, "on") == n {
		return lineErr(n, "fault %s never begins: give it an at (a time from the beginning of the fault phase, such as 500ms) or an on "+
			"(a point, such as {point: %s})", s.Fault, control.Holding)
	}
	if s.Repeat < 1 {
		return lineErr(n, "repeat %d: at least 1", s.Repeat)
	}
	if fault.Of(s.Fault).Needs.Hold && (s.On == nil || s.On.Hold == 0) {
		return lineErr(n, "fault %s needs a client that is held: give it an on with the point %q and a hold", s.Fault, control.Holding)
	}
	for _, p := range s.Points() {
		if _, ok := control.Points[p]; !ok {
			return lineErr(n, "%v", choice.Unknown("point", string(p), pointNames()...))
		}
	}
	atPoint := slices.Contains(s.Targets, fault.WorkerAtPoint)
	switch t := s.On; {
	case t == nil && s.Until != nil:
		return lineErr(n, "until needs a trigger (on): it waits for others at the lock where that was")
	case t == nil && atPoint:
		return lineErr(n, "the target %s needs a trigger (on)", fault.WorkerAtPoint)
	case atPoint && (len(s.Targets) > 1 || t.Worker != "" && t.Worker != fault.WorkerAtPoint):
		return lineErr(n, "the target %s stands alone, and its trigger watches all workers", fault.WorkerAtPoint)
	}
	if t := s.On; t != nil && t.Hold > 0 && t.Point != control.Holding {
		return lineErr(n, "hold needs the point %q", control.Holding)
	}
	return nil
}

// Line is where it is in its file.
func (s *Step) Line() int { return s.line }

// Points are those that the step waits for.
func (s *Step) Points() (out []control.Point) {
	if s.On != nil {
		out = append(out, s.On.Point)
	}
	if s.Until != nil {
		out = append(out, s.Until.Point)
	}
	return out
}

func pointNames() (names []string) {
	for _, p := range slices.Sorted(maps.Keys(control.Points)) {
		names = append(names, string(p))
	}
	return names
}

// Decode decodes a node and refuses unknown keys with their line, which
// yaml.Node.Decode alone does not.
func Decode(n *yaml.Node, v any) error {
	if err := known(n, reflect.TypeOf(v)); err != nil {
		return err
	}
	return n.Decode(v)
}
