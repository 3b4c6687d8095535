package workload

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// apiClient asks a scheduler for what clients want through its HTTP API, as a user's program does.
// Where the API has two paths for one thing it takes them in turn.
type apiClient struct {
	http  *http.Client
	base  string // http://host:port
	token string
	turn  atomic.Uint64
	// submits counts the jobs; gathering is the batch that some of them wait for.
	submits   atomic.Uint64
	mu        sync.Mutex
	gathering *gathering
	// shards takes the commands on one shard, for which the API has no path.
	shards interface {
		SetShardPaused(ctx context.Context, id store.ShardID, on bool) (duplicate bool, err error)
	}
}

const apiV1 = "/api/v1"

// either is one of two paths that do the same.
func (c *apiClient) either(path, other string) string {
	if c.turn.Add(1)%2 == 0 {
		return other
	}
	return path
}

// Submit enqueues a job by its key, of which the API makes the id. The error is an
// *engine.EnqueueError.
func (c *apiClient) Submit(ctx context.Context, j job.Job) (engine.Receipt, error) {
	in := jobBody{jobTemplate: templateOf(j), Queue: j.Queue, Then: templatesOf(j.Then)}
	if !j.Due.IsZero() {
		in.Schedule = j.Due.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	r := apiRequest{method: http.MethodPost, path: c.either(apiV1+"/jobs", "/jobs"), body: &in}
	if inHeader(j.Key) {
		r.key = j.Key
	} else {
		in.IdempotencyKey = j.Key
	}
	var out apiReceipt
	var status int
	var err error
	if c.submits.Add(1)%oneIn == 0 {
		in.IdempotencyKey = j.Key
		out, status, err = c.together(ctx, in)
	} else {
		out, status, err = c.receipt(ctx, r)
	}
	if err != nil {
		return engine.Receipt{}, &engine.EnqueueError{Job: j.ID, Outcome: store.OutcomeOf(err), Cause: err}
	}
	return engine.Receipt{ID: out.ID, Duplicate: status == http.StatusOK, Inbox: status == http.StatusAccepted}, nil
}

// inHeader says whether a header can carry a key as it is: blanks around it would be lost.
func inHeader(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Cancel implements Commander.
func (c *apiClient) Cancel(ctx context.Context, queue string, id job.ID) error {
	_, err := c.onJob(ctx, engine.CancelJob, apiV1+"/jobs/"+string(id)+"/cancel", queue, id)
	return err
}

// Redrive implements Commander.
func (c *apiClient) Redrive(ctx context.Context, queue string, id job.ID) error {
	path := c.either(apiV1+"/jobs/"+string(id)+"/retry", apiV1+"/dlq/"+string(id)+"/redrive")
	_, err := c.onJob(ctx, engine.RedriveJob, path, queue, id)
	return err
}

// Hasten implements Commander. The API has a dead job redriven instead, and says of one that is
// running that there is nothing to do.
func (c *apiClient) Hasten(ctx context.Context, queue string, id job.ID) (engine.Receipt, error) {
	path := "/jobs/" + string(id) + "/run"
	return c.onJob(ctx, engine.HastenJob, c.either(apiV1+path, path), queue, id)
}

// onJob gives a command on a job. The error is an *engine.CommandError.
func (c *apiClient) onJob(ctx context.Context, what engine.Command, path, queue string, id job.ID) (engine.Receipt, error) {
	out, _, err := c.receipt(ctx, apiRequest{method: http.MethodPost, path: path, queue: queue, job: id})
	if err != nil {
		return engine.Receipt{}, &engine.CommandError{Command: string(what), Job: id, Outcome: store.OutcomeOf(err), Cause: err}
	}
	return engine.Receipt{ID: out.ID, Duplicate: out.Duplicate}, nil
}

// SetPaused implements Commander.
func (c *apiClient) SetPaused(ctx context.Context, queue string, on bool) (duplicate bool, err error) {
	out, _, err := c.receipt(ctx, apiRequest{method: http.MethodPost, path: apiV1 + "/queues/" + url.PathEscape(queue) + "/" + engine.PauseName(on)})
	return out.Duplicate, err
}

// SetShardPaused implements Commander, past the API.
func (c *apiClient) SetShardPaused(ctx context.Context, id store.ShardID, on bool) (duplicate bool, err error) {
	return c.shards.SetShardPaused(ctx, id, on)
}

// Schedule gives a command on a schedule. The error is an *engine.CommandError.
func (c *apiClient) Schedule(ctx context.Context, cmd engine.ScheduleCommand) (engine.Receipt, error) {
	r := apiRequest{method: http.MethodPost, path: apiV1 + "/schedules/" + url.PathEscape(cmd.Key), queue: cmd.Queue}
	switch cmd.Verb {
	case engine.PutSchedule:
		r.method, r.queue, r.body = http.MethodPut, "", scheduleOf(*cmd.Definition)
	case engine.RemoveSchedule:
		r.method = http.MethodDelete
	default: // enable, disable, trigger
		r.path += "/" + string(cmd.Verb)
		r.key = cmd.Trigger
	}
	out, _, err := c.receipt(ctx, r)
	if err != nil {
		return engine.Receipt{}, &engine.CommandError{Command: string(cmd.Verb), Schedule: cmd.Key, Outcome: store.OutcomeOf(err), Cause: err}
	}
	return engine.Receipt{ID: out.ID, Duplicate: out.Duplicate}, nil
}

// RedriveDead redrives the first dead jobs of a queue, so many at most, and returns the answer about
// each.
func (c *apiClient) RedriveDead(ctx context.Context, queue string, limit int) ([]history.Answered, error) {
	var out struct {
		Redriven []job.ID `json:"redriven"`
		Failed   []struct {
			ID   job.ID `json:"id"`
			Code string `json:"code"`
		} `json:"failed"`
	}
	in := struct {
		Queue string `json:"queue"`
		Limit int    `json:"limit"`
	}{queue, limit}
	if _, err := c.ask(ctx, apiRequest{method: http.MethodPost, path: apiV1 + "/dlq/redrive", body: in}, &out); err != nil {
		return nil, err
	}
	var all []history.Answered
	say := func(id job.ID, outcome store.Outcome) {
		issuer, _ := shardIssuer(job.Job{Queue: queue, ID: id}) // an id without a shard is of no job, which the checker says
		all = append(all, history.Answered{Job: string(id), Shard: issuer, Outcome: string(endType(outcome))})
	}
	for _, id := range out.Redriven {
		say(id, store.OK)
	}
	for _, f := range out.Failed {
		say(f.ID, apiProblem{Code: f.Code}.outcome())
	}
	return all, nil
}
