package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// Verb is what a ScheduleCommand does.
type Verb string

// The verbs. Each may be repeated: what is done already is not done again.
const (
	// PutSchedule creates or changes a schedule. With another timing it starts over;
	// what has begun goes on.
	PutSchedule Verb = "put"
	// RemoveSchedule forgets a schedule; what has begun goes on.
	RemoveSchedule Verb = "remove"
	// DisableSchedule stops a schedule, and passes over what waits in its queue;
	// EnableSchedule lets it go on from then on.
	EnableSchedule  Verb = "enable"
	DisableSchedule Verb = "disable"
	// TriggerSchedule fires an occurrence by hand, if the schedule is disabled too.
	TriggerSchedule Verb = "trigger"
)

// ScheduleCommand is a command on one schedule.
type ScheduleCommand struct {
	Verb Verb `json:"verb"`
	// Queue and Key name the schedule. To put one they may be left to its Definition.
	Queue string `json:"queue,omitempty"`
	Key   string `json:"key,omitempty"`
	// Definition is what is put.
	Definition *schedule.Definition `json:"definition,omitempty"`
	// Trigger names a manual trigger, unique for the schedule, so that it can be
	// repeated without firing twice: up to schedule.MaxTrigger letters, digits and
	// . _ : / + -
	Trigger string `json:"trigger,omitempty"`
}

// Name is the key of the schedule.
func (c ScheduleCommand) Name() string {
	if c.Definition != nil {
		return c.Definition.Key
	}
	return c.Key
}

// scheduleCommand is one that has been checked.
type scheduleCommand struct {
	ScheduleCommand
	id   job.ID
	def  *schedule.Schedule // of put
	body []byte
}

// ErrUnknownSchedule: there is no such schedule.
var ErrUnknownSchedule = errors.New("there is no such schedule")

// BrokenError is a schedule whose row cannot be read: it fires nothing, and can be
// put again or removed.
type BrokenError struct {
	Schedule string
	Cause    error
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("schedule %s cannot be read, put it again or remove it: %v", e.Schedule, e.Cause)
}

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.Cause }

// Schedule carries a command out, in one tick, and returns when that is settled. The
// receipt's ID is the schedule's, or of the job that a trigger enqueues, now or when
// its turn comes; Duplicate: nothing had to be done.
//
// This process must own the schedule's shard, which is that of job.ScheduleID, else
// the cause is ErrNotOwner. The error is a *CommandError, or a *schedule.InvalidError
// or *job.InvalidError. Its cause may be ErrUnknownSchedule, schedule.ErrOverlap, a
// *BrokenError, or that of any other command. Repeating a command whose outcome is
// unknown is safe.
func (e *Engine) Schedule(ctx context.Context, c ScheduleCommand) (Receipt, error) {
	var q store.Queue
	checked, err := e.check(c, func(name string) (_ store.Queue, err error) {
		q, err = e.Queue(ctx, name)
		return q, err
	})
	if err != nil {
		return Receipt{}, err
	}
	i := &intent{kind: doSchedule, command: checked, wait: newWaiter()}
	a, err := e.ask(ctx, e.shard(place(checked.Queue, checked.id)), i)
	if err != nil {
		return Receipt{}, err
	}
	rec := Receipt{ID: checked.id, Duplicate: a.duplicate}
	if c.Verb == TriggerSchedule {
		rec.ID = job.Occurrence{Schedule: checked.Key, Trigger: c.Trigger}.ID(checked.Queue, q.First)
	}
	return rec, nil
}

