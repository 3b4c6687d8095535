package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Expectations of success.
const (
	Some = "some" // at least one operation of the group must succeed in the phase
	None = "none" // none may
	Any  = "any"  // no demand
)

// Expect is what a run must contain to count as a test at all. A run that
// misses any of it is INVALID.
type Expect struct {
	// by phase, the least number of releases that are ok, or of jobs completed
	MinCycles map[string]int `json:"min_cycles,omitempty" yaml:"min_cycles"`
	// ids of faults that must have been injected and proven
	Faults []string `json:"faults,omitempty" yaml:"-" is:"names"`
	// which workers must succeed when
	Success []Success `json:"success,omitempty" yaml:"success"`
	// what must get done while faults are in force (P11)
	Progress []Progress `json:"progress,omitempty" yaml:"-"`
	// how many nodes the lock store has; absent: 3
	Nodes int `json:"nodes,omitempty" yaml:"-" is:"span"`
	// of a cluster of several data centres, in which of them the system is to agree
	Agreement *Agreement `json:"agreement,omitempty" yaml:"-"`
	// whose tables the statements on the links are about; absent: nobody knows, so which rows
	// need consensus is found by what is written on condition
	Tables *Tables `json:"tables,omitempty" yaml:"-"`
	// points that must have been reached: noted by workers, or derived by the checker, such as
	// takeover, stale-refused, unknown-settled, lease-lost, resend, duplicate, late-answer
	Must []string `json:"must,omitempty" yaml:"must" is:"names"`
	// points that need not be reached in every run, but in one of the last 20 of the scenario
	// that are kept
	Sometimes []string `json:"sometimes,omitempty" yaml:"sometimes" is:"names"`
	// by property, why nothing of it can be checked in this run; of any other that is promised
	// something must be
	Exempt map[string]string `json:"exempt,omitempty" yaml:"exempt"`
	// the rows of each shard, or of all jobs with a lock each, end with a rows-end note:
	// without one they were not read
	RowsEnd bool `json:"rows_end,omitempty" yaml:"-"`
	// how many workers must have recorded operations
	Workers int `json:"workers,omitempty" yaml:"-" is:"span"`
	// for how long the run waited, when nothing was enqueued any more, for its jobs to end;
	// absent: there are no jobs
	DrainBoundMS int64 `json:"drain_bound_ms,omitempty" yaml:"drain_bound_ms" is:"span"`
	// what P11 allows beyond ttl + ttl/8; absent: 5 s + ttl/2
	RecoveryBoundMS int64 `json:"recovery_bound_ms,omitempty" yaml:"recovery_bound_ms" is:"span"`
	// bounds on the run's numbers (P15)
	Thresholds []Threshold `json:"thresholds,omitempty" yaml:"-"`
}

// Groups of workers, relative to the faults of the plan.
const (
	GroupTargets = "targets" // the workers that the fault (any fault, by phase) is aimed at
	GroupOthers  = "others"  // all other workers
)

// Success is an expectation for the releases of a group of workers in a phase,
// or while a fault is in force.
type Success struct {
	// the phase, or else
	Phase string `json:"phase,omitempty" yaml:"phase" is:"name"`
	// the fault, by name or id: all its windows from inject to heal
	Fault string `json:"fault,omitempty" yaml:"fault" is:"name"`
	// which workers, or else
	Workers []string `json:"workers,omitempty" yaml:"workers" is:"names"`
	// targets: those at which the fault (of a phase: any fault) is aimed; others: all other
	// workers
	Group string `json:"group,omitempty" yaml:"group" of:"targets others"`
	// how many of their releases must be ok
	Want string `json:"want" yaml:"want" of:"some none any"`
}

// Agreement is where and how the processes of a run agree that runs on several data centres:
// another one would decide apart.
type Agreement struct {
	// the data centre; no node of another may be asked
	Datacenter string `json:"datacenter" is:"name"`
	// its nodes: they alone may be asked, and they alone decide
	Nodes []string `json:"nodes" is:"names"`
	// the consistency of conditional statements, and of reads that take part in consensus
	Serial string `json:"serial" of:"SERIAL LOCAL_SERIAL"`
	// the consistency of commits and other reads
	Consistency string `json:"consistency" of:"QUORUM LOCAL_QUORUM"`
}

