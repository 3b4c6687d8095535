package linear

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

const (
	// SegmentOps is how many operations Porcupine sees at once of a partition that can be
	// cut: for each one that it places it remembers a bit set of all of them.
	SegmentOps = 128
	// longestSearch bounds the CPU time of one partition, so that a single bad one leaves
	// time for others.
	longestSearch = 20 * time.Second
	// MaxSearchBytes bounds what one search may remember.
	MaxSearchBytes = 512 << 20
)

// step is the input of one operation in a model: what it does to a state, or
// false if it cannot have happened in it. Steps are pure.
type step interface {
	apply(state any) (bool, any)
	String() string
	source() *past.Op // nil: none
	// observes: it changes nothing, so it can be left out of a counterexample.
	observes() bool
	// pending is the step as one whose answer is not known yet.
	pending() step
}

// closing ends a segment: the object is in a state, and from then on all that happens to
// it belongs to later segments.
type closing struct {
	state any
	by    *past.Op // of those of later segments the one that ended first, or nil
}

func (c *closing) apply(state any) (bool, any) { return state == c.state, closed }

func (c *closing) observes() bool { return false }

func (c *closing) pending() step { return anything{} }

func (c *closing) source() *past.Op { return c.by }

func (c *closing) String() string {
	if c.by == nil {
		return "end of segment"
	}
	return fmt.Sprintf("%s: the end of %s, which comes after all of this", c.by.Invoke.Proc, c.by.Invoke.Op)
}

// closed is the state in which nothing happens to the object any more.
var closed any = closedState{}

type closedState struct{}

// anything demands nothing.
type anything struct{}

func (anything) apply(state any) (bool, any) { return true, state }

func (anything) observes() bool { return true }

func (anything) pending() step { return anything{} }

func (anything) source() *past.Op { return nil }

func (anything) String() string { return "" }

// Partition is one independent object's operations: a lock row or a resource.
type Partition struct {
	Name string
	any  any // the state of which nothing is known
	Size int // operations
	// clean: the linear-time checks found nothing wrong; decided: they would have, so
	// that Porcupine is a second opinion.
	clean, Decided bool
	// Segments are made as they are asked for. The object's operations have an order of
	// the model exactly if those of each segment have one.
	Segments iter.Seq[segment]
	hash     func(state any) uint64
	show     func(state any) string
}

// segment is a stretch of an object's history and the state that it begins in.
type segment struct {
	init any
	ops  []porcupine.Operation // by call
}

func (pt *Partition) model(init any) porcupine.Model {
	return porcupine.Model{
		Init:              func() any { return init },
		Step:              func(state, input, _ any) (bool, any) { return input.(step).apply(state) },
		Hash:              func(state any) uint64 { return when(state, pt.hash, 0) },
		Equal:             func(x, y any) bool { return x == y },
		DescribeOperation: func(input, _ any) string { return input.(step).String() },
		DescribeState:     func(state any) string { return when(state, pt.show, "later") },
		DescribeOperationMetadata: func(m any) string {
			s, _ := m.(string)
			return s
		},
	}
}

// when is f of a state that is not closed.
func when[T any](state any, f func(any) T, otherwise T) T {
	if state == closed {
		return otherwise
	}
	return f(state)
}

func operation(s step, call, ret int64) porcupine.Operation {
	// A return before its call contradicts the chain: the linear-time checks report it.
	return porcupine.Operation{Input: s, Call: call, Return: max(call, ret)}
}

// Found is the outcome of one partition's search.
type Found struct {
	Part   *Partition
	Result porcupine.CheckResult
	Reason string // why it is Unknown
	// segment is what an illegal or unknown result is about.
	segment segment
}

// Budget is the CPU time that all searches of a check share. It is not wall-clock time:
// how busy the machine is must not change a verdict.
type Budget struct {
	Ctx    context.Context
	End    time.Duration // as CPUTime
	Memory int           // of one search, in bytes
}

// NewBudget lets searches go on until ctx is done or this process has used so much CPU time.
func NewBudget(ctx context.Context, end time.Duration) Budget {
	return Budget{ctx, end, MaxSearchBytes}
}

