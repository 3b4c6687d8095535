package history

import (
	"errors"
	"fmt"
)

// Progress is what must get done while a fault is in force, by those who can reach a
// quorum then. A run that stays below it fails P11.
type Progress struct {
	// Fault is a fault's name ("partition") or id ("f1"), or AnyFault.
	Fault string `json:"fault"`
	// Group is whose successes MinCycles counts, relative to the fault's targets
	// (GroupTargets, GroupOthers); "": everybody's.
	Group string `json:"group,omitempty"`
	// MinCycles is the least number of successes between inject and heal, over all of
	// the fault's injections.
	MinCycles int `json:"min_cycles,omitempty"`
	// LongestGapMS is for how long a lock or shard may be asked for without a success,
	// in ms. Only what somebody asks counts whose own way to a quorum is open.
	LongestGapMS int64 `json:"longest_gap_ms"`
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
	Phase string `json:"phase"`
	// LagP50MS, LagP99MS and LagMaxMS are how late the timer was, over the phase's time:
	// one pause of 3 s counts as 3 s of lateness, not as one sample.
	LagP50MS float64 `json:"lag_p50_ms"`
	LagP99MS float64 `json:"lag_p99_ms"`
	LagMaxMS float64 `json:"lag_max_ms"`
	// Steal is the part of the processors' time that the host of this virtual machine
	// gave to others, from 0 to 1.
	Steal float64 `json:"steal,omitempty"`
	// Cold, of the warmup only: latencies had not settled when its time was over.
	Cold bool `json:"cold,omitempty"`
}

// MaxLagMS is the lag at p99 above which times say nothing about the system.
const MaxLagMS = 500
