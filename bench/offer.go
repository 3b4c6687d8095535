package bench

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fencepost/reports/measure"
)

// Offer is an open load: wishes come at instants drawn before it begins, whatever became of
// those before. A load that waited for answers would ask for nothing while what is measured
// stalls, and find nothing late (coordinated omission; Gil Tene's wrk2).
type Offer struct {
	Begin  time.Time
	Length time.Duration
	// Rate is that of wishes a second. They come with exponential gaps if Rand is set, evenly
	// spaced if not.
	Rate float64
	Rand *rand.Rand
	// Senders are how many wishes may be under way at a time; what comes on top waits in the
	// order in which it is due.
	Senders int
	// Stop, if set, says when a wish comes whether the load is given up.
	Stop func() bool
	// Came, if set, is called with each wish when it comes, whether or not a sender is free.
	Came func(n int, at time.Time)
	// Do asks for the n-th wish, which is meant to be asked for at at. It returns how long to
	// wait before it is to be asked for again; 0: it is done, or is not to be asked for again.
	// A wish that waits occupies no sender.
	Do func(ctx context.Context, n int, at time.Time) (again time.Duration)
}

// Offered is how a load went.
type Offered struct {
	// Wishes came, and of them Left were not asked for even once before the context ended.
	Wishes, Left int
	// Retried counts wishes that were asked for again, each time.
	Retried int
	// Lag is by how much wishes were asked for, the first time, later than they were meant to be.
	Lag *hdrhistogram.Histogram
	// GivenUp: Stop said so.
	GivenUp bool
}

// wish waits to be asked for at due.
type wish struct {
	n       int
	at, due time.Time
	again   bool
}

// wishes is a heap by due.
type wishes []wish

func (w wishes) Len() int           { return len(w) }
func (w wishes) Less(i, j int) bool { return w[i].due.Before(w[j].due) }
func (w wishes) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *wishes) Push(x any)        { *w = append(*w, x.(wish)) }
func (w *wishes) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	*w = (*w)[:last]
	return x
}

// Run offers the load and returns when each wish is done, or when ctx has ended and nothing
// is under way any more.
func (o Offer) Run(ctx context.Context) (Offered, error) {
	r := &offering{Offer: o, out: Offered{Lag: measure.NewHistogram()}, wake: make(chan struct{}, 1)}
	r.draw(o.Begin)
	for ctx.Err() == nil {
		wait, over := r.step(ctx, time.Now())
		if over {
			break
		}
		r.sleep(ctx, wait)
	}
	r.asking.Wait()
	r.out.Left = len(r.ready) - r.again
	return r.out, r.err
}

// offering is a load at work.
type offering struct {
	Offer
	wake   chan struct{} // a sender is free, or a wish is to be asked for again
	asking sync.WaitGroup
	coming *wish // the next new one; nil: none will come

	mu    sync.Mutex
	later wishes // to be asked for again
	ready []wish // due, and no sender is free
	again int    // of them those that were asked for before
	open  int    // under way
	err   error
	out   Offered
}

// draw draws the wish after one that came at last.
func (r *offering) draw(last time.Time) {
	gap := 1 / r.Rate
	if r.Rand != nil {
		gap *= r.Rand.ExpFloat64()
	}
	r.coming = nil
	if at := last.Add(time.Duration(gap * float64(time.Second))); at.Sub(r.Begin) < r.Length {
		r.coming = &wish{n: r.out.Wishes, at: at, due: at}
	}
}

// step has what is due asked for, and says how long nothing else will be; over: nothing will.
func (r *offering) step(ctx context.Context, now time.Time) (wait time.Duration, over bool) {
	for r.coming != nil && !r.coming.due.After(now) {
		w := *r.coming
		if r.Stop != nil && r.Stop() {
			r.coming, r.out.GivenUp = nil, true
			break
		}
		r.out.Wishes++
		if r.Came != nil {
			r.Came(w.n, w.at)
		}
		r.mu.Lock()
		r.ready = append(r.ready, w)
		r.mu.Unlock()
		r.draw(w.at)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.later) > 0 && !r.later[0].due.After(now) {
		r.ready = append(r.ready, heap.Pop(&r.later).(wish))
		r.again++
	}
	for ; len(r.ready) > 0 && r.open < r.Senders; r.ready = r.ready[1:] {
		w := r.ready[0]
		if w.again {
			r.again--
		}
		r.open++
		r.asking.Go(func() { r.ask(ctx, w) })
	}
	wait = time.Hour // until a sender wakes it
	if r.coming != nil {
		wait = min(wait, r.coming.due.Sub(now))
	}
	if len(r.later) > 0 {
		wait = min(wait, r.later[0].due.Sub(now))
	}
	return wait, r.coming == nil && len(r.later)+len(r.ready)+r.open == 0
}

func (r *offering) ask(ctx context.Context, w wish) {
	lag := max(time.Since(w.at), 0)
	again := r.Do(ctx, w.n, w.at)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	if !w.again && r.err == nil {
		r.err = measure.Record(r.out.Lag, lag)
	}
	if again > 0 {
		r.out.Retried++
		heap.Push(&r.later, wish{n: w.n, at: w.at, due: time.Now().Add(again), again: true})
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// sleep waits, or until there is something to do earlier.
func (r *offering) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.wake:
	case <-ctx.Done():
	}
}
