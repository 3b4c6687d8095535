package api

import (
	"encoding/json"
	"time"

	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/service/query"
	"fencepost/core/store"
)

// receipt is the answer to a change.
type receipt struct {
	ID    job.ID `json:"id"`
	Queue string `json:"queue"`
	// Schedule is the key of the schedule that was changed.
	Schedule  string `json:"schedule,omitempty"`
	Duplicate bool   `json:"duplicate"`
	Inbox     bool   `json:"inbox"`
}

// page is a part of a list.
type page[T any] struct {
	Items []T `json:"items"`
	// Next asks for the next page; "" if there is none.
	Next string `json:"next,omitempty"`
}

// redriven is the answer to a redrive of many.
type redriven struct {
	Redriven []job.ID      `json:"redriven"`
	Failed   []notRedriven `json:"failed"`
	// More: there may be others.
	More bool `json:"more"`
}

type notRedriven struct {
	ID     job.ID `json:"id"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// templateView is a job without its place and time.
type templateView struct {
	Kind    string          `json:"kind,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// PayloadBase64 is a payload that is not JSON: such jobs come from elsewhere.
	PayloadBase64      []byte        `json:"payload_base64,omitempty"`
	Priority           int           `json:"priority,omitempty"`
	MaxAttempts        int           `json:"max_attempts,omitempty"`
	MaxDurationSeconds float64       `json:"max_duration_seconds,omitempty"`
	Rescue             job.Rescue    `json:"rescue,omitempty"`
	Retry              *retryRequest `json:"retry,omitempty"`
	OnFailure          job.OnFailure `json:"on_failure,omitempty"`
}

// jobView is a job, or a schedule as one: what its state is, and, as long as it is kept,
// what was asked for.
type jobView struct {
	ID    job.ID `json:"id"`
	Queue string `json:"queue"`
	State string `json:"state"`
	Inbox bool   `json:"inbox"`
	templateView
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	Then           []templateView  `json:"then,omitempty"`
	Attempts       int             `json:"attempts"`
	RunID          string          `json:"run_id,omitempty"`
	Due            string          `json:"due,omitempty"`
	Ended          string          `json:"ended,omitempty"`
	Note           string          `json:"note,omitempty"`
	After          job.ID          `json:"after,omitempty"`
	Occurrence     *occurrenceView `json:"occurrence,omitempty"`
	Schedule       *scheduleView   `json:"schedule,omitempty"`
}

type occurrenceView struct {
	Schedule string `json:"schedule"`
	Nominal  string `json:"nominal"`
	Trigger  string `json:"trigger,omitempty"`
}

func occurrenceOf(o job.Occurrence) *occurrenceView {
	if o.IsZero() {
		return nil
	}
	return &occurrenceView{o.Schedule, stamp(time.UnixMilli(o.Nominal)), o.Trigger}
}

func templateOf(j job.Job) templateView {
	v := templateView{Kind: j.Kind, Priority: j.Priority, MaxAttempts: j.MaxAttempts, MaxDurationSeconds: j.MaxDuration.Seconds(),
		Rescue: j.Rescue, OnFailure: j.OnFailure}
	switch {
	case len(j.Payload) == 0:
	case json.Valid(j.Payload):
		v.Payload = j.Payload
	default:
		v.PayloadBase64 = j.Payload
	}
	if p := j.Retry; len(p.Delays) > 0 || p.Base > 0 {
		v.Retry = &retryRequest{BaseSeconds: p.Base.Seconds(), Factor: p.Factor, MaxSeconds: p.Max.Seconds(), Jitter: p.Jitter}
		for _, d := range p.Delays {
			v.Retry.DelaysSeconds = append(v.Retry.DelaysSeconds, d.Seconds())
		}
	}
	return v
}

func thenOf(j job.Job) (out []templateView) {
	for _, t := range j.Then {
		out = append(out, templateOf(t))
	}
	return out
}

func viewOf(j query.Job) jobView {
	v := jobView{ID: j.ID, Queue: j.Queue, State: string(j.State), Inbox: j.Inbox, Attempts: j.Attempts, Due: stamp(j.Due), Ended: stamp(j.Ended), Note: j.Note}
	if j.Run > 0 {
		v.RunID = j.Run.String()
	}
	if j.Body {
		v.templateView, v.Then = templateOf(j.Job), thenOf(j.Job)
		v.IdempotencyKey, v.After, v.Occurrence = j.Job.Key, j.Job.After, occurrenceOf(j.Job.Occurrence)
	}
	return v
}

