package api

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"fencepost/core/job"
	"fencepost/core/schedule"
)

// digestBytes are enough for no two requests to be taken for one.
const digestBytes = 16

// maxKey bounds an idempotency key, in bytes.
const maxKey = 255

// jobRequest is the body of an enqueue: a job and when it runs.
type jobRequest struct {
	template
	// TaskID and Params are other names of Kind and Payload.
	TaskID *string        `json:"taskId"`
	Params jsontext.Value `json:"params"`

	Queue string `json:"queue"`
	// Schedule is "now", an instant (RFC 3339), a cron expression, or "@every 30s"; Cron
	// is an expression, too. Zone is theirs.
	Schedule       string     `json:"schedule"`
	Cron           string     `json:"cron"`
	Zone           string     `json:"zone"`
	IdempotencyKey string     `json:"idempotency_key"`
	Then           []template `json:"then"`
}

// template is a job without its place and time.
type template struct {
	Kind               string         `json:"kind"`
	Payload            jsontext.Value `json:"payload"`
	Priority           int            `json:"priority"`
	MaxAttempts        *int           `json:"max_attempts"`
	MaxDurationSeconds *float64       `json:"max_duration_seconds"`
	Rescue             job.Rescue     `json:"rescue"`
	Retry              *retryRequest  `json:"retry"`
	OnFailure          job.OnFailure  `json:"on_failure"`
}

// retryRequest is a retry policy: a list of delays, or an exponential one.
type retryRequest struct {
	DelaysSeconds []float64 `json:"delays_seconds,omitempty"`
	BaseSeconds   float64   `json:"base_seconds,omitempty"`
	Factor        float64   `json:"factor,omitempty"`
	MaxSeconds    float64   `json:"max_seconds,omitempty"`
	Jitter        float64   `json:"jitter,omitempty"`
}

// maxSeconds is what a duration holds, with room to spare.
const maxSeconds = 100 * 365 * 24 * 3600

// duration reads seconds; parts of a millisecond are refused.
func duration(field string, seconds float64) (time.Duration, error) {
	if !(seconds >= 0 && seconds <= maxSeconds) {
		return 0, invalid(field, fmt.Sprintf("is %v: want 0 to %d seconds", seconds, maxSeconds))
	}
	d := time.Duration(seconds*1000+0.5) * time.Millisecond
	if diff := d.Seconds() - seconds; diff > 1e-6 || diff < -1e-6 {
		return 0, invalid(field, fmt.Sprintf("is %v: want whole milliseconds", seconds))
	}
	return d, nil
}

func (r retryRequest) policy(field string) (job.RetryPolicy, error) {
	p := job.RetryPolicy{Factor: r.Factor, Jitter: r.Jitter}
	var err error
	for n, seconds := range r.DelaysSeconds {
		var d time.Duration
		if d, err = duration(fmt.Sprintf("%s.delays_seconds[%d]", field, n), seconds); err != nil {
			return p, err
		}
		p.Delays = append(p.Delays, d)
	}
	if p.Base, err = duration(field+".base_seconds", r.BaseSeconds); err != nil {
		return p, err
	}
	if p.Max, err = duration(field+".max_seconds", r.MaxSeconds); err != nil {
		return p, err
	}
	if len(p.Delays) == 0 && p.Base == 0 {
		return p, invalid(field, "has neither delays_seconds nor base_seconds")
	}
	return p, nil
}

// job makes the core's job of a template; at is its place in the request.
func (s *server) job(t template, at string) (job.Job, error) {
	j := job.Job{Kind: t.Kind, Priority: t.Priority, MaxAttempts: s.o.MaxAttempts, Rescue: t.Rescue, Retry: s.o.Retry, OnFailure: t.OnFailure}
	if t.Kind == "" {
		return j, invalid(at+"kind", "is missing: it names the handler")
	}
	if t.Payload != nil {
		v := t.Payload.Clone()
		if err := v.Compact(); err != nil {
			return j, invalid(at+"payload", "is not JSON")
		}
		j.Payload = v
	}
	if t.MaxAttempts != nil {
		if j.MaxAttempts = *t.MaxAttempts; j.MaxAttempts == 0 {
			return j, invalid(at+"max_attempts", fmt.Sprintf("is 0: want 1 to %d", job.MaxAttemptsLimit))
		}
	}
	if t.MaxDurationSeconds != nil {
		d, err := duration(at+"max_duration_seconds", *t.MaxDurationSeconds)
		if err != nil {
			return j, err
		}
		if d == 0 {
			return j, invalid(at+"max_duration_seconds", "is 0: want more")
		}
		j.MaxDuration = d
	}
	if t.Retry != nil {
		p, err := t.Retry.policy(at + "retry")
		if err != nil {
			return j, err
		}
		j.Retry = p
	}
	if s.o.Check != nil {
		if err := s.o.Check(j.Kind, j.Payload); err != nil {
			p := problemOf(err)
			for n := range p.Errors {
				p.Errors[n].Field = at + p.Errors[n].Field
			}
			return j, p
		}
	}
	return j, nil
}

