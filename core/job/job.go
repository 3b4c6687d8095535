package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// Rescue says what becomes of a run whose owner lost its shard while it was running.
type Rescue string

// The policies.
const (
	// AtLeastOnce runs the job again; the sink makes a late original harmless.
	AtLeastOnce Rescue = "at_least_once"
	// AtMostOnce ends the job as abandoned: it may or may not have had its effect.
	AtMostOnce Rescue = "at_most_once"
)

// Limits and defaults of a Job.
const (
	DefaultMaxAttempts = 5
	DefaultMaxDuration = time.Minute
	MaxAttemptsLimit   = 1000
	MaxRequest         = 32
)

// Job is what a client enqueues. It is immutable, except that running it early clears Due.
type Job struct {
	ID    ID     `json:"id,omitempty"`
	Queue string `json:"queue,omitempty"`
	// Kind names the handler.
	Kind string `json:"kind"`
	// Key is the idempotency key, from which ID was made, any UTF-8; "" for none.
	Key string `json:"key,omitempty"`
	// Request is a digest of the request that used Key, at most MaxRequest bytes. It is
	// kept with the job's state, so that a different request with the same key is refused
	// (core/service/query). Empty: nothing is compared.
	Request []byte `json:"request,omitempty"`
	Payload []byte `json:"payload,omitempty"`
	// Due is when the job may first run, in whole milliseconds; zero: at once.
	Due time.Time `json:"due,omitzero"`
	// Priority: of the jobs that are due, higher ones are claimed first.
	Priority int `json:"priority,omitempty"`
	// MaxAttempts bounds the attempts; default 5. An attempt that was interrupted, or whose
	// process died or lost the shard, is not counted (MaxInterruptions).
	MaxAttempts int `json:"max_attempts"`
	// MaxDuration bounds one run, in nanoseconds in JSON; default 1 min.
	MaxDuration time.Duration `json:"max_duration"`
	// Rescue defaults to at_least_once.
	Rescue Rescue `json:"rescue"`
	// Retry defaults to DefaultRetry.
	Retry RetryPolicy `json:"retry,omitzero"`

	// Then are the jobs that follow this one, each when the one before it has ended:
	// at most MaxThen templates, jobs without ID, Queue, Key, Due and Then.
	Then []Job `json:"then,omitempty"`
	// OnFailure says whether the sequence continues when this job fails; default stop.
	OnFailure OnFailure `json:"on_failure,omitempty"`

	// Occurrence is the nominal time of a schedule that made this job, and After the
	// previous job of its sequence. The scheduler sets them, with ID and Key.
	Occurrence Occurrence `json:"occurrence,omitzero"`
	After      ID         `json:"after,omitempty"`

	// Trace is the span of the enqueue (W3C traceparent), the parent of the job's other
	// spans (core/service/tracing); "" for none. It has no effect on the job.
	Trace string `json:"trace,omitempty"`
}

// WithDefaults fills in what is not set.
func (j Job) WithDefaults() Job {
	j.MaxAttempts = cmp.Or(j.MaxAttempts, DefaultMaxAttempts)
	j.MaxDuration = cmp.Or(j.MaxDuration, DefaultMaxDuration)
	j.Rescue = cmp.Or(j.Rescue, AtLeastOnce)
	return j
}

