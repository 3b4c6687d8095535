package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// DialTimeout bounds the attempt to connect: the address in a header may be gone.
const DialTimeout = time.Second

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 10

// Client reaches the Handlers of other processes. Safe for concurrent use.
type Client struct {
	http   *http.Client
	secret string
	peers  *peers
}

// NewClient makes a client. Its requests are made by rt, or by a transport of its own
// if that is nil: connections are kept, and proxies of the environment are not used.
func NewClient(rt http.RoundTripper) *Client {
	if rt == nil {
		rt = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: DialTimeout}).DialContext,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     90 * time.Second,
		}
	}
	// Nobody who owns a shard sends elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{http: &http.Client{Transport: rt, CheckRedirect: stay}, peers: newPeers()}
}

// WithSecret returns a client that shows the secret for which Guard asks.
func (c *Client) WithSecret(secret string) *Client { return &Client{c.http, secret, newPeers()} }

// Close ends the connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Enqueue puts a job into its shard by the process at addr (host:port). Enqueues for one process
// share requests; each has what is left of its own time. A process that does not answer is left
// alone for 0.1 to 5 s: until then the cause is engine.ErrUnreachable if it does not answer a
// ping either, else an *engine.BusyError. The error is an *engine.EnqueueError, or a *job.InvalidError.
func (c *Client) Enqueue(ctx context.Context, addr string, j job.Job) (engine.Receipt, error) {
	body, err := j.Encode()
	if err != nil {
		return engine.Receipt{}, &job.InvalidError{Field: "body", Reason: err.Error()}
	}
	if ctx.Err() != nil {
		return engine.Receipt{}, &engine.EnqueueError{Job: j.ID, Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	r := c.enqueue(ctx, addr, j.ID, body)
	var invalid *job.InvalidError
	switch {
	case r.err == nil:
		return engine.Receipt{ID: r.rec.ID, Duplicate: r.rec.Duplicate}, nil
	case errors.As(r.err, &invalid):
		return engine.Receipt{}, invalid
	}
	return engine.Receipt{}, &engine.EnqueueError{Job: j.ID, Outcome: outcome(r.certain), Cause: r.err}
}

// Command gives a command on a job by the process at addr. The error is an
// *engine.CommandError.
func (c *Client) Command(ctx context.Context, addr string, what engine.Command, queue string, id job.ID) (engine.Receipt, error) {
	return c.ask(ctx, addr+pathCommand+string(what), target{Queue: queue, ID: id}, names(id),
		engine.CommandError{Command: string(what), Job: id})
}

// Schedule gives a command on a schedule by the process at addr. The error is an
// *engine.CommandError, or a *schedule.InvalidError or *job.InvalidError.
func (c *Client) Schedule(ctx context.Context, addr string, cmd engine.ScheduleCommand) (engine.Receipt, error) {
	rec, err := c.ask(ctx, addr+pathSchedule, cmd, func(r receipt) bool { return r.Schedule == cmd.Name() },
		engine.CommandError{Command: string(cmd.Verb), Schedule: cmd.Name()})
	var invalid *job.InvalidError
	var badSchedule *schedule.InvalidError
	if errors.As(err, &invalid) {
		return rec, invalid
	} else if errors.As(err, &badSchedule) {
		return rec, badSchedule
	}
	return rec, err
}

// SetPaused pauses or resumes a shard by the process at addr. The error is an
// *engine.CommandError.
func (c *Client) SetPaused(ctx context.Context, addr string, id store.ShardID, on bool) (duplicate bool, err error) {
	rec, err := c.ask(ctx, addr+pathPause, pauseCommand{targetOf(id), on},
		ofShard(id),
		engine.CommandError{Command: engine.PauseName(on), Shard: id.String()})
	return rec.Duplicate, err
}

// Glance has the process at addr look at a shard's header now: the shard was handed over to it.
// The error is an *engine.CommandError.
func (c *Client) Glance(ctx context.Context, addr string, id store.ShardID) error {
	_, err := c.ask(ctx, addr+pathGlance, targetOf(id), ofShard(id),
		engine.CommandError{Command: "glance", Shard: id.String()})
	return err
}

// Want tells the process at addr, who owns a shard, that the process at mine should. The error is an
// *engine.CommandError.
func (c *Client) Want(ctx context.Context, addr string, id store.ShardID, mine string) error {
	_, err := c.ask(ctx, addr+pathWant, want{targetOf(id), mine}, ofShard(id),
		engine.CommandError{Command: "want", Shard: id.String()})
	return err
}

func targetOf(id store.ShardID) shardTarget { return shardTarget{id.Queue, id.Shard} }

// ask makes the request of a command. An error completes failed.
func (c *Client) ask(ctx context.Context, url string, what any, meant func(receipt) bool, failed engine.CommandError) (engine.Receipt, error) {
	body, err := json.Marshal(what)
	var rec receipt
	certain := true
	if err == nil {
		rec, certain, err = c.post(ctx, url, failed.Job, body, meant)
	}
	if err != nil {
		failed.Outcome, failed.Cause = outcome(certain), err
		return engine.Receipt{}, &failed
	}
	return engine.Receipt{ID: rec.ID, Duplicate: rec.Duplicate}, nil
}

func outcome(certain bool) store.Outcome {
	if certain {
		return store.Fail
	}
	return store.Unknown
}

// names is the check of a receipt for a job.
func names(id job.ID) func(receipt) bool { return func(r receipt) bool { return r.ID == id } }

// ofShard is the check of a receipt for a shard.
func ofShard(id store.ShardID) func(receipt) bool {
	return func(r receipt) bool { return r.Shard == id.String() }
}

// post makes one request, for a job if id is one. meant reports whether a receipt is
// that of the request. With an error it tells whether it is certain that nothing was
// done.
func (c *Client) post(ctx context.Context, url string, id job.ID, body []byte, meant func(receipt) bool) (rec receipt, certain bool, err error) {
	if ctx.Err() != nil {
		return rec, true, context.Cause(ctx)
	}
	res, err := c.request(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return rec, errors.Is(err, engine.ErrUnreachable), err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		certain, err = refused(res, id)
		return rec, certain, err
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return rec, false, fmt.Errorf("the answer was cut: %w", err)
	}
	if json.Unmarshal(text, &rec) != nil || !meant(rec) {
		return rec, false, errors.New("an answer to another request")
	}
	return rec, false, nil
}

// request sends a request, with the secret. If nothing was sent, as nobody was there to connect to,
// the error is engine.ErrUnreachable.
func (c *Client) request(ctx context.Context, method, url string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+url, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrUnreachable, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.secret != "" {
		req.Header.Set("Authorization", bearer+c.secret)
	}
	res, err := c.http.Do(req)
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		err = fmt.Errorf("%w: %w", engine.ErrUnreachable, err)
	}
	return res, err
}

// refused reads an answer to a request, for a job if id is one, that is not a receipt.
func refused(res *http.Response, id job.ID) (certain bool, err error) {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return false, fmt.Errorf("the answer was cut: %w", err)
	}
	var no refusal
	if err := json.Unmarshal(text, &no); err != nil {
		return false, fmt.Errorf("%s instead of an answer", res.Status)
	}
	return no.cause(res.StatusCode, id)
}