// chain makes a job and those that follow it.
func (s *server) chain(first template, then []template, at string) (job.Job, error) {
	j, err := s.job(first, at)
	if err != nil {
		return j, err
	}
	for n, t := range then {
		next, err := s.job(t, fmt.Sprintf("%sthen[%d].", at, n))
		if err != nil {
			return j, err
		}
		j.Then = append(j.Then, next)
	}
	return j, nil
}

// names settles which of two names of a field the body uses.
func (r *jobRequest) names() error {
	if r.TaskID != nil {
		if r.Kind != "" {
			return invalid("taskId", "is another name of kind: use one of them")
		}
		r.Kind = *r.TaskID
	}
	if r.Params != nil {
		if r.Payload != nil {
			return invalid("params", "is another name of payload: use one of them")
		}
		r.Payload = r.Params
	}
	if r.Cron != "" && r.Schedule != "" {
		return invalid("cron", "says the same as schedule: use one of them")
	}
	return nil
}

// digest is the same for requests that ask for the same: it does not depend on the
// order of names in the body, nor on what this process adds.
func (r *jobRequest) digest(due time.Time) ([]byte, error) {
	said := *r
	said.Queue, said.IdempotencyKey, said.TaskID, said.Params, said.Schedule = "", "", nil, nil, stamp(due)
	body, err := json.Marshal(said, jsontext.ReorderRawObjects(true))
	sum := sha256.Sum256(body)
	return sum[:digestBytes], err
}

// timing reads when the job runs: a scheduled time (zero: at once), or again and again.
func (r *jobRequest) timing() (due time.Time, recurring *schedule.Timing, err error) {
	field, text := "schedule", r.Schedule
	if r.Cron != "" {
		field, text = "cron", r.Cron
	}
	defer func() {
		if err == nil && recurring == nil && r.Zone != "" {
			err = invalid("zone", "belongs to a cron expression")
		}
	}()
	if text == "" || field == "schedule" && text == "now" {
		return due, nil, nil
	}
	if field == "schedule" && len(text) > 10 && text[10] == 'T' {
		due, err = time.Parse(time.RFC3339, text)
		if err != nil {
			return due, nil, invalid(field, fmt.Sprintf("is %q: want an instant as 2026-03-29T01:00:00Z", text))
		}
		return instant(field, due)
	}
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		d, err := time.ParseDuration(every)
		if err != nil || r.Zone != "" {
			return due, nil, invalid(field, fmt.Sprintf("is %q: want a duration as in @every 30s, and no zone", text))
		}
		return due, &schedule.Timing{Kind: schedule.FixedRate, Every: d}, nil
	}
	return due, &schedule.Timing{Kind: schedule.Cron, Cron: text, Zone: r.Zone}, nil
}

// instant checks a time that a job may have.
func instant(field string, t time.Time) (time.Time, *schedule.Timing, error) {
	switch {
	case t.Nanosecond()%int(time.Millisecond) != 0:
		return t, nil, invalid(field, "has parts of a millisecond: want whole ones")
	case t.Unix() < 0:
		return t, nil, invalid(field, "is before 1970")
	}
	return t.UTC(), nil, nil
}

// key settles the idempotency key of header and body.
func key(header, body string) (string, error) {
	switch {
	case len(header) > maxKey || len(body) > maxKey:
		return "", invalid("idempotency_key", fmt.Sprintf("has more than %d bytes", maxKey))
	case header == "":
		return body, nil
	case body != "" && body != header:
		return "", invalid("idempotency_key", "is another one than that of the header "+idempotencyHeader)
	}
	return header, nil
}
