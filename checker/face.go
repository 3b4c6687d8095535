package checker

import (
	"io"

	"fencepost/checker/explain"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// The result of a check, as others read it.
type (
	Verdict       = property.Verdict
	Result        = property.Result
	Answer        = property.Answer
	Property      = property.Property
	Status        = property.Status
	Violation     = property.Violation
	EventRef      = property.EventRef
	Counts        = property.Counts
	JobCounts     = property.JobCounts
	OrderCounts   = property.OrderCounts
	Spread        = property.Spread
	Recovery      = property.Recovery
	FaultRecovery = property.FaultRecovery
	Bound         = property.Bound
	Progress      = property.Progress
)

// Verdicts, in the order in which they win.
const (
	Fail    = property.Fail
	Invalid = property.Invalid
	Unknown = property.Unknown
	Pass    = property.Pass
)

// Statuses of a property.
const (
	StatusPass    = property.StatusPass
	StatusFail    = property.StatusFail
	StatusUnknown = property.StatusUnknown
	StatusInvalid = property.StatusInvalid
	StatusNA      = property.StatusNA
)

// The explanation of a result.
type (
	Explanation = explain.Explanation
	Cause       = explain.Cause
	LogLine     = explain.LogLine
	Step        = property.Step
)

// Roles of a Step.
const (
	RoleBefore  = property.RoleBefore
	RoleFault   = property.RoleFault
	RoleMistake = property.RoleMistake
	RoleHarm    = property.RoleHarm
)

// Catalogue is all properties with their titles, in order, without a judgement.
func Catalogue() []Property { return property.Catalogue() }

// Mechanisms are the ids of all mechanisms that can be named.
func Mechanisms() []string { return property.Mechanisms() }

// Explain looks for the mechanisms behind a verdict. Options.Dir is the run's
// directory, to which files are relative.
func Explain(h *history.History, r *Result, o Options) *Explanation {
	return explain.Verdict(h, r, o.Dir)
}

// Told is the answer of a result: the one in it, or for results of older versions one made
// of the rest and of its explanation, if there is one (nil: none).
func Told(r *Result, e *Explanation) Answer { return explain.Told(r, e) }

// FaultTold says whether an answer has words for what a fault does to workers.
func FaultTold(name string) bool { return explain.FaultTold(name) }

// PrintExplanation writes an explanation for people: the answer, how one case came about, and
// the mistakes that fit. Files are named relative to dir.
func PrintExplanation(w io.Writer, e *Explanation, dir string) { explain.Print(w, e, dir) }
