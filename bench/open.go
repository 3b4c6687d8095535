package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"fencepost/core/store"
)

// OpenParts are the names of what a latency of an open load consists of: how long an
// operation waited for its turn, and how long it took from then on.
var OpenParts = []string{"until it was begun", "from then on"}

// Open runs an operator under an open load: operations come at the window's rate, with
// exponential gaps, whatever became of those before. All that came within the window count,
// those that ended after it too; a latency is from when an operation was meant to begin.
func (w Window) Open(ctx context.Context, op Operator) (Sample, error) {
	if w.Rate <= 0 {
		return Sample{}, errors.New("no rate to offer: the arm that has it did nothing yet")
	}
	start := time.Now()
	opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Length+DrainTimeout)
	defer cancel()
	first := op.Traffic()
	cost, sky := w.spent(first), w.weather()
	o := &openTally{tally: newTally(w.Arm, start, start.Add(w.Length)), threads: make(chan *Thread, w.Arm.Threads), waiting: map[int]time.Time{}}
	for i := range w.Arm.Threads {
		o.threads <- w.Thread(i)
	}
	load, err := Offer{
		Begin: start, Length: w.Length, Rate: w.Rate, Senders: w.Arm.Threads,
		Rand: rand.New(rand.NewPCG(w.Seed, 1<<48|uint64(w.Round)<<16|uint64(w.Arm.Threads))),
		Came: o.came,
		Stop: func() bool { return ctx.Err() != nil },
		Do: func(ctx context.Context, n int, at time.Time) time.Duration {
			th := <-o.threads
			began := time.Now()
			e := op.Operate(ctx, th, func() bool { return ctx.Err() != nil })
			o.ended(th, n, e, at, began, time.Now())
			o.threads <- th
			return 0
		},
	}.Run(opCtx)
	if err != nil {
		return Sample{}, err
	}
	s := o.sample
	s.Arm, s.Round, s.Started, s.Seconds, s.Offered = w.Arm.ID, w.Round, start, w.Length.Seconds(), w.Rate
	// The load is that of the window and of the end of what came within it.
	s.Load = w.weather().since(sky)
	last := op.Traffic()
	s.Sent, s.Ended, s.Done = last.Minus(first), s.OK, s.OK
	s.Cost = w.spent(last).since(cost, s.Done)
	s.Waiting = load.Left
	for _, at := range o.waiting {
		s.Oldest = max(s.Oldest, time.Since(at))
	}
	s.Lag = load.Lag
	return s, s.check()
}

// openTally is what an open load saw.
type openTally struct {
	*tally
	threads chan *Thread
	waiting map[int]time.Time // those that came and have not ended
}

func (o *openTally) came(n int, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting[n] = at
}

func (o *openTally) ended(th *Thread, n int, e End, at, began, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting, n)
	if e.GaveUp {
		e.Outcome = store.Unknown
	}
	o.sample.note(e.Err)
	o.sample.count(th, e.Outcome, now.Sub(at), []time.Duration{began.Sub(at), now.Sub(began)})
}
