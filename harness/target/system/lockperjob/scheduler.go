package lockperjob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/core/worker"
)

// Scheduler runs the jobs of a queue.
type Scheduler struct {
	o     Options
	rows  rows
	locks store.Locks
	ids   ids
	pool  *worker.Pool
	slots []*slot
	rng   *rand.Rand // of the poller
	hand  *hand
	work  chan Pending

	// runs ends when runs have to, writes when nothing may be written any more.
	runs, writes context.Context
	interrupt    context.CancelCauseFunc
	stopWriting  context.CancelCauseFunc
}

// ids are unique numbers; *cassandra.IDs has them in blocks.
type ids interface {
	Next(ctx context.Context, name string) (int64, error)
}

// slot is one of the places in which jobs are in progress.
type slot struct {
	holder string // of the locks that are taken in it
	rng    *rand.Rand
	log    *slog.Logger
}

// New makes a scheduler; Run starts it. Options.DB stays the caller's to close.
func New(o Options) (*Scheduler, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.DB == nil {
		return nil, errors.New("lockperjob: DB is missing")
	}
	return newScheduler(o, NewRows(o.DB, o.Queue), NewLocks(o.DB, o.TTL), cassandra.NewIDs(o.DB, o.BlockSize)), nil
}

func newScheduler(o Options, rows rows, locks store.Locks, ids ids) *Scheduler {
	s := &Scheduler{o: o, rows: rows, locks: locks, ids: ids, rng: fork(o.Rand), hand: newHand(), work: make(chan Pending)}
	s.runs, s.interrupt = context.WithCancelCause(context.Background())
	s.writes, s.stopWriting = context.WithCancelCause(context.Background())
	pool := worker.Options{Slots: o.Slots, Handlers: o.Handlers, Clock: o.Clock, Logger: o.Logger}
	if o.Sink != nil {
		pool.Sink = unraised{o.Sink}
	}
	s.pool = worker.New(pool)
	for i := range o.Slots {
		w := &slot{holder: fmt.Sprintf("%s/r%d", o.Name, i+1), rng: fork(o.Rand)}
		w.log = o.Logger.With("holder", w.holder)
		s.slots = append(s.slots, w)
	}
	return s
}

// fork is a stream of random numbers of its own.
func fork(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }

// errStopped ends what a scheduler still writes when its time is over.
var errStopped = errors.New("lockperjob: the scheduler stops")

// lastWrites is for how long a scheduler writes down how its runs ended after they had
// to end.
const lastWrites = 5 * time.Second

// Run works until ctx ends, then lets runs end for DrainTimeout, interrupts the rest,
// and returns when no handler is at work any more. It is called once.
func (s *Scheduler) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, w := range s.slots {
		wg.Go(func() { s.serve(w) })
	}
	s.poll(ctx)
	close(s.work)
	defer s.o.Clock.AfterFunc(s.o.DrainTimeout, func() { s.interrupt(job.ErrInterrupted) })()
	defer s.o.Clock.AfterFunc(s.o.DrainTimeout+lastWrites, func() { s.stopWriting(errStopped) })()
	wg.Wait()
	s.pool.Wait()
	s.interrupt(job.ErrInterrupted)
	s.stopWriting(errStopped)
	return nil
}

// poll looks at all buckets again and again.
func (s *Scheduler) poll(ctx context.Context) {
	for ctx.Err() == nil {
		more := false
		for _, bucket := range s.rng.Perm(s.o.Buckets) {
			more = s.look(ctx, bucket) || more
		}
		s.hand.forget(s.o.Wall().UnixMilli())
		if !more {
			_ = s.o.Clock.Sleep(ctx, s.o.Poll)
		}
	}
}

// look reads what is due in a bucket and hands it to the slots, for at most the time
// of a poll: what was read before is what others may have done meanwhile. It reports
// whether there is likely to be more.
func (s *Scheduler) look(ctx context.Context, bucket int) (more bool) {
	if ctx.Err() != nil {
		return false
	}
	now := s.o.Wall().UnixMilli()
	rctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	due, err := s.rows.due(rctx, bucket, now, s.o.Page)
	cancel()
	if err != nil {
		if ctx.Err() == nil {
			s.o.Logger.Warn("reading bucket failed", "bucket", bucket, "error", err)
		}
		return false
	}
	// All processes read the same rows: not in the same order, or they would compete
	// for each.
	s.rng.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	old := make(chan struct{})
	defer s.o.Clock.AfterFunc(s.o.Poll, func() { close(old) })()
	for _, p := range due {
		if !s.hand.take(p, now) {
			continue
		}
		select {
		case s.work <- p:
			more = more || len(due) == s.o.Page
			continue
		case <-old:
			more = true
		case <-ctx.Done():
		}
		s.hand.drop(p)
		break
	}
	return more
}