// runView is a run that has ended.
type runView struct {
	RunID   string `json:"run_id"`
	Attempt int    `json:"attempt"`
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
	Worker  string `json:"worker,omitempty"`
	Started string `json:"started,omitempty"`
	Ended   string `json:"ended,omitempty"`
}

func runOf(r store.RunRow) runView {
	return runView{RunID: job.RunID(r.Run).String(), Attempt: r.Attempt, Outcome: r.Outcome, Error: r.Error, Worker: r.Worker, Started: stamp(r.Started), Ended: stamp(r.Ended)}
}

// timingView is when a schedule fires.
type timingView struct {
	Kind         schedule.Kind `json:"kind"`
	At           string        `json:"at,omitempty"`
	Until        string        `json:"until,omitempty"`
	Cron         string        `json:"cron,omitempty"`
	Zone         string        `json:"zone,omitempty"`
	EverySeconds float64       `json:"every_seconds,omitempty"`
}

// scheduleView is a schedule and what has become of it.
type scheduleView struct {
	ID            job.ID           `json:"id"`
	Queue         string           `json:"queue"`
	Key           string           `json:"key"`
	Timing        *timingView      `json:"timing,omitempty"`
	Misfire       schedule.Misfire `json:"misfire,omitempty"`
	GraceSeconds  float64          `json:"grace_seconds"`
	WindowSeconds float64          `json:"window_seconds,omitempty"`
	Overlap       schedule.Overlap `json:"overlap,omitempty"`
	Job           *scheduledJob    `json:"job,omitempty"`
	Enabled       bool             `json:"enabled"`
	// Broken: it cannot be read, and fires nothing; why is in the log.
	Broken bool `json:"broken"`
	// Decided is up to where its nominal times are fired, queued or passed over.
	Decided string           `json:"decided,omitempty"`
	Next    string           `json:"next,omitempty"`
	Active  *occurrenceView  `json:"active,omitempty"`
	Queued  []occurrenceView `json:"queued,omitempty"`
	Fired   int64            `json:"fired"`
	Missed  int64            `json:"missed"`
	Skipped int64            `json:"skipped"`
}

type scheduledJob struct {
	templateView
	Then []templateView `json:"then,omitempty"`
}

func (s *server) scheduleOf(queue string, in query.Schedule) scheduleView {
	d, st := in.Definition, in.State
	v := scheduleView{ID: in.ID, Queue: queue, Key: d.Key, Broken: in.Broken != nil}
	if v.Broken {
		return v
	}
	v.Timing = &timingView{d.Kind, stamp(d.At), stamp(d.Until), d.Cron, d.Zone, d.Every.Seconds()}
	v.Misfire, v.GraceSeconds, v.WindowSeconds, v.Overlap = d.Misfire, d.Grace.Seconds(), d.Window.Seconds(), d.Overlap
	v.Job = &scheduledJob{templateOf(d.Job), thenOf(d.Job)}
	v.Enabled, v.Fired, v.Missed, v.Skipped = !st.Disabled, st.Fired, st.Missed, st.Skipped
	if st.Last > 0 {
		v.Decided = stamp(time.UnixMilli(st.Last))
	}
	if sc, err := schedule.New(d, s.known(queue).First); err == nil {
		if next := sc.Next(st, s.o.Now().UnixMilli()); next < schedule.Never {
			v.Next = stamp(time.UnixMilli(next))
		}
	}
	v.Active = occurrenceOf(st.Active)
	for _, o := range st.Queue {
		v.Queued = append(v.Queued, *occurrenceOf(o))
	}
	return v
}

// scheduledView is a schedule as a job.
func (s *server) scheduledView(queue string, in query.Schedule) jobView {
	sc := s.scheduleOf(queue, in)
	v := jobView{ID: in.ID, Queue: queue, State: "scheduled", IdempotencyKey: sc.Key, Due: sc.Next, Schedule: &sc}
	if !sc.Enabled {
		v.State = "disabled"
	}
	if sc.Job != nil {
		v.templateView, v.Then = sc.Job.templateView, sc.Job.Then
	}
	return v
}