// check reports a command that cannot be carried out.
func (e *Engine) check(c ScheduleCommand, queue func(string) (store.Queue, error)) (*scheduleCommand, error) {
	bad := func(field, format string, args ...any) error {
		return &schedule.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	if _, ok := scheduleSteps[c.Verb]; !ok {
		return nil, bad("verb", "is %q: want put, remove, enable, disable or trigger", c.Verb)
	}
	if (c.Verb == PutSchedule) != (c.Definition != nil) {
		return nil, bad("definition", "belongs to put, and to nothing else")
	}
	if d := c.Definition; d != nil {
		if c.Queue != "" && c.Queue != d.Queue || c.Key != "" && c.Key != d.Key {
			return nil, bad("definition", "is of schedule %q in queue %q, and the command of %q in %q", d.Key, d.Queue, c.Key, c.Queue)
		}
		c.Queue, c.Key = d.Queue, d.Key
	}
	q, err := queue(c.Queue)
	out := &scheduleCommand{ScheduleCommand: c, id: job.ScheduleID(c.Queue, c.Key, q.First)}
	if err != nil {
		return nil, (&intent{kind: doSchedule, command: out}).failed(store.Fail, ofSchedule(err))
	}
	if c.Definition == nil {
		return out, nil
	}
	if out.def, err = schedule.New(*c.Definition, q.First); err != nil {
		return nil, err
	}
	if out.body, err = out.def.Encode(); err != nil {
		return nil, bad("body", "%v", err)
	}
	return out, e.checkSize(out)
}

// ofSchedule is what is said of a queue in a command on a schedule.
func ofSchedule(err error) error {
	var invalid *job.InvalidError
	if errors.As(err, &invalid) {
		return &schedule.InvalidError{Field: invalid.Field, Reason: invalid.Reason}
	}
	return err
}

// checkSize reports a definition of which a batch might be larger than it may.
func (e *Engine) checkSize(c *scheduleCommand) error {
	r := newRecurring(c.id, c.def, c.body)
	j := longestJob(c.def)
	size := max(c.most(nil), r.fireBytes+r.stateBytes, room(j, len(longestBody(c.def)), mostNote))
	if size > e.o.MaxBytes {
		return &schedule.InvalidError{Field: "job", Reason: fmt.Sprintf(
			"is too large: changes of up to %d bytes, at most %d fit into a batch; put what is large elsewhere and name it in the payload", size, e.o.MaxBytes)}
	}
	return nil
}

// most is the most bytes that the command takes in a batch; r is its schedule, as far
// as that is decided.
func (c *scheduleCommand) most(r *recurring) int {
	n := 2*(store.RowBytes+len(c.id)) + len(c.body) + stateRoom(c.Key)
	if r != nil && c.Verb == TriggerSchedule {
		n += r.fireBytes
	}
	return n
}

// step is what enable, disable and trigger do to a schedule.
func (c *scheduleCommand) step(s *schedule.Schedule, st schedule.State, now int64) (schedule.Decision, error) {
	switch c.Verb {
	case EnableSchedule:
		return schedule.Decision{State: s.Enable(st, now)}, nil
	case DisableSchedule:
		return s.Disable(st, now), nil
	}
	return s.Trigger(st, c.Trigger, now)
}

// ReadSchedule reads a schedule from the store: the latest tick may not show yet. The
// definition's Key is "" if there is none, or no state of it: it may have been removed between
// the two reads. A schedule that cannot be read is a *BrokenError.
func (e *Engine) ReadSchedule(ctx context.Context, queue, key string) (schedule.Definition, schedule.State, error) {
	var d schedule.Definition
	var st schedule.State
	q, err := e.Queue(ctx, queue)
	if err != nil {
		return d, st, ofSchedule(err)
	}
	id := job.ScheduleID(queue, key, q.First)
	at := store.Key{Kind: store.KindSchedule, At: AtDefinition, ID: string(id)}
	rctx, stop := e.timeout(ctx, e.o.RequestTimeout)
	defer stop()
	shard := place(queue, id)
	def, err := e.store.Row(rctx, shard, at)
	if err != nil || def == nil {
		return d, st, err
	}
	at.At = AtState
	state, err := e.store.Row(rctx, shard, at)
	if err != nil || state == nil {
		return d, st, err
	}
	return DecodeSchedule(*def, state)
}

// DecodeSchedule reads the rows of a schedule. One that cannot be read, or whose state
// is missing (nil), is a *BrokenError.
func DecodeSchedule(def store.Row, state *store.Row) (d schedule.Definition, st schedule.State, err error) {
	name := def.ID
	if d, err = schedule.Decode(def.Body); err == nil {
		name, err = d.Key, errNoState
	}
	if state != nil && errors.Is(err, errNoState) {
		err = json.Unmarshal(state.Body, &st)
	}
	if err != nil {
		return d, st, &BrokenError{Schedule: name, Cause: err}
	}
	return d, st, nil
}

// Lateness reports what a schedule did not do in time.
type Lateness struct {
	Shard store.ShardID
	// Schedule is its key, or its id if its row cannot be read.
	Schedule string
	// Late were fired, by up to By after their nominal times.
	Late []job.Occurrence
	By   time.Duration
	// Missed and Skipped are how many nominal times were passed over, as they came too
	// late, or as the occurrence before had not ended.
	Missed, Skipped int64
	// Err: the schedule cannot be read, or the store refuses its jobs. It does not fire
	// until it is put again, or another process owns the shard.
	Err error
}