// serve takes up jobs in one slot.
func (s *Scheduler) serve(w *slot) {
	for p := range s.work {
		if l := s.claim(w, p); l != nil {
			stop := l.keep(w)
			s.execute(w, p, l)
			stop()
			if err := l.release(); err != nil {
				w.log.Warn("releasing lock failed", "lock", l.name, "error", err)
			}
		}
		s.hand.drop(p)
	}
}

// Pauses between two tries of a write under a lock.
const (
	pauseMin = 50 * time.Millisecond
	pauseMax = 2 * time.Second
)

// insist repeats a request until it is acknowledged; it fails only when the scheduler
// stops. Plain writes can be repeated as they set what they set.
func (s *Scheduler) insist(f func(context.Context) error) error {
	pause, outcome := pauseMin, store.Fail
	for {
		ctx, cancel := context.WithTimeout(s.writes, s.o.RequestTimeout)
		err := f(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if store.OutcomeOf(err) == store.Unknown {
			outcome = store.Unknown
		}
		if stopped := s.o.Clock.Sleep(s.writes, pause); stopped != nil {
			return &store.Error{Op: "write a job's rows", Outcome: outcome, Cause: errors.Join(stopped, err)}
		}
		pause = min(2*pause, pauseMax)
	}
}

// Submit enqueues a job by two plain writes, its row and then its pending row. A job
// that is there is a duplicate; if it waits its pending row is written again, as the
// enqueue before may have been cut between the two. store.OutcomeOf tells of an error
// whether the job certainly was not enqueued.
func (s *Scheduler) Submit(ctx context.Context, j job.Job) (engine.Receipt, error) {
	j = j.WithDefaults()
	fail := func(outcome store.Outcome, err error) (engine.Receipt, error) {
		return engine.Receipt{}, &store.Error{Op: "enqueue " + string(j.ID), Outcome: outcome, Cause: err}
	}
	if err := j.Check(s.o.Buckets); err != nil {
		return fail(store.Fail, err)
	}
	body, err := j.Encode()
	if err != nil {
		return fail(store.Fail, err)
	}
	try := func(f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
		defer cancel()
		return f(ctx)
	}
	bucket, _ := j.ID.Shard() // Check has read it
	r := Row{ID: j.ID, Body: body, State: job.Pending, Due: s.o.Wall().UnixMilli()}
	if !j.Due.IsZero() {
		r.Due = j.Due.UnixMilli()
	}
	var old *Row
	if err := try(func(ctx context.Context) (err error) {
		old, err = s.rows.job(ctx, j.ID)
		return err
	}); err != nil {
		return fail(store.Fail, err)
	}
	switch {
	case old == nil:
		s.o.Observer.Step(Step{Kind: StepEnqueue, Lock: LockName(s.o.Queue, j.ID), Job: j.ID})
		if err := try(func(ctx context.Context) error { return s.rows.insert(ctx, r) }); err != nil {
			return fail(store.OutcomeOf(err), err)
		}
	case old.State != job.Pending:
		return engine.Receipt{ID: j.ID, Duplicate: true}, nil
	default:
		r.Due = old.Due
	}
	if err := try(func(ctx context.Context) error {
		return s.rows.addPending(ctx, Pending{Bucket: bucket, Due: r.Due, ID: j.ID})
	}); err != nil {
		return fail(store.Unknown, err) // the job's row is there
	}
	if old == nil {
		s.o.Observer.Step(Step{Kind: StepEnqueued, Lock: LockName(s.o.Queue, j.ID), Job: j.ID})
	}
	return engine.Receipt{ID: j.ID, Duplicate: old != nil}, nil
}

// hand is what a process does not need to take up: the jobs that it has in hand, and
// pending rows of those whose locks others hold, until they expire. (A retry has
// another row.)
type hand struct {
	mu   sync.Mutex
	mine map[job.ID]bool
	held map[Pending]int64 // until, ms since 1970
}

func newHand() *hand { return &hand{mine: map[job.ID]bool{}, held: map[Pending]int64{}} }

// take reports whether a job is to be taken up, and then has it in hand. now is the
// wall clock's time in ms since 1970.
func (h *hand) take(p Pending, now int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mine[p.ID] || h.held[p] > now {
		return false
	}
	delete(h.held, p)
	h.mine[p.ID] = true
	return true
}

// leave remembers that somebody else has the lock of the row's job.
func (h *hand) leave(p Pending, until int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[p] = until
}

func (h *hand) drop(p Pending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.mine, p.ID)
}

// forget drops what has expired: most jobs that others hold never come up again.
func (h *hand) forget(now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p, until := range h.held {
		if until <= now {
			delete(h.held, p)
		}
	}
}
