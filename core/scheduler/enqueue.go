package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// Option changes a job before it is enqueued. Its error is a *job.InvalidError.
type Option func(*job.Job) error

// with makes an option that cannot fail.
func with(f func(*job.Job)) Option {
	return func(j *job.Job) error { f(j); return nil }
}

// Key gives the job an idempotency key: there is one job for it in its queue, however
// often it is enqueued, until it is forgotten, engine.Options.DedupeWindow after its end.
func Key(key string) Option { return with(func(j *job.Job) { j.Key = key }) }

// Queue names the job's queue; default: the scheduler's first one.
func Queue(name string) Option { return with(func(j *job.Job) { j.Queue = name }) }

// At lets the job run from an instant on, by the wall clock; rounded up to milliseconds.
func At(t time.Time) Option {
	return with(func(j *job.Job) { j.Due = t.Add(time.Millisecond - 1).Truncate(time.Millisecond) })
}

// Delay is At that long from now.
func Delay(d time.Duration) Option {
	return func(j *job.Job) error { return At(time.Now().Add(d))(j) }
}

// Priority lets the job run before others that are due in its shard and have a lower
// one; default 0.
func Priority(n int) Option { return with(func(j *job.Job) { j.Priority = n }) }

// Retry sets when the job is tried again; default job.DefaultRetry.
func Retry(p job.RetryPolicy) Option { return with(func(j *job.Job) { j.Retry = p }) }

// MaxAttempts bounds how often it is tried, the first time included; default 5.
func MaxAttempts(n int) Option { return with(func(j *job.Job) { j.MaxAttempts = n }) }

// MaxDuration bounds one run, whose context then ends; default 1 min.
func MaxDuration(d time.Duration) Option { return with(func(j *job.Job) { j.MaxDuration = d }) }

// AtMostOnce lets a job end as abandoned whose process died or lost its shard while it
// ran, of which nobody knows how far it came. Failed attempts are still tried again.
func AtMostOnce() Option { return with(func(j *job.Job) { j.Rescue = job.AtMostOnce }) }

// Then lets another job follow when this one has completed; a second Then, one that
// follows that, and so on. They are in this one's queue.
func Then[Args any](k Kind[Args], args Args, options ...Option) Option {
	return func(j *job.Job) error {
		next, err := k.Job(args, options...)
		if err != nil {
			return fmt.Errorf("job %d of a sequence: %w", len(j.Then)+2, err)
		}
		j.Then = append(j.Then, next)
		return nil
	}
}

// GoOn lets what follows the job follow it too if it ends in the dead letter queue or
// as abandoned; default: the sequence stops there.
func GoOn() Option { return with(func(j *job.Job) { j.OnFailure = job.GoOn }) }

// Enqueue enqueues a job, in the scheduler's first queue if it names none, with an id
// that is made here if it has none. When it returns without an error the job will
// not be lost. A job that is due may be running by then.
//
// While nobody knows whether it was enqueued it is asked for again, with the same id,
// until that is known or ctx ends. Then the error is an *engine.EnqueueError whose
// Outcome is store.Unknown; a job with a Key may be enqueued again all the same. Whatever
// else fails certainly was not done: a *job.InvalidError, or what engine.RetryAfter reports, when
// there is too much to do already and the caller should come again after that time.
func (s *Scheduler) Enqueue(ctx context.Context, j job.Job) (engine.Receipt, error) {
	name, err := s.queueOf(j.Queue)
	if err != nil {
		return engine.Receipt{}, err
	}
	q, err := s.Queue(ctx, name)
	if err != nil { // whatever it says of the queue, nothing is known to anybody of the job
		return engine.Receipt{}, &store.Error{Op: "enqueue", Outcome: store.Fail, Permanent: store.IsPermanent(err), Cause: err}
	}
	j.Queue = name
	own := false // only copies of this one have its id
	switch {
	case j.ID != "":
	case j.Key != "":
		j.ID = job.KeyedID(name, j.Key, q.First)
	default:
		j.ID, own = job.SpreadID(s.newID(), q.First, q.Shards), true
	}
	rec, err := again(ctx, s, func() (engine.Receipt, error) { return s.Submit(ctx, j) }, unknown)
	rec.Duplicate = rec.Duplicate && !own
	return rec, err
}

