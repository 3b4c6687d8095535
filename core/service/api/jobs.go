package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/service/query"
	"fencepost/core/store"
)

// queueOf is the queue that a parameter or a body names, or else the first.
func (s *server) queueOf(r *http.Request, name string) (string, error) {
	if known := s.o.Reader.Queues(); name == "" && len(known) > 0 {
		return known[0].Name, nil
	}
	if s.known(name).Name != "" {
		return name, nil
	}
	_, err := s.o.Reader.Size(r.Context(), name) // it may be new
	return name, err
}

// known is a queue with a name; the zero value if there is none.
func (s *server) known(name string) store.Queue {
	q, _ := store.QueueNamed(s.o.Reader.Queues(), name)
	return q
}

// target is what a request is about: a queue, and in it the job or the schedule that the
// path names, if it names one.
type target struct {
	queue string
	id    job.ID
	key   string // of a schedule
	query url.Values
}

// in serves requests about a target, whose queue is a parameter; more are other parameters.
func (s *server) in(do func(*http.Request, target) (reply, error), more ...string) func(*http.Request) (reply, error) {
	known := append(more, "queue")
	return func(r *http.Request) (reply, error) {
		q, err := parameters(r, known...)
		if err != nil {
			return reply{}, err
		}
		queue, err := s.queueOf(r, q.Get("queue"))
		if err != nil {
			return reply{}, err
		}
		return do(r, target{queue, job.ID(r.PathValue("id")), r.PathValue("key"), q})
	}
}

func (s *server) createJob(r *http.Request) (reply, error) {
	var in jobRequest
	if err := bodyOf(r, &in); err != nil {
		return reply{}, err
	}
	j, recurring, err := s.read(r, &in, r.Header.Get(idempotencyHeader))
	if err != nil {
		return reply{}, err
	}
	var out receipt
	if recurring != nil {
		out, err = s.put(r, schedule.Definition{Queue: j.Queue, Key: s.keyOr(j.Key), Timing: *recurring, Job: j})
	} else {
		out, err = s.submit(r, j)
	}
	if err != nil {
		return reply{}, err
	}
	return reply{status: out.status(), body: out, location: r.URL.Path + "/" + string(out.ID) + "?queue=" + url.QueryEscape(out.Queue)}, nil
}

// status is that of a job or a schedule that was created.
func (out receipt) status() int {
	switch {
	case out.Inbox:
		return http.StatusAccepted
	case out.Duplicate:
		return http.StatusOK
	}
	return http.StatusCreated
}

func (s *server) submit(r *http.Request, j job.Job) (receipt, error) {
	j, err := s.identified(r, j)
	if err != nil {
		return receipt{}, err
	}
	rec, err := s.o.Scheduler.Submit(r.Context(), j)
	if err == nil && (rec.Duplicate || rec.Inbox) {
		err = s.compare(r, j, rec)
	}
	return receipt{ID: rec.ID, Queue: j.Queue, Duplicate: rec.Duplicate, Inbox: rec.Inbox}, err
}

// compare reports a job that is another one than what its key stands for already.
func (s *server) compare(r *http.Request, j job.Job, rec engine.Receipt) error {
	if len(j.Request) == 0 {
		return nil
	}
	there, err := s.o.Reader.Job(r.Context(), j.Queue, j.ID)
	switch {
	case err != nil && rec.Duplicate && !errors.Is(err, query.ErrNone):
		return err
	case err == nil && len(there.Request) > 0 && !bytes.Equal(there.Request, j.Request):
		return problem{Status: http.StatusUnprocessableEntity, Code: "key-reused", Job: j.ID,
			Detail: "the idempotency key stands for another request: nothing was done, repeat that one, or use another key"}
	}
	return nil
}

// read makes a job of a request: with its queue, key and time, without an id, or with
// the timing of a schedule.
func (s *server) read(r *http.Request, in *jobRequest, header string) (job.Job, *schedule.Timing, error) {
	if err := in.names(); err != nil {
		return job.Job{}, nil, err
	}
	queue, err := s.queueOf(r, in.Queue)
	if err != nil {
		return job.Job{}, nil, err
	}
	due, recurring, err := in.timing()
	if err != nil {
		return job.Job{}, nil, err
	}
	j, err := s.chain(in.template, in.Then, "")
	if err != nil {
		return j, nil, err
	}
	j.Queue, j.Due = queue, due
	j.Key, err = key(header, in.IdempotencyKey)
	if j.Key != "" && err == nil && recurring == nil {
		j.Request, err = in.digest(due)
	}
	return j, recurring, err
}

// identified is a job with its id.
func (s *server) identified(r *http.Request, j job.Job) (job.Job, error) {
	q, err := s.o.Reader.Size(r.Context(), j.Queue)
	switch {
	case err != nil:
	case j.Key == "":
		j.ID = job.SpreadID(s.o.NewID(), q.First, q.Shards)
	default:
		j.ID = job.KeyedID(j.Queue, j.Key, q.First)
	}
	return j, err
}

func (s *server) keyOr(key string) string {
	if key == "" {
		return s.o.NewID().String()
	}
	return key
}

// find reads what an id names: a job, or a schedule.
func (s *server) find(r *http.Request, at target) (query.Job, *query.Schedule, error) {
	j, err := s.o.Reader.Job(r.Context(), at.queue, at.id)
	if !errors.Is(err, query.ErrNone) {
		return j, nil, err
	}
	sc, err := s.o.Reader.Schedule(r.Context(), at.queue, at.id)
	return j, &sc, err
}

