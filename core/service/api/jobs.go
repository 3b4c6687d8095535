package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/service/query"
)

// queueOf is the queue that a parameter or a body names, or else the first.
func (s *server) queueOf(name string) (string, int, error) {
	if name == "" {
		name = s.queue
	}
	n, ok := s.shards[name]
	if !ok {
		return "", 0, invalid("queue", fmt.Sprintf("%q is not one of this scheduler's", name))
	}
	return name, n, nil
}

// target is the job or schedule that a path names, in the queue of the parameter.
func (s *server) target(r *http.Request, more ...string) (string, url.Values, error) {
	q, err := parameters(r, append(more, "queue")...)
	if err != nil {
		return "", nil, err
	}
	queue, _, err := s.queueOf(q.Get("queue"))
	return queue, q, err
}

func (s *server) createJob(r *http.Request) (reply, error) {
	var in jobRequest
	if err := bodyOf(r, &in); err != nil {
		return reply{}, err
	}
	j, recurring, err := s.read(&in, r.Header.Get(idempotencyHeader))
	if err != nil {
		return reply{}, err
	}
	var out receipt
	if recurring != nil {
		out, err = s.put(r, schedule.Definition{Queue: j.Queue, Key: s.keyOr(j.Key), Timing: *recurring, Job: j})
	} else {
		out, err = s.submit(r, s.identify(j))
	}
	if err != nil {
		return reply{}, err
	}
	status := http.StatusCreated
	switch {
	case out.Inbox:
		status = http.StatusAccepted
	case out.Duplicate:
		status = http.StatusOK
	}
	return reply{status: status, body: out, location: r.URL.Path + "/" + string(out.ID) + "?queue=" + url.QueryEscape(out.Queue)}, nil
}