// NewUUID makes a UUID that begins with the time (version 7), for job.UniqueID.
func NewUUID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// MaxMany is how many jobs EnqueueMany takes.
const MaxMany = 1000

// Enqueued is what became of one job of many: what Enqueue would have returned.
type Enqueued struct {
	engine.Receipt
	Err error
}

// EnqueueMany enqueues up to MaxMany jobs side by side, so that those of a shard ride in the same ticks:
// a hundred cost not much more than one. Each is enqueued or not by itself, and has its own answer, in
// the order of jobs; it is no transaction. The error is a *job.InvalidError: there are too many, and none
// was enqueued.
func (s *Scheduler) EnqueueMany(ctx context.Context, jobs []job.Job) ([]Enqueued, error) {
	if len(jobs) > MaxMany {
		return nil, &job.InvalidError{Field: "jobs", Reason: fmt.Sprintf("are %d: at most %d at once", len(jobs), MaxMany)}
	}
	out := make([]Enqueued, len(jobs))
	var all sync.WaitGroup
	for n, j := range jobs {
		all.Go(func() { out[n].Receipt, out[n].Err = s.Enqueue(ctx, j) })
	}
	all.Wait()
	return out, nil
}

// PutSchedule creates or changes a schedule, in the scheduler's first queue if it names
// none. Putting what is there already does nothing, so a program may put its schedules
// whenever it starts. While no owner of the schedule's shard is known or nobody knows
// whether it was done, as when a process has just started, it is asked for again until
// ctx ends. Other commands: Schedule.
func (s *Scheduler) PutSchedule(ctx context.Context, d schedule.Definition) (engine.Receipt, error) {
	name, err := s.queueOf(d.Queue)
	if err != nil {
		return engine.Receipt{}, err
	}
	if _, err := s.Queue(ctx, name); errors.As(err, new(*job.InvalidError)) {
		return engine.Receipt{}, err
	}
	d.Queue = name
	put := func() (engine.Receipt, error) {
		return s.Schedule(ctx, engine.ScheduleCommand{Verb: engine.PutSchedule, Definition: &d})
	}
	return again(ctx, s, put, func(err error) bool { return unknown(err) || errors.Is(err, engine.ErrNotOwner) })
}

// queueOf is the name of a queue, or that of the first.
func (s *Scheduler) queueOf(name string) (string, error) {
	all := s.engine.Queues()
	switch {
	case name != "":
		return name, nil
	case len(all) == 0:
		return "", &job.InvalidError{Field: "queue", Reason: "is empty, and this scheduler has none"}
	}
	return all[0].Name, nil
}

// unknown reports an error after which nobody knows whether a request was carried out.
func unknown(err error) bool {
	return !errors.As(err, new(*job.InvalidError)) && !errors.As(err, new(*schedule.InvalidError)) && store.OutcomeOf(err) == store.Unknown
}

// again repeats a request that may be repeated, after a pause, while it fails in such a
// way and ctx lasts. After an unknown outcome only success is known: another copy that
// is refused says nothing about the one before.
func again(ctx context.Context, s *Scheduler, ask func() (engine.Receipt, error), when func(error) bool) (engine.Receipt, error) {
	var unsure error
	for {
		rec, err := ask()
		if err != nil && unknown(err) {
			unsure = err
		}
		if err == nil || unsure == nil && !when(err) {
			return rec, err
		}
		if s.clock.Sleep(ctx, s.pause) != nil {
			return engine.Receipt{}, cmp.Or(unsure, err)
		}
	}
}
