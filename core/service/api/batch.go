package api

import (
	"fmt"
	"net/http"
	"sync"

	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/scheduler"
)

// batchRequest is the body of an enqueue of many.
type batchRequest struct {
	Jobs []jobRequest `json:"jobs"`
}

// batched is the answer to an enqueue of many: one for each job, in the order of the request.
type batched struct {
	Jobs []batchedJob `json:"jobs"`
}

// batchedJob is what became of one of them, with the status that it would have had alone: a receipt,
// or else a problem.
type batchedJob struct {
	Status  int      `json:"status"`
	Receipt *receipt `json:"receipt,omitempty"`
	Problem *problem `json:"problem,omitempty"`
}

// createJobs enqueues jobs side by side, so that those of a shard ride in the same ticks. If one of them
// is invalid none is. Else each has its own answer: it is no transaction.
func (s *server) createJobs(r *http.Request) (reply, error) {
	var in batchRequest
	if err := bodyOf(r, &in); err != nil {
		return reply{}, err
	}
	if n := len(in.Jobs); n < 1 || n > scheduler.MaxMany {
		return reply{}, invalid("jobs", fmt.Sprintf("has %d: want 1 to %d", n, scheduler.MaxMany))
	}
	if r.Header.Get(idempotencyHeader) != "" {
		return reply{}, invalid(idempotencyHeader, "is of one job: each job of a batch has its idempotency_key")
	}
	jobs := make([]job.Job, len(in.Jobs))
	for n := range jobs {
		var recurring *schedule.Timing
		var err error
		if jobs[n], recurring, err = s.read(r, &in.Jobs[n], ""); err == nil && recurring != nil {
			err = invalid("schedule", "is one of a schedule: put it by a request of its own")
		}
		if err != nil {
			p := problemOf(err)
			for e := range p.Errors {
				p.Errors[e].Field = fmt.Sprintf("jobs[%d].%s", n, p.Errors[e].Field)
			}
			p.Detail = fmt.Sprintf("jobs[%d]: %s", n, p.Detail)
			return reply{}, p
		}
	}
	out := batched{make([]batchedJob, len(jobs))}
	var all sync.WaitGroup
	for n, j := range jobs {
		all.Go(func() { out.Jobs[n] = s.createOne(r, j, n) })
	}
	all.Wait()
	return reply{body: out}, nil
}

// createOne enqueues the n-th job of a batch. The request itself counted as the first.
func (s *server) createOne(r *http.Request, j job.Job, n int) batchedJob {
	var no *problem
	if n > 0 {
		no = s.within()
	}
	if no == nil {
		rec, err := s.submit(r, j)
		if err == nil {
			return batchedJob{Status: rec.status(), Receipt: &rec}
		}
		p := problemOf(err)
		no = &p
	}
	p := s.complete(r, *no)
	p.RetryAfter = p.retryAfter
	return batchedJob{Status: p.Status, Problem: &p}
}
