package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/core/store"
	"fencepost/reports/measure"
)

// drainTimeout bounds what is still on its way when an arm's window is over.
const drainTimeout = 15 * time.Second

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
	// Latency of the ok operations within the window, in µs.
	Latency *hdrhistogram.Histogram
	// Waiting is the number of operations still going on at the window's end,
	// which are in no other count; Oldest is how long the oldest had taken by then.
	Waiting int
	Oldest  time.Duration
	// Sent is what was sent from the first operation until all had ended, and
	// Done how many ended ok meanwhile, those after the window too: so the
	// requests an operation takes are counted without cut edges.
	Sent traffic
	Done int64
	// Load is who kept the processors busy within the window.
	Load load
	// Error is one of the errors met, "" if there were none.
	Error string
}

// Rate is the number of ok operations a second.
func (s Sample) Rate() float64 { return float64(s.OK) / s.Seconds }

// LWTsPerOp is the number of conditional requests sent for each ok operation.
func (s Sample) LWTsPerOp() float64 {
	if s.Done == 0 {
		return 0
	}
	return float64(s.Sent.LWTs) / float64(s.Done)
}

// tally is what one thread saw.
type tally struct {
	ok, fail, unknown, done int64
	latency                 *hdrhistogram.Histogram
	waiting                 bool
	oldest                  time.Duration
	err                     error
}

// cell runs an arm for one window. Threads start together; each does one
// operation after the other until the window is over, and then finishes the one
// that it is at, so that nothing of it disturbs the next arm. Every key is used
// once before the window begins: rows are there, caches are filled. pids are the
// database's processes.
func cell(ctx context.Context, s subject, arm Arm, c Contention, round int, window time.Duration, seed uint64, pids []int) (Sample, error) {
	keys := make([]string, c.Keys(arm.Threads))
	for i := range keys {
		// Other keys in every round: which node leads a key's partition is drawn
		// anew, so that a slow node shows as spread, not as a difference of arms.
		keys[i] = fmt.Sprintf("%s#%d/%d", arm.ID, round, i)
	}
	threads := make([]*thread, arm.Threads)
	for i := range threads {
		threads[i] = newThread(arm, round, i, seed)
	}
	prime(ctx, s, threads, keys)

	opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), window+drainTimeout)
	defer cancel()
	before, sky := s.traffic(), readWeather(pids)
	start := time.Now()
	end := start.Add(window)
	over := func() bool { return !time.Now().Before(end) || ctx.Err() != nil }
	tallies := make([]tally, len(threads))
	var wg sync.WaitGroup
	for i, th := range threads {
		wg.Go(func() { tallies[i] = loop(opCtx, s, th, c, keys, end, over) })
	}
	// The load is that of the window, without draining.
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	busy := readWeather(pids).since(sky)
	wg.Wait()
	sample := Sample{Arm: arm.ID, Round: round, Started: start, Seconds: window.Seconds(), Load: busy, Sent: s.traffic().minus(before), Latency: measure.NewHistogram()}
	return sample, sample.add(tallies)
}

// loop is one thread's window.
func loop(ctx context.Context, s subject, th *thread, c Contention, keys []string, end time.Time, over func() bool) tally {
	t := tally{latency: measure.NewHistogram()}
	for !over() {
		key := keys[0]
		switch c {
		case Low:
			key = keys[th.number]
		case Medium:
			key = keys[th.rng.IntN(len(keys))]
		}
		began := time.Now()
		r := s.operate(ctx, th, key, over)
		now := time.Now()
		if r.err != nil {
			t.err = r.err
		}
		if !r.gaveUp && r.outcome == store.OK {
			t.done++
		}
		if r.gaveUp || now.After(end) {
			t.waiting, t.oldest = true, end.Sub(began)
			return t
		}
		switch r.outcome {
		case store.OK:
			t.ok++
			if err := measure.Record(t.latency, now.Sub(began)); err != nil {
				t.err = err
			}
		case store.Fail:
			t.fail++
		default:
			t.unknown++
		}
	}
	return t
}

// add merges the threads' tallies.
func (s *Sample) add(tallies []tally) error {
	for _, t := range tallies {
		s.OK, s.Fail, s.Unknown, s.Done = s.OK+t.ok, s.Fail+t.fail, s.Unknown+t.unknown, s.Done+t.done
		s.PerThread = append(s.PerThread, t.ok)
		if t.waiting {
			s.Waiting++
			s.Oldest = max(s.Oldest, t.oldest)
		}
		if t.err != nil && s.Error == "" {
			s.Error = t.err.Error()
		}
		if err := measure.Merge(s.Latency, t.latency); err != nil {
			return fmt.Errorf("%s, round %d: %w", s.Arm, s.Round, err)
		}
	}
	if n := s.Latency.TotalCount(); n != s.OK {
		return fmt.Errorf("%s, round %d: %d latencies for %d operations (%s)", s.Arm, s.Round, n, s.OK, s.Error)
	}
	return nil
}

// prime uses every key once. An operation that fails here does no harm: the
// window's own will count.
func prime(ctx context.Context, s subject, threads []*thread, keys []string) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	never := func() bool { return ctx.Err() != nil }
	var wg sync.WaitGroup
	for i, th := range threads {
		wg.Go(func() {
			for k := i; k < len(keys) && ctx.Err() == nil; k += len(threads) {
				s.operate(ctx, th, keys[k], never)
			}
		})
	}
	wg.Wait()
}