// Check reports what is wrong with a job in a queue of so many shards, as an
// *InvalidError.
func (j Job) Check(shards int) error {
	if err := j.ID.Check(shards); err != nil {
		return err
	}
	switch {
	case j.Queue == "":
		return &InvalidError{Field: "queue", Reason: "is empty"}
	case j.Kind == "":
		return &InvalidError{Field: "kind", Reason: "is empty: it names the handler"}
	case !utf8.ValidString(j.Kind):
		return &InvalidError{Field: "kind", Reason: fmt.Sprintf("is %q, which is not valid UTF-8", j.Kind)}
	case !utf8.ValidString(j.Key):
		return &InvalidError{Field: "key", Reason: fmt.Sprintf("is %q, which is not valid UTF-8", j.Key)}
	case j.MaxAttempts < 1 || j.MaxAttempts > MaxAttemptsLimit:
		return &InvalidError{Field: "max_attempts", Reason: fmt.Sprintf("is %d: want 1 to %d", j.MaxAttempts, MaxAttemptsLimit)}
	case j.MaxDuration <= 0:
		return &InvalidError{Field: "max_duration", Reason: fmt.Sprintf("is %s: want more than 0", j.MaxDuration)}
	case j.Rescue != AtLeastOnce && j.Rescue != AtMostOnce:
		return &InvalidError{Field: "rescue", Reason: fmt.Sprintf("is %q: want %q or %q", j.Rescue, AtLeastOnce, AtMostOnce)}
	case len(j.Request) > MaxRequest:
		return &InvalidError{Field: "request", Reason: fmt.Sprintf("has %d bytes: want %d at most", len(j.Request), MaxRequest)}
	case j.OnFailure != "" && j.OnFailure != Stop && j.OnFailure != GoOn:
		return &InvalidError{Field: "on_failure", Reason: fmt.Sprintf("is %q: want %q or %q", j.OnFailure, Stop, GoOn)}
	}
	if err := j.Retry.check(); err != nil {
		return err
	}
	if err := j.checkIdentity(shards); err != nil {
		return err
	}
	return j.checkThen(shards)
}

// checkIdentity reports an id that is not the one that the job's key, occurrence or
// predecessor gives.
func (j Job) checkIdentity(shards int) error {
	want, of := j.ID, ""
	switch {
	case j.After != "":
		want, of = j.After.follower(shards), "the job after "+string(j.After)
	case !j.Occurrence.IsZero():
		want, of = j.Occurrence.ID(j.Queue, shards), "occurrence "+j.Occurrence.Key()
	case j.Key != "":
		want, of = KeyedID(j.Queue, j.Key, shards), "key "+strconv.Quote(j.Key)
	}
	if j.ID != want {
		return &InvalidError{Field: "id", Reason: fmt.Sprintf("%q is not the id of %s", j.ID, of)}
	}
	return nil
}

// Encode returns the job as JSON.
func (j Job) Encode() ([]byte, error) { return json.Marshal(j) }

// Decode reads what Encode wrote.
func Decode(body []byte) (Job, error) {
	var j Job
	if err := json.Unmarshal(body, &j); err != nil {
		return Job{}, &InvalidError{Field: "body", Reason: err.Error()}
	}
	return j, nil
}

// Run is one claim of a job.
type Run struct {
	Job Job `json:"job"`
	// ID is the fencing token.
	ID RunID `json:"run_id"`
	// Attempt counts all of the job's claims, from 1, also those that do not count against
	// its MaxAttempts.
	Attempt int `json:"attempt"`
	// Due is when this attempt was due, in ms since 1970.
	Due int64 `json:"due_ms"`
	// First: no run of the job was ever claimed before this one, not even before a
	// redrive. So no other run can be executing or have had an effect.
	First bool `json:"first"`
}

// State is where a job is in its life.
type State string

// The states.
const (
	Pending   State = "pending"
	Running   State = "running"
	Completed State = "completed"
	DLQ       State = "dlq"
	Cancelled State = "cancelled"
	Abandoned State = "abandoned"
)

// Ended reports whether a job in this state will never run again by itself. From
// DLQ it may be redriven.
func (s State) Ended() bool {
	switch s {
	case Completed, DLQ, Cancelled, Abandoned:
		return true
	}
	return false
}

// Next reports whether a job may go from s to t.
func (s State) Next(t State) bool {
	switch s {
	case Pending:
		return t == Running || t == Cancelled || t == DLQ
	case Running:
		return t == Pending || t.Ended()
	case DLQ:
		return t == Pending
	}
	return false
}