// Designs whose tables the checker knows (P13).
const (
	TablesCore       = "core"
	TablesLockPerJob = "lock-per-job"
)

// Tables says whose tables the statements on the links are about. The checker knows what each of
// them needs; a statement on another one it cannot judge, which makes the run INVALID.
type Tables struct {
	// the design
	Of string `json:"of" of:"core lock-per-job"`
	// the sink's rows are on the nodes too, so its reads come over the links
	Sink bool `json:"sink,omitempty"`
}

// Threshold is a bound on a number of the run; a run beyond it fails P15.
// Exactly one of Latency, Recovery, Lateness, Overload and Growth names the number.
type Threshold struct {
	// the operation whose latency is bounded; start: the wait for a job's first run; run: a
	// run of a job
	Latency string `json:"latency,omitempty" of:"lock acquire renew release enqueue take tick start run raise get effect"`
	// which quantile of it
	Quantile string `json:"quantile,omitempty" of:"p50 p95 p99 max"`
	// in which phase
	Phase string `json:"phase,omitempty" is:"name"`
	// the time from each heal to the first success of any lock or shard, or of each
	Recovery string `json:"recovery,omitempty" of:"first slowest"`
	// a quantile of how late runs started outside of faults
	Lateness string `json:"lateness,omitempty" of:"p50 p99 max"`
	// under overload: the part of the capacity that is done; the p99 of the answers that refuse a
	// job, by the process that owns its shard; the p99 of how long after its request a job starts
	// that was taken; how long after it jobs are still refused, or start after more than a second;
	// the p95 of the answers to commands on jobs, by the process that owns the shard
	Overload string `json:"overload,omitempty" of:"goodput refused accepted normal commands"`
	// of goodput: the least
	Least float64 `json:"least,omitempty" below:"1e9"`
	// by how much more each process of the system takes at the end of the load than at its begin:
	// memory and storage in MB, others by number. Of storage the processes are the nodes
	Growth string `json:"growth,omitempty" of:"memory descriptors threads goroutines storage"`
	// of growth: the most that is allowed
	By float64 `json:"by,omitempty" below:"1e9"`
	// of growth: what is allowed beyond that for each hour of load
	PerHour float64 `json:"per_hour,omitempty" below:"1e9"`
	// the most that is allowed
	MaxMS int64 `json:"max_ms,omitempty" is:"span"`
	// the same as a multiple of the quantile in phase before
	TimesBefore float64 `json:"times_before,omitempty" below:"1e9"`
}

// Recoveries that can be bounded.
const (
	RecoveryFirst   = "first"
	RecoverySlowest = "slowest"
)

// Numbers of an overload that can be bounded. Goodput has a least value, a part of the capacity.
const (
	OverloadGoodput  = "goodput"
	OverloadRefused  = "refused"
	OverloadAccepted = "accepted"
	OverloadNormal   = "normal"
	OverloadCommands = "commands"
)

// What can grow.
const (
	GrowthMemory      = "memory"
	GrowthDescriptors = "descriptors"
	GrowthThreads     = "threads"
	GrowthGoroutines  = "goroutines"
	GrowthStorage     = "storage"
)

// GrowthOf is how the name of a threshold of growth begins.
const GrowthOf = "growth of "

// Growths are all that can grow, in the order of Usage.
var Growths = []string{GrowthMemory, GrowthDescriptors, GrowthThreads, GrowthGoroutines, GrowthStorage}

// timed are the operations whose latency can be bounded, as thresholds call them.
var timed = map[string]Op{
	"lock": OpLock, "acquire": OpAcquire, "renew": OpRenew, "release": OpRelease,
	"enqueue": OpEnqueue, "take": OpTake, "tick": OpTick, "start": SpanStart, "run": SpanRun,
	"raise": OpRaise, "get": OpGet, "effect": OpEffect,
}

// ofJobs and ofLocks are those of one workload only.
var (
	ofJobs  = []string{"enqueue", "take", "tick", "start", "run"}
	ofLocks = []string{"lock", "acquire", "renew", "release"}
)

var (
	quantiles  = []string{"p50", "p95", "p99", "max"}
	ofLateness = []string{"p50", "p99", "max"}
	ofOverload = []string{OverloadGoodput, OverloadRefused, OverloadAccepted, OverloadNormal, OverloadCommands}
)

