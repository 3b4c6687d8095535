package checker

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sort"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"fencepost/harness/history"
)

// Porcupine remembers a bit set of all operations for each one it places, so a
// partition of n takes n*n/8 bytes. Above epochOps a partition is cut where
// nothing is in flight; one that cannot be cut is not searched above maxOps.
const (
	epochOps = 4_000
	maxOps   = 60_000 // 450 MB
)

// step is the input of one operation in a model: what it does to a state, or
// false if it cannot have happened in it. Steps are pure.
type step interface {
	apply(state any) (bool, any)
	String() string
	source() *op // nil for a pin
	// observes: it changes nothing, so it can be left out of a counterexample.
	observes() bool
	// pending is the step as one whose answer is not known yet.
	pending() step
}

// pin demands a state: it joins the epochs of a partition that was cut.
type pin struct{ state any }

func (p pin) apply(state any) (bool, any) { return state == p.state, state }
func (p pin) observes() bool              { return false }
func (p pin) pending() step               { return p }
func (p pin) String() string              { return fmt.Sprintf("end of epoch: %v", p.state) }
func (p pin) source() *op                 { return nil }

// partition is one independent object's operations: a lock row or a resource.
type partition struct {
	name string
	init any
	any  any // the state of which nothing is known
	ops  []porcupine.Operation
	// after is, by operation, its place in the known order of the writes (chain
	// or ledger), or -1 if it changes nothing.
	after []int
	// stateAt is the state after that place; -1 is init.
	stateAt func(place int) any
	// clean: the linear-time checks found nothing wrong, so that stateAt is the
	// one state that the object can have been in when nothing was in flight.
	clean bool
	hash  func(state any) uint64
	show  func(state any) string
}

func (pt *partition) add(s step, call, ret int64, place int) {
	if ret < call {
		ret = call // contradicts the chain: the linear-time checks report it
	}
	pt.ops = append(pt.ops, porcupine.Operation{Input: s, Call: call, Return: ret})
	pt.after = append(pt.after, place)
}

func (pt *partition) model(init any) porcupine.Model {
	return porcupine.Model{
		Init:              func() any { return init },
		Step:              func(state, input, _ any) (bool, any) { return input.(step).apply(state) },
		Hash:              pt.hash,
		DescribeOperation: func(input, _ any) string { return input.(step).String() },
		DescribeState:     pt.show,
		DescribeOperationMetadata: func(m any) string {
			s, _ := m.(string)
			return s
		},
	}
}

// found is the outcome of one partition's search.
type found struct {
	part   *partition
	result porcupine.CheckResult
	reason string // why it is Unknown
	// ops and init are what the result is about: of a partition that was cut,
	// the epoch that is illegal.
	ops  []porcupine.Operation
	init any
}

// budget is the time that all searches of a check share.
type budget struct {
	ctx context.Context
	end time.Time
}

func (a *analysis) budget(ctx context.Context) budget {
	if a.searchEnd.IsZero() {
		a.searchEnd = time.Now().Add(a.opts.Search)
	}
	return budget{ctx, a.searchEnd}
}

// left is the remaining time, at most most; zero if there is none.
func (b budget) left(most time.Duration) time.Duration {
	if b.ctx.Err() != nil {
		return 0
	}
	d := time.Until(b.end)
	if t, ok := b.ctx.Deadline(); ok {
		d = min(d, time.Until(t))
	}
	return max(0, min(d, most))
}

// searchAll runs Porcupine over the partitions, as many at a time as there are
// processors (Porcupine itself would run all at once and hold all their memory).
// Partitions that the linear-time checks found wrong come last: only they can
// use up the budget.
func searchAll(b budget, parts []*partition) []found {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return parts[order[i]].clean && !parts[order[j]].clean })
	out := make([]found, len(parts))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(len(parts), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				out[i] = searchPart(b, parts[i])
			}
		})
	}
	for _, i := range order {
		next <- i
	}
	close(next)
	wg.Wait()
	return out
}

