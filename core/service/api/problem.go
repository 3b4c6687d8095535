package api

import (
	"errors"
	"math"
	"net/http"
	"strings"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/scheduler"
	"fencepost/core/service/query"
	"fencepost/core/store"
)

// problem is an answer to what was not done (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Code is the last part of Type.
	Code string `json:"code"`
	// Errors name the fields of the request that are wrong.
	Errors []fieldError `json:"errors,omitempty"`
	// Job is the id under which an enqueue may have been done, or of the job that its key
	// stands for; State is that of a job that does not allow a command.
	Job   job.ID    `json:"job_id,omitempty"`
	State job.State `json:"state,omitempty"`
	// Shards are those of a queue that could not be reached.
	Shards    []int  `json:"shards,omitempty"`
	RequestID string `json:"request_id"`
	// RetryAfter is the header of that name, of a job of a batch.
	RetryAfter int `json:"retry_after_seconds,omitempty"`

	retryAfter int   // seconds
	cause      error // for the log
}

type fieldError struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Error makes it an error of a handler.
func (p problem) Error() string { return p.Code + ": " + p.Detail }

func (p problem) Unwrap() error { return p.cause }

// invalid is a request that cannot be carried out as it is.
func invalid(field, reason string) problem {
	return problem{Status: http.StatusBadRequest, Code: "invalid", Detail: field + " " + reason, Errors: []fieldError{{field, reason}}}
}

// missing is what is not there.
func missing(code, detail string) problem {
	return problem{Status: http.StatusNotFound, Code: code, Detail: detail}
}

// fields are names of the core that are others in the API.
var fields = map[string]string{
	"max_duration": "max_duration_seconds", "every": "every_seconds", "grace": "grace_seconds", "window": "window_seconds",
	"key": "idempotency_key", "trigger": idempotencyHeader,
}

// named is the API's name of a field of the core.
func named(field string) string {
	prefix, last := "", field
	if i := strings.LastIndexByte(field, '.'); i >= 0 {
		prefix, last = field[:i+1], field[i+1:]
	}
	if name, ok := fields[last]; ok {
		last = name
	}
	return prefix + last
}

// retryAfter is when it makes sense to ask again, in whole seconds.
func retryAfter(err error) int {
	wait, _ := engine.RetryAfter(err)
	return int(math.Ceil(wait.Seconds()))
}

// problemOf says an error of the scheduler, or of this package, as a problem. What may
// tell of the inside goes into the log only.
func problemOf(err error) problem {
	var p problem
	var enqueue *engine.EnqueueError
	var command *engine.CommandError
	var state *engine.StateError
	var broken *engine.BrokenError
	var badJob *job.InvalidError
	var badSchedule *schedule.InvalidError
	var page *query.PageError
	var partly *scheduler.PartlyError
	change := errors.As(err, &enqueue) || errors.As(err, &command) || errors.As(err, new(*scheduler.QueueError))
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &partly):
		return problem{Status: http.StatusServiceUnavailable, Code: "partly", Shards: partly.Shards, retryAfter: 2,
			Detail: "some shards' owners could not be reached, or did not answer: the others are as was asked, ask again for the rest"}
	case errors.As(err, &page):
		return invalid(page.Field, page.Reason)
	case errors.As(err, &badSchedule):
		return invalid(named(badSchedule.Field), badSchedule.Reason)
	case errors.As(err, &badJob) && command != nil:
		return problem{Status: http.StatusConflict, Code: "not-kept", Detail: "the job cannot be redriven, its row was not kept: " + badJob.Reason}
	case badJob != nil && badJob.Field == "id":
		return missing("no-job", "there is no such job: its id "+badJob.Reason)
	case badJob != nil:
		return invalid(named(badJob.Field), badJob.Reason)
	case errors.Is(err, query.ErrNone), errors.Is(err, engine.ErrUnknownJob):
		return missing("no-job", "there is no such job in this queue, or it is forgotten since its end")
	case errors.Is(err, engine.ErrUnknownSchedule):
		return missing("no-schedule", "there is no such schedule in this queue")
	case errors.As(err, &state):
		return problem{Status: http.StatusConflict, Code: "state", Detail: "the job is " + string(state.State), State: state.State}
	case errors.Is(err, scheduler.ErrPaused):
		return problem{Status: http.StatusConflict, Code: "paused", Detail: "the queue is paused, and its new shards would not be: resume it first"}
	case errors.Is(err, schedule.ErrOverlap):
		return problem{Status: http.StatusConflict, Code: "overlap", Detail: "the occurrence before has not ended yet: try again later, or allow overlaps"}
	case errors.As(err, &broken):
		return problem{Status: http.StatusConflict, Code: "broken-schedule", Detail: "the schedule cannot be read: put it again, or delete it"}
	case change && store.OutcomeOf(err) != store.Fail:
		p = problem{Status: http.StatusGatewayTimeout, Code: "outcome-unknown", Detail: "it may or may not have been done: ask again, with the same idempotency key"}
		if enqueue != nil {
			p.Job = enqueue.Job
		}
		return p
	case errors.Is(err, engine.ErrBusy):
		return problem{Status: http.StatusTooManyRequests, Code: "busy", Detail: "too much waits already: nothing was done, try again after that time", retryAfter: retryAfter(err)}
	case errors.Is(err, engine.ErrStalled):
		return problem{Status: http.StatusServiceUnavailable, Code: "unavailable", Detail: "the owner of the job's shard waits for an answer: nothing was done, try again after that time", retryAfter: retryAfter(err)}
	case errors.Is(err, engine.ErrNotOwner), errors.Is(err, engine.ErrStopping):
		return problem{Status: http.StatusServiceUnavailable, Code: "no-owner", Detail: "nobody owns the job's shard at the moment: nothing was done, try again in some seconds", retryAfter: 2}
	}
	if store.IsPermanent(err) {
		return problem{Status: http.StatusServiceUnavailable, Code: "unavailable", Detail: "the database refuses this until somebody mends what the scheduler's log says: nothing was changed", retryAfter: 60}
	}
	return problem{Status: http.StatusServiceUnavailable, Code: "unavailable", Detail: "the database does not answer as it should: nothing was changed, try again later", retryAfter: 1}
}
