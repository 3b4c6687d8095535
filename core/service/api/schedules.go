package api

import (
	"errors"
	"net/http"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/service/query"
)

// scheduleRequest is the body of a put.
type scheduleRequest struct {
	Queue         string           `json:"queue"`
	Timing        timingRequest    `json:"timing"`
	Misfire       schedule.Misfire `json:"misfire"`
	GraceSeconds  float64          `json:"grace_seconds"`
	WindowSeconds float64          `json:"window_seconds"`
	Overlap       schedule.Overlap `json:"overlap"`
	Job           jobOfSchedule    `json:"job"`
}

type jobOfSchedule struct {
	template
	Then []template `json:"then"`
}

type timingRequest struct {
	Kind         schedule.Kind `json:"kind"`
	At           time.Time     `json:"at"`
	Until        time.Time     `json:"until"`
	Cron         string        `json:"cron"`
	Zone         string        `json:"zone"`
	EverySeconds float64       `json:"every_seconds"`
}

func (s *server) putSchedule(r *http.Request) (reply, error) {
	var in scheduleRequest
	if err := bodyOf(r, &in); err != nil {
		return reply{}, err
	}
	queue, err := s.queueOf(r, in.Queue)
	if err != nil {
		return reply{}, err
	}
	d := schedule.Definition{Queue: queue, Key: r.PathValue("key"), Misfire: in.Misfire, Overlap: in.Overlap,
		Timing: schedule.Timing{Kind: in.Timing.Kind, At: in.Timing.At, Until: in.Timing.Until, Cron: in.Timing.Cron, Zone: in.Timing.Zone}}
	if d.Grace, err = duration("grace_seconds", in.GraceSeconds); err != nil {
		return reply{}, err
	}
	if d.Window, err = duration("window_seconds", in.WindowSeconds); err != nil {
		return reply{}, err
	}
	if d.Every, err = duration("timing.every_seconds", in.Timing.EverySeconds); err != nil {
		return reply{}, err
	}
	if d.Job, err = s.chain(in.Job.template, in.Job.Then, "job."); err != nil {
		return reply{}, err
	}
	out, err := s.put(r, d)
	if err != nil {
		return reply{}, within(err)
	}
	return reply{body: out}, nil
}

// timingFields are those that a put has in its timing.
var timingFields = map[string]bool{"kind": true, "at": true, "until": true, "cron": true, "zone": true, "every": true}

// within names the fields of a definition as the body of a put has them.
func within(err error) error {
	var badSchedule *schedule.InvalidError
	var badJob *job.InvalidError
	switch {
	case errors.As(err, &badSchedule) && timingFields[badSchedule.Field]:
		return &schedule.InvalidError{Field: "timing." + badSchedule.Field, Reason: badSchedule.Reason}
	case errors.As(err, &badJob):
		return &job.InvalidError{Field: "job." + badJob.Field, Reason: badJob.Reason}
	}
	return err
}

// put creates or changes a schedule. What the scheduler sets in a job is taken out of
// the template.
func (s *server) put(r *http.Request, d schedule.Definition) (receipt, error) {
	d.Job.Queue, d.Job.Key, d.Job.Due = "", "", time.Time{}
	rec, err := s.o.Scheduler.Schedule(r.Context(), engine.ScheduleCommand{Verb: engine.PutSchedule, Definition: &d})
	return receipt{ID: rec.ID, Queue: d.Queue, Schedule: d.Key, Duplicate: rec.Duplicate}, err
}

func (s *server) getSchedule(r *http.Request, at target) (reply, error) {
	id, err := s.o.Reader.ScheduleID(r.Context(), at.queue, at.key)
	if err != nil {
		return reply{}, err
	}
	sc, err := s.o.Reader.Schedule(r.Context(), at.queue, id)
	if errors.Is(err, query.ErrNone) {
		err = engine.ErrUnknownSchedule
	}
	return reply{body: s.scheduleOf(at.queue, sc)}, err
}

func (s *server) listSchedules(r *http.Request, at target) (reply, error) {
	p, err := at.page()
	if err != nil {
		return reply{}, err
	}
	all, next, err := s.o.Reader.Schedules(r.Context(), at.queue, p)
	return listed(all, func(sc query.Schedule) scheduleView { return s.scheduleOf(at.queue, sc) }, next), err
}

// command serves what a path does to a schedule.
func (s *server) command(verb engine.Verb) func(*http.Request, target) (reply, error) {
	return func(r *http.Request, at target) (reply, error) {
		return s.give(r, engine.ScheduleCommand{Verb: verb, Queue: at.queue, Key: at.key})
	}
}

// trigger fires an occurrence by hand, which the idempotency key names.
func (s *server) trigger(r *http.Request, at target) (reply, error) {
	return s.give(r, engine.ScheduleCommand{Verb: engine.TriggerSchedule, Queue: at.queue, Key: at.key, Trigger: s.keyOr(r.Header.Get(idempotencyHeader))})
}

func (s *server) give(r *http.Request, c engine.ScheduleCommand) (reply, error) {
	rec, err := s.o.Scheduler.Schedule(r.Context(), c)
	if err != nil {
		return reply{}, err
	}
	return reply{body: receipt{ID: rec.ID, Queue: c.Queue, Schedule: c.Key, Duplicate: rec.Duplicate}}, nil
}
