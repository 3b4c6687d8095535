package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// Job is one job of a chain. Each lock of the run has one chain: its jobs are numbered from 1, and the
// last thing that a job's run does is to put the next one. So no two jobs of a lock overlap unless the
// scheduler runs one of them twice.
type Job struct {
	Lock string
	N    int64
	// Token rises with each run that the scheduler begins of the lock's jobs; 0: it has none.
	Token int64
}

// ID is the job's identity, which all of its runs share. It is the effect's key.
func (j Job) ID() string { return fmt.Sprintf("%s#%d", j.Lock, j.N) }

// Queue is a scheduler as its users use it, through its library.
type Queue interface {
	// Put puts a job, unless one with its ID was put before: a run that is repeated puts the next one too.
	// Where jobs recur it does nothing: N is then the occurrence's number by its nominal time.
	Put(ctx context.Context, j Job) error
	// Close takes no more jobs, waits for those that run, and disconnects.
	Close(ctx context.Context) error
}

// Run is what the user does for a job. An error asks the scheduler to run it again.
type Run func(ctx context.Context, j Job) error

// Scheduler is a kind of Queue.
type Scheduler struct {
	// Setup makes what it needs in the store, once; nil: it needs nothing.
	Setup func(ctx context.Context, at Place) error
	// Open connects, and begins to run jobs, at most so many at once; 0: it only puts some.
	Open func(ctx context.Context, at Place, slots int, run Run) (Queue, error)
	// Fenced: its runs have tokens, and the sink checks them and the effect's key. Keyed: it checks the key
	// alone. Else it knows nothing of either.
	Fenced, Keyed bool
}

// promises: who may run a job, and for how long, only the scheduler knows.
func (s Scheduler) promises() []string {
	if s.Fenced {
		return []string{"P3", "P4", "P10"}
	}
	return []string{"P4", "P10"}
}

// effects is what the service checks.
func (s Scheduler) effects() string {
	switch {
	case s.Fenced:
		return byToken
	case s.Keyed:
		return byKey
	}
	return ofRuns
}

const (
	// putTimeout bounds one attempt to put a job.
	putTimeout = 2 * time.Second
	// closeTimeout is for the jobs that run when the process is told to stop.
	closeTimeout = 20 * time.Second
)

// MainJobs carries out the task that the environment names, with the scheduler that the command line names.
// It does not return.
func MainJobs(schedulers map[string]Scheduler) {
	s := chosen(schedulers)
	carryOut(map[string]func() error{"setup": s.setUp, "work": s.work, "seal": s.seal})
}

// setUp puts the first job of each chain, and says what is offered.
func (s Scheduler) setUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s.Setup != nil {
		if err := s.Setup(ctx, place()); err != nil {
			return err
		}
	}
	q, err := s.Open(ctx, place(), 0, nil)
	if err != nil {
		return err
	}
	for _, lock := range words("LOCKS") {
		err = errors.Join(err, put(ctx, q, Job{Lock: lock, N: 1}))
	}
	if err := errors.Join(err, q.Close(ctx)); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"points": []string{"holding", "effect-sent"}, "promises": s.promises()})
}

// work runs jobs until SIGTERM.
func (s Scheduler) work() error {
	h, err := openHistory()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	w := &workers{opened: make(chan struct{}), idle: make(chan *worker, number("CLIENTS"))}
	for n := range number("CLIENTS") {
		a, err := newActor(h, n, s.effects())
		if err != nil {
			return err
		}
		w.idle <- &worker{actor: a, fenced: s.Fenced}
	}
	if w.queue, err = s.Open(ctx, place(), number("CLIENTS"), w.run); err != nil {
		return err
	}
	close(w.opened)
	if err := ready(); err != nil {
		return err
	}
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := w.queue.Close(last); err != nil {
		return err
	}
	return h.note(event{"op": "exit", "proc": h.life})
}

// seal puts a last entry into each chain, when nobody is there any more to run it. An entry that was
// put before has another ID.
func (s Scheduler) seal() error {
	h, err := openHistory()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sealTime)
	defer cancel()
	q, err := s.Open(ctx, place(), 0, nil)
	if err != nil {
		return err
	}
	for _, lock := range words("LOCKS") {
		to := version{Fence: stamp(), Attempt: uuid.NewString(), TTL: millis("TTL_MS").Milliseconds()}
		op, err := h.invoke(h.life, "seal", lock, event{"from": absent(), "to": to})
		if err != nil {
			return err
		}
		sent := now()
		if err := q.Put(ctx, Job{Lock: lock + "/" + to.Attempt}); err != nil {
			return errors.Join(fmt.Errorf("seal %s: %w", lock, err), h.end(op, "unknown", event{"sends": []int64{sent}, "error": err.Error()}))
		}
		if err := h.end(op, "ok", event{"sends": []int64{sent}}); err != nil {
			return err
		}
	}
	return errors.Join(q.Close(ctx), h.note(event{"op": "exit", "proc": h.life}))
}
