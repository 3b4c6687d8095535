package schedulertest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/scheduler"
	"fencepost/core/service/query"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store/sim"
)

// DefaultQueue is the queue of a Harness whose options were not changed.
const DefaultQueue = "default"

// Harness is a scheduler process in a bubble, and what it works on. Tests call its
// methods, and handlers call Crash, CrashAt and Scheduler.
type Harness struct {
	// Sink takes effects, also of clients that the test makes itself.
	Sink sink.Sink
	// Store has the jobs, schedules and locks; Connect gives other clients of it.
	Store *sim.Store

	fail     func(format string, args ...any)
	change   []func(*scheduler.Options)
	handlers scheduler.Handlers // those of Handle
	reader   *query.Reader
	queue    string
	running  sync.WaitGroup

	mu      sync.Mutex
	turns   int // see turn
	ids     int
	lives   int
	live    *process
	over    bool
	crashAt engine.StepKind
}

// Test runs f in a bubble with a scheduler that owns its shards already, and stops that
// when f returns. Changes are made to the scheduler's options, as
//
//	func(o *scheduler.Options) { o.Slots = 10 }
func Test(t *testing.T, f func(t *testing.T, h *Harness), change ...func(*scheduler.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := begin(t.Fatalf, change)
		defer h.end()
		f(t, h)
	})
}

// Example is Test for Example functions, which have no *testing.T: what would fail a
// test panics.
func Example(f func(h *Harness), change ...func(*scheduler.Options)) {
	var failed any
	// Nothing is asked of this T, and nothing may be: it belongs to no test.
	synctest.Test(new(testing.T), func(*testing.T) {
		defer func() { failed = recover() }()
		h := begin(func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }, change)
		defer h.end()
		f(h)
	})
	if failed != nil {
		panic(failed)
	}
}

// Handle makes f the handler of the jobs of a kind, before any is enqueued; the test fails
// if they have one. Handlers that a program has together can be given as
//
//	func(o *scheduler.Options) { o.Handlers = handlers }
func Handle[Args any](h *Harness, k scheduler.Kind[Args], f func(ctx context.Context, t *scheduler.Task, args Args) error) {
	if err := k.Register(h.handlers, f); err != nil {
		h.fail("%v", err)
	}
	h.alive().handle(string(k), h.handlers[string(k)])
}

func begin(fail func(string, ...any), change []func(*scheduler.Options)) *Harness {
	h := &Harness{Sink: sinktest.NewMemory(), Store: sim.New(), fail: fail, change: change, handlers: scheduler.Handlers{}}
	p := h.start()
	for !p.ownsAll() {
		select {
		case <-p.life.Done():
			h.fail("schedulertest: the scheduler does not start: %v", context.Cause(p.life))
		case <-time.After(time.Millisecond):
		}
	}
	session := h.Store.Connect("reader", 1)
	h.queue, h.reader = p.s.Queues()[0].Name, query.New(query.Options{Shards: session, Runs: session, Queues: p.s})
	return h
}

func (h *Harness) end() {
	h.mu.Lock()
	h.over = true
	h.live.stop()
	h.mu.Unlock()
	h.running.Wait()
}

func (h *Harness) alive() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live
}

// Scheduler is the process that is alive now; after a crash it is another one.
func (h *Harness) Scheduler() *scheduler.Scheduler { return h.alive().s }

// settle is time for what is due at the end of Advance: the store takes microseconds, and
// instants of jobs are whole milliseconds.
const settle = 10 * time.Millisecond

// Advance lets time pass, with everything that is due meanwhile, and 10 ms more, so that
// what is due just then has happened, or begun, when it returns. It is a barrier: tests and
// handlers may share plain variables, as what a test did before it comes before every handler
// that begins in it, and what handlers did comes before what the test does next.
func (h *Harness) Advance(d time.Duration) {
	h.turn()
	time.Sleep(d + settle)
	synctest.Wait()
}

// turn orders handlers after the test. In the bubble they follow each other anyway, but the
// memory model knows only half of it: synctest.Wait orders what ran before what follows it,
// and nothing orders the test before the timer that wakes a handler.
func (h *Harness) turn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turns++
}

// AdvanceTo is Advance to an instant; one that is past fails the test.
func (h *Harness) AdvanceTo(t time.Time) {
	d := time.Until(t)
	if d < 0 {
		h.fail("schedulertest: AdvanceTo %s: it is %s already", t, time.Now())
	}
	h.Advance(d)
}

// Job is what is known of a job in the first queue, or in the one that is named; with
// State "" if nothing is.
func (h *Harness) Job(id job.ID, queue ...string) query.Job {
	h.turn() // a read takes time, in which handlers may begin
	q := append(slices.Clone(queue), h.queue)[0]
	j, err := h.reader.Job(context.Background(), q, id)
	if err != nil && !errors.Is(err, query.ErrNone) {
		h.fail("schedulertest: job %s in queue %q: %v", id, q, err)
	}
	return j
}

// Crash ends the process here and now, and starts another one. What it returns is
// for the handler that calls it to return.
func (h *Harness) Crash() error {
	h.alive().crash()
	return ErrCrashed
}

// CrashAt crashes the process when anything comes to a step for the next time:
// engine.StepClaim before a handler is called, StepFinish when it has returned and its
// end is not stored yet, StepComplete when that is stored and nothing has followed.
func (h *Harness) CrashAt(k engine.StepKind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.crashAt = k
}

// crashesAt reports whether a process is to crash at a step, once.
func (h *Harness) crashesAt(k engine.StepKind) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.crashAt == "" || h.crashAt != k {
		return false
	}
	h.crashAt = ""
	return true
}

// newID names jobs, in the order in which they are enqueued.
func (h *Harness) newID() (id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids++
	binary.BigEndian.PutUint64(id[8:], uint64(h.ids))
	return id
}