var overloadNames = map[string]string{
	OverloadGoodput:  "goodput under overload, of the capacity",
	OverloadRefused:  "p99 of refusals under overload",
	OverloadAccepted: "p99 from request to start under overload",
	OverloadNormal:   "back to normal after overload",
	OverloadCommands: "p95 of commands under overload",
}

// Op is the operation or span whose latency is bounded.
func (t Threshold) Op() Op { return timed[t.Latency] }

// NeedsJobs and NeedsLocks say that only runs with jobs, or with locks, have the number.
func (t Threshold) NeedsJobs() bool {
	return t.Lateness != "" || t.Overload != "" || slices.Contains(ofJobs, t.Latency)
}

// NeedsLocks is the opposite of NeedsJobs; both are false for operations on the sink.
func (t Threshold) NeedsLocks() bool { return slices.Contains(ofLocks, t.Latency) }

// Check says what is wrong with the threshold itself.
func (t Threshold) Check() error {
	named := 0
	for _, s := range []string{t.Latency, t.Recovery, t.Lateness, t.Overload, t.Growth} {
		if s != "" {
			named++
		}
	}
	switch {
	case named != 1:
		return errors.New("a threshold bounds one of latency, recovery, lateness, overload and growth")
	case t.Recovery != "" && t.Recovery != RecoveryFirst && t.Recovery != RecoverySlowest:
		return fmt.Errorf("recovery %q; it is %s or %s", t.Recovery, RecoveryFirst, RecoverySlowest)
	case t.Lateness != "" && !slices.Contains(ofLateness, t.Lateness):
		return fmt.Errorf("lateness %q; it is one of %s", t.Lateness, strings.Join(ofLateness, ", "))
	case t.Overload != "" && !slices.Contains(ofOverload, t.Overload):
		return fmt.Errorf("overload %q; it is one of %s", t.Overload, strings.Join(ofOverload, ", "))
	case t.Growth != "" && !slices.Contains(Growths, t.Growth):
		return fmt.Errorf("growth %q; it is one of %s", t.Growth, strings.Join(Growths, ", "))
	case (t.Growth != "") != (t.By > 0) || t.PerHour < 0 || t.PerHour > 0 && t.Growth == "" || t.Growth != "" && t.MaxMS != 0:
		return errors.New("growth has a by above 0 and, if it may go on, a per_hour in place of a max; nothing else has one")
	case (t.Overload == OverloadGoodput) != (t.Least > 0) || t.Least > 0 && t.MaxMS > 0 || t.Least < 0 || t.Least > 1:
		return errors.New("overload: goodput has a least part of the capacity, above 0 and at most 1, in place of a max; nothing else has one")
	case t.Latency == "" && (t.Quantile != "" || t.Phase != "" || t.TimesBefore != 0):
		return errors.New("quantile, phase and times_before belong to latency")
	case t.Least > 0, t.Growth != "":
		return nil
	case t.MaxMS < 0 || t.TimesBefore < 0 || (t.MaxMS > 0) == (t.TimesBefore > 0):
		return errors.New("a threshold needs a max of at least 1ms, or for latency times_before above 0 instead")
	case t.Latency != "":
		return t.checkLatency()
	}
	return nil
}

func (t Threshold) checkLatency() error {
	switch {
	case timed[t.Latency] == "":
		return fmt.Errorf("latency of %q; it is one of %s", t.Latency, strings.Join(slices.Sorted(maps.Keys(timed)), ", "))
	case !slices.Contains(quantiles, t.Quantile):
		return fmt.Errorf("quantile %q; it is one of %s", t.Quantile, strings.Join(quantiles, ", "))
	case t.Phase == "":
		return errors.New("latency needs a phase")
	case t.TimesBefore > 0 && t.Phase == PhaseBefore:
		return errors.New("phase before cannot be compared with itself")
	}
	return nil
}

// String names the number: "p99 of lock in phase fault".
func (t Threshold) String() string {
	switch {
	case t.Recovery == RecoveryFirst:
		return "recovery of the first"
	case t.Recovery != "":
		return "recovery of the slowest"
	case t.Lateness != "":
		return t.Lateness + " of lateness"
	case t.Overload != "":
		return overloadNames[t.Overload]
	case t.Growth != "":
		return GrowthOf + t.Growth
	}
	return fmt.Sprintf("%s of %s in phase %s", t.Quantile, t.Latency, t.Phase)
}

