package job

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// OnFailure says what becomes of a sequence when one of its jobs fails.
type OnFailure string

// The choices.
const (
	Stop OnFailure = "stop"
	GoOn OnFailure = "go_on"
)

// MaxThen bounds the jobs that follow one.
const MaxThen = 100

// Next returns the job that follows j in its sequence when j has ended in state s;
// false: none does.
func (j Job) Next(s State, shards int) (Job, bool) {
	failed := s == DLQ || s == Abandoned
	if len(j.Then) == 0 || s != Completed && !(failed && j.OnFailure == GoOn) {
		return Job{}, false
	}
	next := j.Then[0].WithDefaults()
	next.Then = j.Then[1:]
	next.ID, next.After, next.Queue, next.Occurrence = j.ID.follower(shards), j.ID, j.Queue, j.Occurrence
	next.Trace = j.Trace
	if !j.Occurrence.IsZero() {
		next.Key = j.Key
	}
	return next, true
}

func (id ID) follower(shards int) ID { return id.Child("then", shards) }

// checkThen reports a template that is not one, or of which no valid job can be made.
func (j Job) checkThen(shards int) error {
	if len(j.Then) > MaxThen {
		return &InvalidError{Field: "then", Reason: fmt.Sprintf("has %d jobs: want at most %d", len(j.Then), MaxThen)}
	}
	for n, t := range j.Then {
		var invalid *InvalidError
		if err := t.checkTemplate(j.Queue, shards); errors.As(err, &invalid) {
			return &InvalidError{Field: fmt.Sprintf("then[%d].%s", n, invalid.Field), Reason: invalid.Reason}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// CheckTemplate reports a job that cannot be a schedule's: it has what the scheduler
// sets, or no valid job can be made of it.
func (j Job) CheckTemplate(queue string, shards int) error {
	then := j.Then
	j.Then = nil
	if err := j.checkTemplate(queue, shards); err != nil {
		return err
	}
	return Job{Queue: queue, Then: then}.checkThen(shards)
}

func (j Job) checkTemplate(queue string, shards int) error {
	switch {
	case j.ID != "" || j.Queue != "" || j.Key != "" || len(j.Request) > 0 || !j.Due.IsZero() || j.After != "" || !j.Occurrence.IsZero():
		return &InvalidError{Field: "template", Reason: "has an id, a queue, a key, a request, a due time, an occurrence or a predecessor: the scheduler sets those"}
	case len(j.Then) > 0:
		return &InvalidError{Field: "then", Reason: "is nested: list all following jobs in the first one"}
	}
	j = j.WithDefaults()
	j.Queue, j.ID = queue, UniqueID([16]byte{}, shards)
	return j.Check(shards)
}

// Occurrence is one time of a schedule, or one manual trigger of it. It is comparable.
type Occurrence struct {
	Schedule string `json:"schedule"`
	// Nominal is the time that it stands for, in ms since 1970: when the schedule was
	// to fire, not when it did; of a trigger when it was taken.
	Nominal int64 `json:"nominal_ms"`
	// Trigger names a manual trigger; "": the schedule fired by itself.
	Trigger string `json:"trigger,omitempty"`
}

// IsZero reports that it is no occurrence at all.
func (o Occurrence) IsZero() bool { return o == Occurrence{} }

// ScheduleID is a schedule's own place in a queue of so many shards: its jobs are in
// the same shard.
func ScheduleID(queue, schedule string, shards int) ID {
	return KeyedID(queue, "schedule "+schedule, shards)
}

// ID is the id of the occurrence's (first) job: a function of queue, schedule and
// nominal time, or of queue, schedule and trigger.
func (o Occurrence) ID(queue string, shards int) ID {
	name := "at " + strconv.FormatInt(o.Nominal, 10)
	if o.Trigger != "" {
		name = "trigger " + o.Trigger
	}
	return ScheduleID(queue, o.Schedule, shards).Child(name, shards)
}

// Key shows the occurrence: "nightly@2026-03-29T01:00:00Z", of a trigger with its
// name behind it.
func (o Occurrence) Key() string {
	s := o.Schedule + "@" + time.UnixMilli(o.Nominal).UTC().Format("2006-01-02T15:04:05.999Z07:00")
	if o.Trigger != "" {
		s += "/" + o.Trigger
	}
	return s
}

// Job makes the occurrence's job from a template. It has no Due: it is enqueued when
// its time has come, and what was due stays due whatever clocks do.
func (o Occurrence) Job(template Job, queue string, shards int) Job {
	j := template.WithDefaults()
	j.ID, j.Queue, j.Key, j.Occurrence = o.ID(queue, shards), queue, o.Key(), o
	return j
}