func (s *server) submit(r *http.Request, j job.Job) (receipt, error) {
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
func (s *server) read(in *jobRequest, header string) (job.Job, *schedule.Timing, error) {
	if err := in.names(); err != nil {
		return job.Job{}, nil, err
	}
	queue, _, err := s.queueOf(in.Queue)
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

// identify gives a job its id.
func (s *server) identify(j job.Job) job.Job {
	if j.Key == "" {
		j.ID = job.RandomID(s.o.NewID(), s.shards[j.Queue])
	} else {
		j.ID = job.KeyedID(j.Queue, j.Key, s.shards[j.Queue])
	}
	return j
}

func (s *server) keyOr(key string) string {
	if key == "" {
		return s.o.NewID().String()
	}
	return key
}

// find reads what an id names: a job, or a schedule.
func (s *server) find(r *http.Request, queue string, id job.ID) (query.Job, *query.Schedule, error) {
	j, err := s.o.Reader.Job(r.Context(), queue, id)
	if !errors.Is(err, query.ErrNone) {
		return j, nil, err
	}
	sc, err := s.o.Reader.Schedule(r.Context(), queue, id)
	return j, &sc, err
}

func (s *server) getJob(r *http.Request) (reply, error) {
	queue, _, err := s.target(r)
	if err != nil {
		return reply{}, err
	}
	j, sc, err := s.find(r, queue, job.ID(r.PathValue("id")))
	switch {
	case err != nil:
		return reply{}, err
	case sc != nil:
		return reply{body: s.scheduledView(queue, *sc)}, nil
	}
	return reply{body: viewOf(j)}, nil
}

// runJob runs what an id names now: a schedule is triggered, a job in the dead letter
// queue redriven, a pending one brought forward; one that is due runs anyway.
func (s *server) runJob(r *http.Request) (reply, error) {
	queue, _, err := s.target(r)
	if err != nil {
		return reply{}, err
	}
	id := job.ID(r.PathValue("id"))
	j, sc, err := s.find(r, queue, id)
	switch {
	case err != nil:
		return reply{}, err
	case sc != nil:
		return s.trigger(r, queue, sc.Definition.Key)
	case j.State == job.DLQ:
		return s.redrive(r, queue, id)
	case j.State == job.Running:
		return reply{body: receipt{ID: id, Queue: queue, Duplicate: true}}, nil
	case j.State == job.Pending:
		return s.hasten(r, queue, id)
	}
	return reply{}, &engine.StateError{Job: id, State: j.State}
}

// hasten brings a pending job forward; one that has been claimed meanwhile runs anyway.
func (s *server) hasten(r *http.Request, queue string, id job.ID) (reply, error) {
	rec, err := s.o.Scheduler.Hasten(r.Context(), queue, id)
	var state *engine.StateError
	if errors.As(err, &state) && state.State == job.Running {
		rec.Duplicate, err = true, nil
	}
	return reply{body: receipt{ID: id, Queue: queue, Duplicate: rec.Duplicate}}, err
}

func (s *server) cancelJob(r *http.Request) (reply, error) {
	queue, _, err := s.target(r)
	if err != nil {
		return reply{}, err
	}
	id := job.ID(r.PathValue("id"))
	if err := s.o.Scheduler.Cancel(r.Context(), queue, id); err != nil {
		return reply{}, err
	}
	return reply{body: receipt{ID: id, Queue: queue}}, nil
}

func (s *server) redriveJob(r *http.Request) (reply, error) {
	queue, _, err := s.target(r)
	if err != nil {
		return reply{}, err
	}
	return s.redrive(r, queue, job.ID(r.PathValue("id")))
}

func (s *server) redrive(r *http.Request, queue string, id job.ID) (reply, error) {
	if err := s.o.Scheduler.Redrive(r.Context(), queue, id); err != nil {
		return reply{}, err
	}
	return reply{body: receipt{ID: id, Queue: queue}}, nil
}

func (s *server) listJobs(r *http.Request) (reply, error) {
	queue, q, err := s.target(r, "state", "limit", "after")
	if err != nil {
		return reply{}, err
	}
	if !q.Has("state") {
		return reply{}, invalid("state", "is missing: want pending, running, completed, dlq, cancelled or abandoned")
	}
	return s.list(r, queue, job.State(q.Get("state")), q)
}

func (s *server) listDead(r *http.Request) (reply, error) {
	queue, q, err := s.target(r, "limit", "after")
	if err != nil {
		return reply{}, err
	}
	return s.list(r, queue, job.DLQ, q)
}

func (s *server) list(r *http.Request, queue string, state job.State, q url.Values) (reply, error) {
	p, err := pageOf(q)
	if err != nil {
		return reply{}, err
	}
	jobs, next, err := s.o.Reader.Jobs(r.Context(), queue, state, p)
	if err != nil {
		return reply{}, err
	}
	out := page[jobView]{Items: make([]jobView, 0, len(jobs)), Next: next}
	for _, j := range jobs {
		out.Items = append(out.Items, viewOf(j))
	}
	return reply{body: out}, nil
}

func pageOf(q url.Values) (query.Page, error) {
	limit, err := number(q, "limit")
	return query.Page{Limit: limit, After: q.Get("after")}, err
}

func (s *server) listRuns(r *http.Request) (reply, error) {
	queue, q, err := s.target(r, "days")
	if err != nil {
		return reply{}, err
	}
	days, err := number(q, "days")
	if err != nil {
		return reply{}, err
	}
	rows, err := s.o.Reader.Runs(r.Context(), queue, job.ID(r.PathValue("id")), s.o.Now(), max(days, 1))
	if err != nil {
		return reply{}, err
	}
	out := page[runView]{Items: make([]runView, 0, len(rows))}
	for _, row := range rows {
		out.Items = append(out.Items, runOf(row))
	}
	return reply{body: out}, nil
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
	queue, _, err := s.queueOf(in.Queue)
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
	slots, wg := make(chan struct{}, redriveAtOnce), sync.WaitGroup{}
	for n, j := range jobs {
		slots <- struct{}{}
		wg.Go(func() {
			results[n] = s.o.Scheduler.Redrive(r.Context(), queue, j.ID)
			<-slots
		})
	}
	wg.Wait()
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
