package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/scheduler"
	"fencepost/core/store"
)

// apiRequest is a request to the API.
type apiRequest struct {
	method, path string
	queue        string // a parameter, "" for none
	key          string // the idempotency key, "" for none
	body         any
	job          job.ID // that it is about
}

func (r apiRequest) failed(outcome store.Outcome, cause error) error {
	return &store.Error{Op: r.method + " " + r.path, Outcome: outcome, Cause: cause}
}

// errNoAnswer: a batch was answered, and not about this job.
var errNoAnswer = errors.New("there is no answer about the job")

// apiReceipt is the answer to a change.
type apiReceipt struct {
	ID        job.ID `json:"id"`
	Duplicate bool   `json:"duplicate"`
}

func (c *apiClient) receipt(ctx context.Context, r apiRequest) (out apiReceipt, status int, err error) {
	status, err = c.ask(ctx, r, &out)
	return out, status, err
}

// maxAPIAnswer bounds what is read of an answer, in bytes.
const maxAPIAnswer = 1 << 20

// ask makes one request, once: a transport that sends one again because it has an idempotency key
// would hide the first one's outcome. The error is a *store.Error with the outcome that the answer
// stands for: what was sent and got no answer, or none that can be read, is unknown.
func (c *apiClient) ask(ctx context.Context, r apiRequest, out any) (status int, err error) {
	failed := r.failed
	var text []byte
	if r.body != nil {
		if text, err = json.Marshal(r.body); err != nil {
			return 0, failed(store.Fail, err)
		}
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	to := c.base + r.path
	if r.queue != "" {
		to += "?queue=" + url.QueryEscape(r.queue)
	}
	// A body of a type that the transport does not know it cannot send again.
	req, err := http.NewRequestWithContext(ctx, r.method, to, io.NopCloser(bytes.NewReader(text)))
	if err != nil {
		return 0, failed(store.Fail, err)
	}
	req.ContentLength = int64(len(text))
	req.Header.Set("Authorization", "Bearer "+c.token)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	res, err := c.http.Do(req)
	switch {
	case err != nil && !sent.Load():
		return 0, failed(store.Fail, err)
	case err != nil:
		return 0, failed(store.Unknown, err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err = io.ReadAll(io.LimitReader(res.Body, maxAPIAnswer))
	switch {
	case err != nil:
		return res.StatusCode, failed(store.Unknown, fmt.Errorf("the answer was cut: %w", err))
	case res.StatusCode/100 != 2:
		p := problemOf(res, text)
		return res.StatusCode, failed(p.outcome(), p.cause(r))
	}
	if err := json.Unmarshal(text, out); err != nil {
		return res.StatusCode, failed(store.Unknown, fmt.Errorf("%s with an answer that cannot be read: %w", res.Status, err))
	}
	return res.StatusCode, nil
}

// apiProblem is an answer to what was not done (RFC 9457).
type apiProblem struct {
	Status int       `json:"status"`
	Code   string    `json:"code"`
	Detail string    `json:"detail"`
	State  job.State `json:"state"`
	Shards []int     `json:"shards"`
	// RetryAfter is of a job of a batch, in seconds.
	RetryAfter int `json:"retry_after_seconds"`

	retryAfter time.Duration
}

func (p apiProblem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Detail) }

// problemOf reads an answer that is no success. What is no problem of the API has no code.
func problemOf(res *http.Response, text []byte) apiProblem {
	var p apiProblem
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // "" if it is none
	if kind != "application/problem+json" || json.Unmarshal(text, &p) != nil || p.Status != res.StatusCode {
		return apiProblem{Status: res.StatusCode, Detail: res.Status}
	}
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
		p.retryAfter = time.Duration(s) * time.Second
	}
	return p
}

// outcome is what the API documents: a problem with the code outcome-unknown may have been done, one
// with partly was in part, and by any other nothing was done, whatever its status. Not so if the API
// did not come to say that: it has made a mistake, or it is not the API that answers.
func (p apiProblem) outcome() store.Outcome {
	switch {
	case p.Code == "outcome-unknown", p.Code == "partly", p.Code == "internal":
		return store.Unknown
	case p.Code != "", p.Status/100 == 4:
		return store.Fail
	}
	return store.Unknown
}

// cause is the problem as the error that a scheduler would have returned.
func (p apiProblem) cause(r apiRequest) error {
	var of error
	switch p.Code {
	case "state":
		of = &engine.StateError{Job: r.job, State: p.State}
	case "no-job":
		of = engine.ErrUnknownJob
	case "no-schedule":
		of = engine.ErrUnknownSchedule
	case "overlap":
		of = schedule.ErrOverlap
	case "busy", "rate":
		of = &engine.BusyError{Cause: engine.ErrBusy, RetryAfter: p.retryAfter}
	case "unavailable":
		of = &engine.BusyError{Cause: engine.ErrStalled, RetryAfter: p.retryAfter}
	case "no-owner":
		of = engine.ErrNotOwner
	case "partly":
		of = &scheduler.PartlyError{Shards: p.Shards, Cause: p}
	}
	return errors.Join(p, of)
}

// jobBody is the body of an enqueue.
type jobBody struct {
	jobTemplate
	Queue          string        `json:"queue"`
	Schedule       string        `json:"schedule,omitempty"`
	IdempotencyKey string        `json:"idempotency_key,omitempty"`
	Then           []jobTemplate `json:"then,omitempty"`
}

// jobTemplate is a job without its place and time.
type jobTemplate struct {
	Kind        string          `json:"kind"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	Priority    int             `json:"priority,omitempty"`
	MaxAttempts int             `json:"max_attempts,omitempty"`
	MaxDuration seconds         `json:"max_duration_seconds,omitempty"`
	Rescue      job.Rescue      `json:"rescue,omitempty"`
	Retry       *retryBody      `json:"retry,omitempty"`
	OnFailure   job.OnFailure   `json:"on_failure,omitempty"`
}

// retryBody is a retry policy.
type retryBody struct {
	Delays []seconds `json:"delays_seconds,omitempty"`
	Base   seconds   `json:"base_seconds,omitempty"`
	Factor float64   `json:"factor,omitempty"`
	Max    seconds   `json:"max_seconds,omitempty"`
	Jitter float64   `json:"jitter,omitempty"`
}

// seconds is a duration as the API writes it.
type seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

func templateOf(j job.Job) jobTemplate {
	t := jobTemplate{Kind: j.Kind, Payload: j.Payload, Priority: j.Priority, MaxAttempts: j.MaxAttempts, MaxDuration: seconds(j.MaxDuration),
		Rescue: j.Rescue, OnFailure: j.OnFailure}
	if p := j.Retry; len(p.Delays) > 0 || p.Base > 0 {
		t.Retry = &retryBody{Base: seconds(p.Base), Factor: p.Factor, Max: seconds(p.Max), Jitter: p.Jitter}
		for _, d := range p.Delays {
			t.Retry.Delays = append(t.Retry.Delays, seconds(d))
		}
	}
	return t
}

func templatesOf(then []job.Job) (out []jobTemplate) {
	for _, j := range then {
		out = append(out, templateOf(j))
	}
	return out
}

// scheduleBody is the body of a put.
type scheduleBody struct {
	Queue  string `json:"queue"`
	Timing struct {
		Kind  schedule.Kind `json:"kind"`
		At    time.Time     `json:"at,omitzero"`
		Until time.Time     `json:"until,omitzero"`
		Cron  string        `json:"cron,omitempty"`
		Zone  string        `json:"zone,omitempty"`
		Every seconds       `json:"every_seconds,omitempty"`
	} `json:"timing"`
	Misfire schedule.Misfire `json:"misfire,omitempty"`
	Grace   seconds          `json:"grace_seconds,omitempty"`
	Window  seconds          `json:"window_seconds,omitempty"`
	Overlap schedule.Overlap `json:"overlap,omitempty"`
	Job     struct {
		jobTemplate
		Then []jobTemplate `json:"then,omitempty"`
	} `json:"job"`
}

func scheduleOf(d schedule.Definition) scheduleBody {
	b := scheduleBody{Queue: d.Queue, Misfire: d.Misfire, Grace: seconds(d.Grace), Window: seconds(d.Window), Overlap: d.Overlap}
	b.Timing.Kind, b.Timing.At, b.Timing.Until, b.Timing.Cron, b.Timing.Zone = d.Kind, d.At, d.Until, d.Cron, d.Zone
	b.Timing.Every = seconds(d.Every)
	b.Job.jobTemplate, b.Job.Then = templateOf(d.Job), templatesOf(d.Job.Then)
	return b
}