// longestSearch bounds one partition, so that a single bad one leaves time for others.
const longestSearch = 20 * time.Second

func searchPart(b budget, pt *partition) found {
	f := found{part: pt, result: porcupine.Ok, ops: pt.ops, init: pt.init}
	epochs := pt.epochs()
	for _, e := range epochs {
		if len(e.ops) > maxOps {
			f.result, f.reason = porcupine.Unknown, fmt.Sprintf("%d operations without a quiet instant need more memory than allowed", len(e.ops))
			continue
		}
		left := b.left(longestSearch)
		if left == 0 {
			f.result, f.reason = porcupine.Unknown, "the time for searching was used up"
			return f
		}
		switch porcupine.CheckOperationsTimeout(pt.model(e.init), e.ops, left) {
		case porcupine.Illegal:
			f.result, f.ops, f.init = porcupine.Illegal, e.ops, e.init
			return f
		case porcupine.Unknown:
			f.result, f.reason = porcupine.Unknown, fmt.Sprintf("not finished after %s", left.Round(time.Millisecond))
			if len(epochs) > 1 {
				f.ops, f.init = e.ops, e.init
			}
		}
	}
	return f
}

// epoch is a stretch of a partition between two quiet instants.
type epoch struct {
	init any
	ops  []porcupine.Operation
}

// epochs cuts a large partition where nothing is in flight. The writes before
// such an instant are then exactly a prefix of the known order, so the state is
// known too; it is demanded of one epoch and given to the next.
func (pt *partition) epochs() []epoch {
	pt.sort()
	if len(pt.ops) <= epochOps || !pt.clean {
		return []epoch{{pt.init, pt.ops}}
	}
	var out []epoch
	init, start, place, quiet := pt.init, 0, -1, int64(math.MinInt64)
	for i, o := range pt.ops {
		if i-start >= epochOps && o.Call > quiet {
			state := pt.stateAt(place)
			ops := append(append([]porcupine.Operation(nil), pt.ops[start:i]...),
				porcupine.Operation{Input: pin{state}, Call: quiet + 1, Return: quiet + 1})
			out = append(out, epoch{init, ops})
			init, start = state, i
		}
		quiet = max(quiet, o.Return)
		place = max(place, pt.after[i])
	}
	return append(out, epoch{init, pt.ops[start:]})
}

// sort orders the operations by call, keeping after beside them.
func (pt *partition) sort() {
	sort.Stable(byCall{pt})
}

type byCall struct{ pt *partition }

func (s byCall) Len() int           { return len(s.pt.ops) }
func (s byCall) Less(i, j int) bool { return s.pt.ops[i].Call < s.pt.ops[j].Call }
func (s byCall) Swap(i, j int) {
	s.pt.ops[i], s.pt.ops[j] = s.pt.ops[j], s.pt.ops[i]
	s.pt.after[i], s.pt.after[j] = s.pt.after[j], s.pt.after[i]
}

// worst combines results: Illegal, then Unknown, then Ok.
func worst(fs []found) porcupine.CheckResult {
	r := porcupine.Ok
	for _, f := range fs {
		if f.result == porcupine.Illegal {
			return porcupine.Illegal
		}
		if f.result == porcupine.Unknown {
			r = porcupine.Unknown
		}
	}
	return r
}

// mix is a hash of an integer (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// describe says where an operation stands, for a visualization's tooltip.
func describe(dir string, o *op) string {
	if o == nil {
		return ""
	}
	s := fmt.Sprintf("%s, id %d, %s:%d", o.inv.Proc, o.inv.ID, relative(dir, o.inv.File), o.inv.Line)
	if o.end == nil {
		return s + ", no end"
	}
	if o.end.Error != "" {
		s += ", " + o.end.Error
	}
	if o.outcome == history.Unknown && o.end.ServerTimeout {
		s += ", the coordinator's timeout"
	}
	return s
}