// within is the part of the budget that one search may take.
func (b Budget) within(most time.Duration) Budget {
	b.End = min(b.End, CPUTime()+most)
	return b
}

// spent says why nothing may be searched any more, "" if it may. A search that is under
// way when ctx's deadline comes is ended by Porcupine itself.
func (b Budget) spent() string {
	switch {
	case errors.Is(b.Ctx.Err(), context.Canceled):
		return "the check was stopped"
	case CPUTime() >= b.End:
		return "the CPU time for searching was used up"
	}
	return ""
}

// CPUTime is what this process has used.
func CPUTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(fmt.Sprintf("clock_gettime(CLOCK_PROCESS_CPUTIME_ID): %v", err)) // cannot fail on Linux
	}
	return time.Duration(ts.Nano())
}

// search runs Porcupine on one segment. Unknown comes with a reason.
func (b Budget) search(m porcupine.Model, ops []porcupine.Operation) (porcupine.CheckResult, string) {
	stop := b.spent()
	if stop != "" {
		return porcupine.Unknown, stop
	}
	timeout := time.Duration(0) // none
	if t, ok := b.Ctx.Deadline(); ok {
		timeout = max(1, time.Until(t))
	}
	each := len(ops)/8 + 100
	tried, placed := 0, 0
	apply := m.Step
	m.Step = func(state, input, output any) (bool, any) {
		if tried++; tried%1024 == 0 && stop == "" {
			stop = b.spent()
		}
		if stop != "" {
			return false, state // so that the search ends
		}
		ok, next := apply(state, input, output)
		if ok {
			placed++
			if placed*each > b.Memory {
				stop = fmt.Sprintf("%d operations need more memory than allowed", len(ops))
			}
		}
		return ok, next
	}
	result := porcupine.CheckOperationsTimeout(m, ops, timeout)
	switch {
	case result == porcupine.Unknown: // and its search may still go on for a moment
		return result, "Porcupine was out of time"
	case result == porcupine.Illegal && stop != "":
		return porcupine.Unknown, stop
	}
	return result, ""
}

// Search runs Porcupine over the partitions, one after the other, as each needs memory.
// Those that the linear-time checks found wrong come last: only they can use up the budget.
func Search(b Budget, parts []*Partition) []Found {
	out := make([]Found, len(parts))
	for _, clean := range []bool{true, false} {
		for i, pt := range parts {
			if pt.clean == clean {
				out[i] = SearchPart(b.within(longestSearch), pt)
			}
		}
	}
	return out
}

func SearchPart(b Budget, pt *Partition) Found {
	f := Found{Part: pt, Result: porcupine.Ok}
	for s := range pt.Segments {
		result, reason := b.search(pt.model(s.init), s.ops)
		switch result {
		case porcupine.Illegal:
			return Found{Part: pt, Result: result, segment: s}
		case porcupine.Unknown:
			f = Found{pt, result, reason, s}
			if b.spent() != "" {
				return f
			}
		}
	}
	return f
}

// byCall puts the operations of a segment in order.
func byCall(ops []porcupine.Operation) {
	slices.SortStableFunc(ops, func(x, y porcupine.Operation) int { return cmp.Compare(x.Call, y.Call) })
}

// Worst combines results: Illegal, then Unknown, then Ok.
func Worst(fs []Found) porcupine.CheckResult {
	r := porcupine.Ok
	for _, f := range fs {
		if f.Result == porcupine.Illegal {
			return porcupine.Illegal
		}
		if f.Result == porcupine.Unknown {
			r = porcupine.Unknown
		}
	}
	return r
}

// hashInt is a hash of an integer (the finalizer of splitmix64).
func hashInt(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// describe says where an operation stands, for a visualization's tooltip.
func describe(dir string, o *past.Op) string {
	if o == nil {
		return ""
	}
	s := fmt.Sprintf("%s, id %d, %s:%d", o.Invoke.Proc, o.Invoke.ID, phrase.File(dir, o.Invoke.File), o.Invoke.Line)
	if o.End == nil {
		return s + ", no end"
	}
	if o.End.Error != "" {
		s += ", " + o.End.Error
	}
	if o.Outcome == history.Unknown && o.End.ServerTimeout {
		s += ", the coordinator's timeout"
	}
	return s
}
