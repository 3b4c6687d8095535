package forward

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// Paths of the requests.
const (
	pathEnqueues = "/internal/v1/enqueues"
	pathEnqueue  = "/internal/v1/enqueue" // one, by processes of the version before
	pathPing     = "/internal/v1/ping"    // is not found, which is an answer
	pathCommand  = "/internal/v1/"        // with the engine.Command behind it
	pathSchedule = "/internal/v1/schedule"
	pathPause    = "/internal/v1/pause"
	pathGlance   = "/internal/v1/glance"
	pathWant     = "/internal/v1/want"
)

// enqueueRequest is a line of the body of enqueues, enqueueAnswer one of what is answered to them.
type enqueueRequest struct {
	// Millis is what is left of the caller's time; 0: it has no end.
	Millis int64           `json:"ms,omitempty"`
	Job    json.RawMessage `json:"job"`
}

type enqueueAnswer struct {
	N int `json:"n"` // of the request's line, from 0
	receipt
	refusal
}

// target is the body of a command.
type target struct {
	Queue string `json:"queue"`
	ID    job.ID `json:"id"`
}

// shardTarget is the body of what is about a shard, pauseCommand that of its pause.
type shardTarget struct {
	Queue string `json:"queue"`
	Shard int    `json:"shard"`
}

func (t shardTarget) id() store.ShardID { return store.ShardID{Queue: t.Queue, Shard: t.Shard} }

type pauseCommand struct {
	shardTarget
	Paused bool `json:"paused"`
}

// want is the body of a wish for a shard: by the process at Addr.
type want struct {
	shardTarget
	Addr string `json:"addr"`
}

// receipt is the answer to what was done.
type receipt struct {
	ID        job.ID `json:"id"`
	Schedule  string `json:"schedule,omitempty"`
	Shard     string `json:"shard,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`
}

// refusal is the answer to what was not done.
type refusal struct {
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
	Field   string    `json:"field,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	State   job.State `json:"state,omitempty"`
	// RetryMillis is when it makes sense to ask again; 0: it does not say.
	RetryMillis int64 `json:"retry_ms,omitempty"`
}

// Codes of refusals.
const (
	codeInvalid         = "invalid"
	codeInvalidSchedule = "invalid-schedule"
	codeNoJob           = "no-job"
	codeNoSchedule      = "no-schedule"
	codeState           = "state"
	codeOverlap         = "overlap"
	codeNotOwner        = "not-owner"
	codeNotKept         = "not-kept"
	codeBroken          = "broken-schedule"
	codeBusy            = "busy"
	codeStalled         = "stalled"
	codeUnknown         = "unknown"
	codeFailed          = "failed"
	codeSecret          = "secret"
)

// bearer goes before the secret in the header Authorization.
const bearer = "Bearer "

// ErrSecret: the other process asks for another secret, or for one at all.
var ErrSecret = errors.New("forward: the other process does not know this one's secret: all of them need the same one")

var statuses = map[string]int{
	codeInvalid:         http.StatusBadRequest,
	codeInvalidSchedule: http.StatusBadRequest,
	codeNoJob:           http.StatusNotFound,
	codeNoSchedule:      http.StatusNotFound,
	codeState:           http.StatusConflict,
	codeOverlap:         http.StatusConflict,
	codeNotOwner:        http.StatusMisdirectedRequest,
	codeNotKept:         http.StatusUnprocessableEntity,
	codeBroken:          http.StatusUnprocessableEntity,
	codeBusy:            http.StatusTooManyRequests,
	codeStalled:         http.StatusServiceUnavailable,
	codeUnknown:         http.StatusInternalServerError,
	codeFailed:          http.StatusServiceUnavailable,
	codeSecret:          http.StatusUnauthorized,
}

// refusalOf says an engine's error on the wire.
func refusalOf(err error) refusal {
	r := refusal{Code: codeUnknown, Message: err.Error()}
	var invalid *job.InvalidError
	if errors.As(err, &invalid) {
		r.Field, r.Reason = invalid.Field, invalid.Reason
	}
	var state *engine.StateError
	var badSchedule *schedule.InvalidError
	var broken *engine.BrokenError
	switch {
	case errors.As(err, &badSchedule):
		r.Code, r.Field, r.Reason = codeInvalidSchedule, badSchedule.Field, badSchedule.Reason
	case invalid != nil && !errors.As(err, new(*engine.CommandError)):
		r.Code = codeInvalid
	case store.OutcomeOf(err) != store.Fail:
	case errors.Is(err, engine.ErrNotOwner), errors.Is(err, engine.ErrStopping), errors.As(err, new(*engine.LostError)):
		r.Code = codeNotOwner
	case errors.Is(err, engine.ErrBusy):
		r.Code, r.RetryMillis = codeBusy, retryMillis(err)
	case errors.Is(err, engine.ErrStalled):
		r.Code, r.RetryMillis = codeStalled, retryMillis(err)
	case errors.Is(err, engine.ErrUnknownJob):
		r.Code = codeNoJob
	case errors.As(err, &state):
		r.Code, r.State = codeState, state.State
	case errors.Is(err, engine.ErrUnknownSchedule):
		r.Code = codeNoSchedule
	case errors.Is(err, schedule.ErrOverlap):
		r.Code = codeOverlap
	case errors.As(err, &broken):
		r.Code, r.Field, r.Reason = codeBroken, broken.Schedule, broken.Cause.Error()
	case invalid != nil:
		r.Code = codeNotKept
	default:
		r.Code = codeFailed
	}
	return r
}

func retryMillis(err error) int64 {
	wait, _ := engine.RetryAfter(err)
	return wait.Milliseconds()
}

// cause is the error that a refusal stands for, of a job's request with its id;
// certain: nothing was done.
func (r refusal) cause(status int, id job.ID) (certain bool, err error) {
	if want, ok := statuses[r.Code]; !ok || want != status {
		return false, fmt.Errorf("status %d with code %q", status, r.Code)
	}
	switch r.Code {
	case codeNotOwner:
		return true, engine.ErrNotOwner
	case codeBusy:
		return true, &engine.BusyError{Cause: engine.ErrBusy, RetryAfter: time.Duration(r.RetryMillis) * time.Millisecond}
	case codeStalled:
		return true, &engine.BusyError{Cause: engine.ErrStalled, RetryAfter: time.Duration(r.RetryMillis) * time.Millisecond}
	case codeNoJob:
		return true, engine.ErrUnknownJob
	case codeState:
		return true, &engine.StateError{Job: id, State: r.State}
	case codeSecret:
		return true, fmt.Errorf("%w: %w", engine.ErrUnreachable, ErrSecret)
	case codeNoSchedule:
		return true, engine.ErrUnknownSchedule
	case codeOverlap:
		return true, schedule.ErrOverlap
	case codeBroken:
		return true, &engine.BrokenError{Schedule: r.Field, Cause: errors.New(r.Reason)}
	case codeInvalidSchedule:
		return true, &schedule.InvalidError{Field: r.Field, Reason: r.Reason}
	case codeInvalid, codeNotKept:
		return true, &job.InvalidError{Field: r.Field, Reason: r.Reason}
	}
	return r.Code == codeFailed, errors.New(r.Message)
}
