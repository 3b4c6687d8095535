package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/core/store"
	"fencepost/reports"
	"fencepost/reports/measure"
)

// DrainTimeout bounds what is still on its way when an arm's window is over.
const DrainTimeout = 15 * time.Second

// Operator does an arm's operations. It is used by many threads at once.
type Operator interface {
	// Operate does one operation to its end. over reports that the window has
	// passed; then an operation that would have to try again gives up.
	Operate(ctx context.Context, th *Thread, over func() bool) End
	// Traffic returns what has been sent so far.
	Traffic() Traffic
}

// Thread is one closed loop.
type Thread struct {
	// Number is its number in this process, Overall that among the threads of all processes.
	Number, Overall int
	Rng             *rand.Rand
}

// Thread returns the window's thread of that number.
func (w Window) Thread(number int) *Thread {
	overall := w.First + number
	return &Thread{Number: number, Overall: overall, Rng: rand.New(rand.NewPCG(w.Seed, uint64(w.Round)<<32|uint64(w.Arm.Threads)<<16|uint64(overall)))}
}

// End is the end of one operation.
type End struct {
	Outcome store.Outcome
	// GaveUp: the window was over before it could be done; not an outcome.
	GaveUp bool
	Err    error
	// Parts are the latencies that it consists of, as Arm.Parts names them.
	Parts []time.Duration
}

// EndOf is the end of an operation that returned err.
func EndOf(err error) End { return End{Outcome: store.OutcomeOf(err), Err: err} }

// Sample is one arm in one round.
type Sample struct {
	Arm      string
	Round    int
	Position int // in the round
	Started  time.Time
	Seconds  float64
	// OK, Fail and Unknown count the operations that ended within the window.
	OK, Fail, Unknown int64
	// PerThread is OK by thread.
	PerThread []int64
	// Latency of the ok operations within the window, in µs, and of their parts.
	Latency *hdrhistogram.Histogram
	Parts   []*hdrhistogram.Histogram
	// Waiting is the number of operations still going on at the window's end,
	// which are in no other count; Oldest is how long the oldest had taken by then.
	Waiting int
	Oldest  time.Duration
	// Sent is what was sent, and Done how many operations ended ok meanwhile. Without
	// a lead that is from the first operation until all had ended, after the window
	// too, so that the requests an operation takes are counted without cut edges.
	// With a lead it is the window itself: the arm was steady before and after it.
	Sent Traffic
	Done int64
	// SinkLWTs is what the sink sent, and Ended how many operations ended ok, from the
	// first until all had ended, always: an effect takes as many at any load.
	SinkLWTs, Ended int64
	// Offered is the rate of an open load, 0 for a closed one; Lag is by how much its
	// operations were begun later than they were meant to be.
	Offered float64
	Lag     *hdrhistogram.Histogram
	// Cost is what Done operations took beside time.
	Cost *reports.BenchCost
	// Load is who kept the processors busy within the window.
	Load load
	// Error is one of the errors met, "" if there were none.
	Error string
}

// Rate is the number of ok operations a second.
func (s Sample) Rate() float64 { return float64(s.OK) / s.Seconds }

// perOp divides a count of requests by the operations that took them.
func (s Sample) perOp(n int64) float64 {
	if s.Done == 0 {
		return 0
	}
	return float64(n) / float64(s.Done)
}

// LWTsPerOp is the number of conditional requests sent for each ok operation, those
// of the sink left out.
func (s Sample) LWTsPerOp() float64 { return s.perOp(s.Sent.LWTs) }

