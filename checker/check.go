package checker

import (
	"context"
	"io"
	"time"

	"fencepost/checker/explain"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// Defaults of Options.
const (
	DefaultSearch = 60 * time.Second
	DefaultLimit  = 10 * time.Minute
	DefaultMemory = 4 << 30
)

// Options tune a check. The zero value is usable.
type Options struct {
	// Dir is the run's directory: visualizations are written below it, and the
	// files named in violations are relative to it. "" writes none.
	Dir string `json:"dir,omitempty"`
	// Search is the CPU time that all Porcupine searches together may take; what
	// only they can judge is unknown if it is not finished then. Default DefaultSearch.
	Search time.Duration `json:"search_ns,omitempty"`
	// Limit is the time that a child process may take in all, reading included
	// (CheckInChild only). Default DefaultLimit.
	Limit time.Duration `json:"limit_ns,omitempty"`
	// Memory is the memory that a child process may use, in bytes (CheckInChild
	// only). Default DefaultMemory; negative: no limit.
	Memory int64 `json:"memory_bytes,omitempty"`
}

func (o Options) withDefaults() Options {
	if o.Search <= 0 {
		o.Search = DefaultSearch
	}
	if o.Limit <= 0 {
		o.Limit = DefaultLimit
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	return o
}

// Check judges a history. It never panics on a history that the reader accepts;
// a cancelled ctx ends the searches and leaves what they had to find unknown.
func Check(ctx context.Context, h *history.History, o Options) *Result {
	o = o.withDefaults()
	return judge(ctx, property.New(h, false, o.Dir, o.Search))
}

// judge checks a judgement's properties, and tells in words what came of it.
func judge(ctx context.Context, j *property.Judgement) *Result {
	r := j.Check(ctx)
	a := explain.Answer(j, r)
	r.Answer, r.Summary = &a, a.Text()
	r.Millis = j.Millis()
	return r
}

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
	Overload      = property.Overload
	Growth        = property.Growth
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

// AnswerOf is the answer of a result: the one in it, or for results of older versions one made
// of the rest and of its explanation, if there is one (nil: none).
func AnswerOf(r *Result, e *Explanation) Answer { return explain.AnswerOf(r, e) }

// DescribesFault says whether an answer has words for what a fault does to workers.
func DescribesFault(name string) bool { return explain.DescribesFault(name) }

// PrintExplanation writes an explanation for people: the answer, how one case came about, and
// the mistakes that fit. Files are named relative to dir.
func PrintExplanation(w io.Writer, e *Explanation, dir string) { explain.Print(w, e, dir) }

// SoFar judges the history of a run that still goes on, consistent as
// [history.Tail] gives it, by what can be said before the end (soFar in the properties'
// rows), as far as the system promises it. It returns the properties with findings. None
// is a property that holds, and most findings can be made at the end only; but those made
// now are the end's too.
//
// These are the checks of the verdict, over the same past. Only the sink's ledger,
// which is read at the end, is replaced by the part of it that the sink's own answers
// show.
func SoFar(ctx context.Context, h *history.History, o Options) []Property {
	o = o.withDefaults()
	return property.New(h, true, o.Dir, o.Search).SoFar(ctx)
}

// MissingSometimes returns the reach points of expect (an expectation's sometimes)
// that none of the results reached, in order. The caller passes the last 20 kept
// runs of one scenario: a point that a single run may miss must not be missed by
// all of them.
func MissingSometimes(expect []string, results []Result) []string {
	var out []string
	for _, point := range expect {
		hit := false
		for i := range results {
			hit = hit || results[i].Counts.Points[point] > 0
		}
		if !hit {
			out = append(out, point)
		}
	}
	return out
}
