package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Threshold is a bound on a number of the run; a run beyond it fails P15.
// Exactly one of Latency, Recovery and Lateness names the number.
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
)

// Op is the operation or span whose latency is bounded.
func (t Threshold) Op() Op { return timed[t.Latency] }

// NeedsJobs and NeedsLocks say that only runs with jobs, or with locks, have the number.
func (t Threshold) NeedsJobs() bool {
	return t.Lateness != "" || slices.Contains(ofJobs, t.Latency)
}

// NeedsLocks is the opposite of NeedsJobs; both are false for operations on the sink.
func (t Threshold) NeedsLocks() bool { return slices.Contains(ofLocks, t.Latency) }

// Check says what is wrong with the threshold itself.
func (t Threshold) Check() error {
	named := 0
	for _, s := range []string{t.Latency, t.Recovery, t.Lateness} {
		if s != "" {
			named++
		}
	}
	switch {
	case named != 1:
		return errors.New("a threshold bounds one of latency, recovery and lateness")
	case t.Recovery != "" && t.Recovery != RecoveryFirst && t.Recovery != RecoverySlowest:
		return fmt.Errorf("recovery %q; it is %s or %s", t.Recovery, RecoveryFirst, RecoverySlowest)
	case t.Lateness != "" && !slices.Contains(ofLateness, t.Lateness):
		return fmt.Errorf("lateness %q; it is one of %s", t.Lateness, strings.Join(ofLateness, ", "))
	case t.Latency == "" && (t.Quantile != "" || t.Phase != "" || t.TimesBefore != 0):
		return errors.New("quantile, phase and times_before belong to latency")
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
	}
	return fmt.Sprintf("%s of %s in phase %s", t.Quantile, t.Latency, t.Phase)
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

// MaxLagMS is the lag at p99 above which times say nothing about the system.
const MaxLagMS = 500
