package lockperjob

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/job"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

const (
	testTTL     = 6 * time.Second
	testBuckets = 2
	blockSize   = 100
)

// world is a cluster in memory with the processes that use it, in a synctest bubble.
type world struct {
	t     *testing.T
	locks *sim.Store
	mu    sync.Mutex
	jobs  map[job.ID]Row
	wait  map[Pending]bool
	past  []run
	next  int64 // first token that no block has
	// plain and conditional are the writes so far.
	plain, conditional int
}

func newWorld(t *testing.T) *world {
	return &world{t: t, locks: sim.New(), jobs: map[job.ID]Row{}, wait: map[Pending]bool{}, next: 1}
}

// process is one scheduler with its own way to the store.
type process struct {
	*Scheduler
	w      *world
	locks  *sim.Session
	end    context.CancelFunc
	over   chan struct{}
	mu     sync.Mutex
	offset time.Duration // of its wall clock
	cut    bool          // its plain requests are not answered
	busy   bool          // or are refused
	tokens []int64       // of its block, that are left
}

// start runs a process. change sets its options.
func (w *world) start(name string, handler worker.Handler, change func(*Options)) *process {
	p := &process{w: w, over: make(chan struct{})}
	p.locks = w.locks.Connect(name, 1)
	p.locks.SetFaults(sim.Faults{Latency: time.Millisecond})
	o := Options{
		Name: name, Queue: "q", Buckets: testBuckets, TTL: testTTL, Slots: 4, Clock: clock.Go(), Logger: quiet,
		Wall: p.wall, Rand: rand.New(rand.NewPCG(2, uint64(name[0]))), Handlers: map[string]worker.Handler{"k": handler},
		DrainTimeout: time.Second, Sink: sinktest.NewMemory(),
	}
	if change != nil {
		change(&o)
	}
	o, err := o.withDefaults()
	if err != nil {
		w.t.Fatal(err)
	}
	p.Scheduler = newScheduler(o, p, counted{p.locks, w}, p)
	ctx, cancel := context.WithCancel(w.t.Context())
	p.end = cancel
	go func() {
		defer close(p.over)
		if err := p.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	return p
}

// stop ends the process in order; one that is cut off gives up what it cannot write.
func (p *process) stop() {
	p.end()
	<-p.over
}

func (p *process) wall() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.offset)
}

// counted counts conditional requests.
type counted struct {
	store.Locks
	w *world
}

func (c counted) CAS(ctx context.Context, name string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	c.w.mu.Lock()
	c.w.conditional++
	c.w.mu.Unlock()
	return c.Locks.CAS(ctx, name, from, to, copyNo)
}

var errCut = errors.New("no answer")

// request is one plain request to the store: f is done unless the process is cut off.
func (p *process) request(ctx context.Context, f func()) error {
	p.mu.Lock()
	cut, busy := p.cut, p.busy
	p.mu.Unlock()
	if busy {
		return &store.Error{Op: "write", Outcome: store.Fail, Cause: errCut}
	}
	if cut {
		<-ctx.Done()
		return &store.Error{Op: "write", Outcome: store.Unknown, Cause: errCut}
	}
	if err := clock.Go().Sleep(ctx, time.Millisecond); err != nil {
		return &store.Error{Op: "write", Outcome: store.Fail, Cause: err}
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	f()
	return nil
}

func (p *process) write(ctx context.Context, f func()) error {
	return p.request(ctx, func() { p.w.plain++; f() })
}

// cutOff cuts the process off from the store, or lets it back.
func (p *process) cutOff(cut bool) {
	p.mu.Lock()
	p.cut = cut
	p.mu.Unlock()
	p.locks.Cut(cut)
}

func (p *process) refuse(busy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = busy
}

func (p *process) due(ctx context.Context, bucket int, now int64, limit int) (out []Pending, err error) {
	err = p.request(ctx, func() {
		for x := range p.w.wait {
			if x.Bucket == bucket && x.Due <= now {
				out = append(out, x)
			}
		}
		slices.SortFunc(out, func(a, b Pending) int { return int(a.Due - b.Due) })
		out = out[:min(limit, len(out))]
	})
	return out, err
}

func (p *process) addPending(ctx context.Context, x Pending) error {
	return p.write(ctx, func() { p.w.wait[x] = true })
}

func (p *process) removePending(ctx context.Context, x Pending) error {
	return p.write(ctx, func() { delete(p.w.wait, x) })
}

func (p *process) job(ctx context.Context, id job.ID) (out *Row, err error) {
	err = p.request(ctx, func() {
		if r, ok := p.w.jobs[id]; ok {
			out = &r
		}
	})
	return out, err
}

func (p *process) insert(ctx context.Context, r Row) error {
	return p.write(ctx, func() { p.w.jobs[r.ID] = r })
}

func (p *process) save(ctx context.Context, r Row) error {
	return p.write(ctx, func() {
		r.Body = p.w.jobs[r.ID].Body
		p.w.jobs[r.ID] = r
	})
}

func (p *process) began(ctx context.Context, r run) error {
	return p.write(ctx, func() { p.w.past = append(p.w.past, r) })
}

func (p *process) ended(ctx context.Context, r run) error {
	return p.write(ctx, func() {
		for i := range p.w.past {
			if x := &p.w.past[i]; x.job == r.job && x.id == r.id {
				x.ended, x.err = r.ended, r.err
			}
		}
	})
}

// Next implements ids, in blocks of a process.
func (p *process) Next(context.Context, string) (int64, error) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if len(p.tokens) == 0 {
		for range blockSize {
			p.tokens = append(p.tokens, p.w.next)
			p.w.next++
		}
	}
	n := p.tokens[0]
	p.tokens = p.tokens[1:]
	return n, nil
}

// ask enqueues a job and fails the test if that fails.
func (p *process) ask(j job.Job) job.ID {
	p.w.t.Helper()
	if _, err := p.Submit(p.w.t.Context(), j); err != nil {
		p.w.t.Fatal(err)
	}
	return j.ID
}

func newJob(key string) job.Job {
	return job.Job{ID: job.KeyedID("q", key, testBuckets), Queue: "q", Kind: "k", Key: key, MaxAttempts: 3,
		Retry: job.RetryPolicy{Delays: []time.Duration{time.Second}, Jitter: 0.2}, MaxDuration: time.Hour}
}

// row is a job's row, and how many pending rows it has.
func (w *world) row(id job.ID) (Row, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for x := range w.wait {
		if x.ID == id {
			n++
		}
	}
	return w.jobs[id], n
}

// runs are the tokens of a job's runs, in order.
func (w *world) runs(id job.ID) (out []job.RunID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.past {
		if r.job == id {
			out = append(out, r.id)
		}
	}
	return out
}

// sleep lets time pass, and then everything that is due at its end happen.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// done is a handler that succeeds at once.
func done(context.Context, *worker.Task) error { return nil }

// lasting is a handler that takes d and cannot be hurried.
func lasting(d time.Duration) worker.Handler {
	return func(context.Context, *worker.Task) error {
		time.Sleep(d)
		return nil
	}
}
