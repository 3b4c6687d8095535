package worker

import (
	"context"
	"errors"
	"fmt"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
)

// Errors of a Task's effects.
var (
	// ErrNoSink: the pool was made without one.
	ErrNoSink = errors.New("worker: the pool has no sink")
	// ErrNotOpen: Apply was called before Open.
	ErrNotOpen = errors.New("worker: call Open before Apply: an earlier run may still have effects")
	// ErrUnsettled: an effect's outcome is unknown, and another was asked for.
	ErrUnsettled = errors.New("worker: an effect is unsettled: apply the same one again first")
	// ErrStale: a later run of the job has opened its effects.
	ErrStale = errors.New("worker: a later run of the job is at work")
)

// Task is a run as its handler sees it. One goroutine uses it.
type Task struct {
	Run    job.Run
	issuer string
	sink   sink.Sink
	valid  func() bool

	open      bool
	unsettled string
}

// Valid looks at the clock: whether the run's shard is still trusted. A handler that
// does something that no sink protects asks immediately before.
func (t *Task) Valid() bool { return t.valid() }

// Token is the run's fencing token.
func (t *Task) Token() int64 { return int64(t.Run.ID) }

// Resource is the sink resource of the job's effects.
func (t *Task) Resource() string { return Resource(t.Run.Job) }

// Resource is the sink resource of a job's effects.
func Resource(j job.Job) string { return "job/" + j.Queue + "/" + string(j.ID) }

// Issuer is the issuer of the token.
func (t *Task) Issuer() string { return t.issuer }

// Open makes sure that no earlier run of the job has an effect from now on, and
// returns what earlier runs did: of keys, those that were accepted. The first run of
// a job has nothing to find and nobody to fence off: Open then asks nobody.
func (t *Task) Open(ctx context.Context, keys ...string) (sink.State, error) {
	switch {
	case t.sink == nil:
		return sink.State{}, ErrNoSink
	case t.unsettled != "":
		return sink.State{}, fmt.Errorf("%w (%s)", ErrUnsettled, t.unsettled)
	case t.Run.First && !t.open:
		t.open = true
		return sink.State{Issuer: t.issuer, Applied: map[string]int64{}}, nil
	}
	a, err := t.sink.Raise(ctx, t.Resource(), t.issuer, t.Token())
	switch {
	case err != nil:
		return sink.State{}, err
	case a.Result == sink.Stale:
		return sink.State{}, fmt.Errorf("%w: token %d was seen", ErrStale, a.Seen)
	}
	st, err := t.sink.Read(ctx, t.Resource(), keys...)
	if err == nil {
		t.open = true
	}
	return st, err
}

// Do makes one effect, at most once over all runs of the job: it opens the task if that
// was not done yet, and applies. If it fails, so should the handler, with that error:
// the next run asks again, and what was accepted meanwhile is a duplicate.
func (t *Task) Do(ctx context.Context, e sink.Effect) error {
	if !t.open {
		if _, err := t.Open(ctx); err != nil {
			return err
		}
	}
	_, err := t.Apply(ctx, e)
	return err
}

// Apply makes one effect. A Duplicate is as good as Applied: an earlier run did it.
func (t *Task) Apply(ctx context.Context, e sink.Effect) (sink.Answer, error) {
	if t.sink == nil {
		return sink.Answer{}, ErrNoSink
	}
	return t.ApplyBy(ctx, e, t.sink.Accept)
}

// Accept is a call by which a sink accepts an effect: sink.Sink's own, or one that does
// more in the same decision.
type Accept func(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error)

// ApplyBy is Apply by another call of the pool's sink, such as one that changes the
// caller's own tables in the transaction that accepts the effect.
func (t *Task) ApplyBy(ctx context.Context, e sink.Effect, accept Accept) (sink.Answer, error) {
	switch {
	case t.sink == nil:
		return sink.Answer{}, ErrNoSink
	case !t.open:
		return sink.Answer{}, ErrNotOpen
	case t.unsettled != "" && t.unsettled != e.Key:
		return sink.Answer{}, fmt.Errorf("%w (%s)", ErrUnsettled, t.unsettled)
	}
	a, err := accept(ctx, t.Resource(), t.issuer, t.Token(), e)
	// That a resend failed says nothing about the first copy, which may still be under way.
	if err != nil && (t.unsettled != "" || sink.OutcomeOf(a, err) == store.Unknown) {
		t.unsettled = e.Key
		return a, err
	}
	t.unsettled = ""
	switch {
	case err != nil:
		return a, err
	case a.Result == sink.Stale:
		return a, fmt.Errorf("%w: token %d was seen", ErrStale, a.Seen)
	case a.Result == sink.Conflict:
		return a, fmt.Errorf("worker: key %q was used for another effect", e.Key)
	}
	return a, nil
}

// Retire returns what an engine.Options.Retire may be for jobs whose Tasks have their
// effects in a sink: their resources are removed from it. Each shard leaves one row, its
// floor, by which the sink refuses what comes late.
func Retire(from sink.Retirer) func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error {
	return func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error {
		resources := make([]string, len(ended))
		for n, id := range ended {
			resources[n] = Resource(job.Job{Queue: shard.Queue, ID: id})
		}
		_, err := from.Retire(ctx, engine.Issuer(shard), int64(below), resources...)
		return err
	}
}
