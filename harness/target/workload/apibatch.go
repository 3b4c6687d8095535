package workload

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"fencepost/core/store"
)

// gatherFor is for how long the first job of a batch waits for others.
const gatherFor = 300 * time.Millisecond

// oneIn is one in so many jobs that is enqueued with others, by one request.
const oneIn = 3

// gathering is a batch of jobs that is to be sent, or was.
type gathering struct {
	Jobs []jobBody `json:"jobs"`

	done    chan struct{}
	answers []batchAnswer
	err     error
}

// batchAnswer is the answer about one job of a batch.
type batchAnswer struct {
	Status  int             `json:"status"`
	Receipt *apiReceipt     `json:"receipt"`
	Problem json.RawMessage `json:"problem"`
}

// together enqueues a job with those of others that come within gatherFor.
func (c *apiClient) together(ctx context.Context, in jobBody) (out apiReceipt, status int, err error) {
	c.mu.Lock()
	g := c.gathering
	if g == nil {
		g = &gathering{done: make(chan struct{})}
		c.gathering = g
		time.AfterFunc(gatherFor, func() { c.send(ctx, g) })
	}
	n := len(g.Jobs)
	g.Jobs = append(g.Jobs, in)
	c.mu.Unlock()
	r := apiRequest{method: http.MethodPost, path: apiV1 + "/jobs/batch"}
	select {
	case <-g.done:
	case <-ctx.Done():
		return out, 0, r.failed(store.Unknown, context.Cause(ctx))
	}
	switch {
	case g.err != nil:
		return out, 0, g.err
	case n >= len(g.answers):
		return out, 0, r.failed(store.Unknown, errNoAnswer)
	}
	a := g.answers[n]
	switch {
	case a.Status/100 == 2 && a.Receipt != nil:
		return *a.Receipt, a.Status, nil
	case a.Status/100 == 2:
		return out, a.Status, r.failed(store.Unknown, errNoAnswer)
	}
	p := problemIn(a)
	return out, a.Status, r.failed(p.outcome(), p.cause(r))
}

// send sends what has gathered, within the time of the first.
func (c *apiClient) send(ctx context.Context, g *gathering) {
	c.mu.Lock()
	c.gathering = nil
	c.mu.Unlock()
	var out struct {
		Jobs []batchAnswer `json:"jobs"`
	}
	path := c.either(apiV1+"/jobs/batch", "/jobs/batch")
	_, g.err = c.ask(ctx, apiRequest{method: http.MethodPost, path: path, body: g}, &out)
	g.answers = out.Jobs
	close(g.done)
}

// problemIn reads the answer about a job that was not enqueued; as in problemOf.
func problemIn(a batchAnswer) apiProblem {
	var p apiProblem
	if json.Unmarshal(a.Problem, &p) != nil || p.Status != a.Status {
		return apiProblem{Status: a.Status, Detail: "no problem of the API"}
	}
	p.retryAfter = time.Duration(p.RetryAfter) * time.Second
	return p
}