func (s *server) getJob(r *http.Request, at target) (reply, error) {
	j, sc, err := s.find(r, at)
	switch {
	case err != nil:
		return reply{}, err
	case sc != nil:
		return reply{body: s.scheduledView(at.queue, *sc)}, nil
	}
	return reply{body: viewOf(j)}, nil
}

// runJob runs what an id names now: a schedule is triggered, a job in the dead letter
// queue redriven, a pending one brought forward; one that is due runs anyway.
func (s *server) runJob(r *http.Request, at target) (reply, error) {
	j, sc, err := s.find(r, at)
	switch {
	case err != nil:
		return reply{}, err
	case sc != nil:
		at.key = sc.Definition.Key
		return s.trigger(r, at)
	case j.State == job.DLQ:
		return s.redrive(r, at)
	case j.State == job.Running:
		return at.done(true), nil
	case j.State == job.Pending:
		return s.hasten(r, at)
	}
	return reply{}, &engine.StateError{Job: at.id, State: j.State}
}

// done answers a command on a job; duplicate: there was nothing to do.
func (at target) done(duplicate bool) reply {
	return reply{body: receipt{ID: at.id, Queue: at.queue, Duplicate: duplicate}}
}

// hasten brings a pending job forward; one that has been claimed meanwhile runs anyway.
func (s *server) hasten(r *http.Request, at target) (reply, error) {
	rec, err := s.o.Scheduler.Hasten(r.Context(), at.queue, at.id)
	var state *engine.StateError
	if errors.As(err, &state) && state.State == job.Running {
		rec.Duplicate, err = true, nil
	}
	return at.done(rec.Duplicate), err
}

func (s *server) cancelJob(r *http.Request, at target) (reply, error) {
	return at.done(false), s.o.Scheduler.Cancel(r.Context(), at.queue, at.id)
}

func (s *server) redrive(r *http.Request, at target) (reply, error) {
	return at.done(false), s.o.Scheduler.Redrive(r.Context(), at.queue, at.id)
}

func (s *server) listJobs(r *http.Request, at target) (reply, error) {
	if !at.query.Has("state") {
		return reply{}, invalid("state", "is missing: want pending, running, completed, dlq, cancelled or abandoned")
	}
	return s.list(r, at, job.State(at.query.Get("state")))
}

func (s *server) listDead(r *http.Request, at target) (reply, error) { return s.list(r, at, job.DLQ) }

func (s *server) list(r *http.Request, at target, state job.State) (reply, error) {
	p, err := at.page()
	if err != nil {
		return reply{}, err
	}
	jobs, next, err := s.o.Reader.Jobs(r.Context(), at.queue, state, p)
	return listed(jobs, viewOf, next), err
}

// page is the part of a list that a request asks for.
func (at target) page() (query.Page, error) {
	limit, err := number(at.query, "limit")
	return query.Page{Limit: limit, After: at.query.Get("after")}, err
}

// listed answers with a part of a list.
func listed[T, V any](items []T, view func(T) V, next string) reply {
	out := page[V]{Items: make([]V, 0, len(items)), Next: next}
	for _, item := range items {
		out.Items = append(out.Items, view(item))
	}
	return reply{body: out}
}

func (s *server) listRuns(r *http.Request, at target) (reply, error) {
	days, err := number(at.query, "days")
	if err != nil {
		return reply{}, err
	}
	rows, err := s.o.Reader.Runs(r.Context(), at.queue, at.id, s.o.Now(), max(days, 1))
	return listed(rows, runOf, ""), err
}

// redriveRequest is the body of a redrive of many.
type redriveRequest struct {
	Queue string `json:"queue"`
	Limit int    `json:"limit"`
}

// Limits of a redrive of many.
const (
	defaultRedrive = 50
	maxRedrive     = 100
	redriveAtOnce  = 8
)

// redriveDead redrives the first jobs of the dead letter queue, shard by shard.
func (s *server) redriveDead(r *http.Request) (reply, error) {
	in := redriveRequest{Limit: defaultRedrive}
	if err := bodyOf(r, &in); err != nil {
		return reply{}, err
	}
	queue, err := s.queueOf(r, in.Queue)
	if err != nil {
		return reply{}, err
	}
	if in.Limit < 1 || in.Limit > maxRedrive {
		return reply{}, invalid("limit", fmt.Sprintf("is %d: want 1 to %d", in.Limit, maxRedrive))
	}
	jobs, next, err := s.o.Reader.Jobs(r.Context(), queue, job.DLQ, query.Page{Limit: in.Limit})
	if err != nil {
		return reply{}, err
	}
	results := make([]error, len(jobs))
	var g errgroup.Group
	g.SetLimit(redriveAtOnce)
	for n, j := range jobs {
		g.Go(func() error {
			results[n] = s.o.Scheduler.Redrive(r.Context(), queue, j.ID)
			return nil
		})
	}
	_ = g.Wait() // each has its own result
	out := redriven{Redriven: []job.ID{}, Failed: []notRedriven{}, More: next != ""}
	for n, err := range results {
		if err != nil {
			p := problemOf(err)
			out.Failed = append(out.Failed, notRedriven{ID: jobs[n].ID, Code: p.Code, Detail: p.Detail})
			continue
		}
		out.Redriven = append(out.Redriven, jobs[n].ID)
	}
	return reply{body: out}, nil
}

// stamp writes an instant of whole milliseconds.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.999Z07:00")
}