// Allowed is what may grow, in words with its unit.
func (t Threshold) Allowed() string {
	unit := ""
	if t.Growth == GrowthMemory || t.Growth == GrowthStorage {
		unit = " MB"
	}
	s := fmt.Sprintf("%g%s", t.By, unit)
	if t.PerHour > 0 {
		s += fmt.Sprintf(", and %g%s an hour", t.PerHour, unit)
	}
	return s
}

// Progress is what must get done while a fault is in force, by those who can reach a
// quorum then. A run that stays below it fails P11.
type Progress struct {
	// the fault, by name or id; any: from the first fault to the last
	Fault string `json:"fault" is:"name"`
	// whose successes min_cycles counts: the fault's targets, or all others; absent:
	// everybody's
	Group string `json:"group,omitempty" of:"targets others"`
	// the least number of successes between inject and heal, over all of the fault's
	// injections
	MinCycles int `json:"min_cycles,omitempty" is:"span"`
	// for how long a lock or shard may be asked for without a success; only what somebody asks
	// counts whose own way to a quorum is open
	LongestGapMS int64 `json:"longest_gap_ms" is:"span"`
}

// AnyFault stands for all faults of a run, from the first to the last.
const AnyFault = "any"

// Check says what is wrong with the expectation itself.
func (p Progress) Check() error {
	switch {
	case p.Fault == "":
		return errors.New("progress names no fault")
	case p.Group != "" && p.Group != GroupTargets && p.Group != GroupOthers:
		return fmt.Errorf("progress of group %q; the groups are %s, %s", p.Group, GroupTargets, GroupOthers)
	case p.MinCycles < 0 || p.LongestGapMS <= 0:
		return fmt.Errorf("progress under %s needs a longest gap above 0, and at least 0 cycles", p.Fault)
	}
	return nil
}

// Host is how busy the machine was in a phase that ends, by the harness's own timer: a
// sleep of 10 ms that lasts longer says that the processor was busy.
type Host struct {
	// the phase
	Phase string `json:"phase" is:"name"`
	// how late a sleep of 10 ms was, over the phase's time: one pause of 3 s counts as 3 s of
	// lateness, not as one sample
	LagP50MS float64 `json:"lag_p50_ms" below:"1e9" is:"zero"`
	// the same; above 500 bounds of time are not judged
	LagP99MS float64 `json:"lag_p99_ms" below:"1e9" is:"zero"`
	// the same
	LagMaxMS float64 `json:"lag_max_ms" below:"1e9" is:"zero"`
	// the part of the processors' time that the host gave to other virtual machines
	Steal float64 `json:"steal,omitempty" below:"1.001"`
	// of the warmup: latencies had not settled when its time was over
	Cold bool `json:"cold,omitempty"`
}

// Usage is what a process takes of the machine, as the harness reads it.
type Usage struct {
	// resident memory
	MemoryKB int64 `json:"memory_kb" is:"count zero"`
	// open file descriptors
	Descriptors int64 `json:"descriptors" is:"count zero"`
	// of the operating system
	Threads int64 `json:"threads" is:"count zero"`
	// of a worker, as it says itself: nobody else can count them; absent: it does not
	Goroutines int64 `json:"goroutines,omitempty" is:"count"`
	// of a node: what its data and commit log have on disk; absent: they cannot be seen
	StorageKB int64 `json:"storage_kb,omitempty" is:"count"`
}

// Of is how much there is of something that can grow, in its unit, and whether that is known.
func (u Usage) Of(growth string) (amount float64, known bool) {
	switch growth {
	case GrowthMemory:
		return float64(u.MemoryKB) / 1024, true
	case GrowthDescriptors:
		return float64(u.Descriptors), true
	case GrowthThreads:
		return float64(u.Threads), true
	case GrowthGoroutines:
		return float64(u.Goroutines), u.Goroutines > 0
	case GrowthStorage:
		return float64(u.StorageKB) / 1024, u.StorageKB > 0
	}
	return 0, false
}

// MaxLagMS is the lag at p99 above which times say nothing about the system.
const MaxLagMS = 500