// Loop runs an operator for the window. Threads start together, a lead before it; each
// does one operation after the other until the window is over, and then finishes the
// one that it is at, so that nothing of it disturbs the next arm.
func (w Window) Loop(ctx context.Context, op Operator) (Sample, error) {
	first := op.Traffic()
	cost := w.spent(first)
	began, err := w.meet(ctx)
	if err != nil {
		return Sample{}, err
	}
	opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Lead+w.Length+DrainTimeout)
	defer cancel()
	start := began.Add(w.Lead)
	end := start.Add(w.Length)
	over := func() bool { return !time.Now().Before(end) || ctx.Err() != nil }
	t := newTally(w.Arm, start, end)
	var wg sync.WaitGroup
	for i := range w.Arm.Threads {
		th := w.Thread(i)
		wg.Go(func() { t.loop(opCtx, op, th, over) })
	}
	Until(ctx, start)
	before, sky := op.Traffic(), w.weather()
	if w.Lead > 0 {
		cost = w.spent(before)
	}
	Until(ctx, end)
	// The load is that of the window, without draining.
	after, busy := op.Traffic(), w.weather().since(sky)
	var all spent
	if w.Lead > 0 {
		all = w.spent(after)
	}
	wg.Wait()
	s := t.sample
	s.Arm, s.Round, s.Started, s.Seconds, s.Load = w.Arm.ID, w.Round, start, w.Length.Seconds(), busy
	last := op.Traffic()
	s.Sent, s.Done = last.Minus(first), s.Ended
	s.SinkLWTs = s.Sent.SinkLWTs
	if w.Lead > 0 {
		s.Sent, s.Done = after.Minus(before), s.OK
	} else {
		all = w.spent(last)
	}
	s.Cost = all.since(cost, s.Done)
	if w.Company != nil {
		if err := w.Company.End(ctx); err != nil {
			return Sample{}, err
		}
	}
	return s, s.check()
}

// meet waits for the instant at which the threads of all processes start.
func (w Window) meet(ctx context.Context) (time.Time, error) {
	if w.Company == nil {
		return time.Now(), nil
	}
	at, err := w.Company.Start(ctx)
	if err != nil {
		return at, err
	}
	if late := time.Since(at); late > 0 {
		return at, fmt.Errorf("%s, round %d: told %s too late when to start", w.Arm.ID, w.Round, late)
	}
	Until(ctx, at)
	return at, nil
}

// Until waits until t, or until ctx ends.
func Until(ctx context.Context, t time.Time) {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// tally is what all threads of a window saw. They share its histograms: those of
// a thousand threads would take more memory than the database.
type tally struct {
	start, end time.Time

	mu     sync.Mutex
	sample Sample
}

func newTally(a Arm, start, end time.Time) *tally {
	t := &tally{start: start, end: end, sample: Sample{PerThread: make([]int64, a.Threads), Latency: measure.NewHistogram()}}
	for range a.Parts {
		t.sample.Parts = append(t.sample.Parts, measure.NewHistogram())
	}
	return t
}

// loop is one thread's window.
func (t *tally) loop(ctx context.Context, op Operator, th *Thread, over func() bool) {
	for !over() {
		began := time.Now()
		e := op.Operate(ctx, th, over)
		if !t.add(th, e, began, time.Now()) {
			return
		}
	}
}

// add counts an operation, and reports whether the thread goes on.
func (t *tally) add(th *Thread, e End, began, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.sample
	s.note(e.Err)
	if !e.GaveUp && e.Outcome == store.OK {
		s.Ended++
	}
	switch {
	case e.GaveUp || now.After(t.end):
		s.Waiting++
		s.Oldest = max(s.Oldest, t.end.Sub(began))
		return false
	case !now.Before(t.start):
		s.count(th, e.Outcome, now.Sub(began), e.Parts)
	}
	return true
}

// count counts an operation by its outcome, and an ok one's latency with its parts.
func (s *Sample) count(th *Thread, o store.Outcome, all time.Duration, parts []time.Duration) {
	switch o {
	case store.OK:
		s.OK++
		s.PerThread[th.Number]++
		s.record(all, parts)
	case store.Fail:
		s.Fail++
	default:
		s.Unknown++
	}
}

func (s *Sample) note(err error) {
	if err != nil && s.Error == "" {
		s.Error = err.Error()
	}
}

func (s *Sample) record(all time.Duration, parts []time.Duration) {
	s.note(measure.Record(s.Latency, all))
	for i, d := range parts {
		s.note(measure.Record(s.Parts[i], d))
	}
}

// check reports latencies that are missing.
func (s *Sample) check() error {
	for _, h := range append([]*hdrhistogram.Histogram{s.Latency}, s.Parts...) {
		if n := h.TotalCount(); n != s.OK {
			return fmt.Errorf("%s, round %d: %d latencies for %d operations (%s)", s.Arm, s.Round, n, s.OK, s.Error)
		}
	}
	return nil
}
