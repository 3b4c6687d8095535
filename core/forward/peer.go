package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
)

const (
	// maxBatch and maxBatchBytes bound the enqueues of one request; one may be larger alone.
	maxBatch      = 100
	maxBatchBytes = store.MaxBytes
	// atOnce is how many requests are on their way to one process; another one goes each pace,
	// up to most: some enqueues may have to wait for a shard that others do not wait for.
	atOnce = 4
	most   = 64
	pace   = 50 * time.Millisecond
	// A process that did not answer is left alone for firstRest, and up to lastRest if it
	// does not answer again and again.
	firstRest = 100 * time.Millisecond
	lastRest  = 5 * time.Second
	// pingTimeout bounds the wait for an answer to a ping. A process with too much to do still
	// answers in time; one that is paused or unreachable does not.
	pingTimeout = time.Second
	// answerTime is what is left of a caller's time for the answer to come back: at most, and
	// at most a quarter of it.
	answerTime = 100 * time.Millisecond
)

// peer is another process, at one address. Enqueues that wait for it ride in one request; they
// wait while others are on their way, and not else.
type peer struct {
	mu       sync.Mutex
	waiting  []*call
	requests int
	timer    bool
	// down is why it is left alone, until rest at least; nil: it is not. It did not answer failures
	// times in a row. One that was not reached is asked again when it has answered a ping.
	down     error
	rest     time.Time
	failures int
	pinging  bool
	// single: it runs the version before and takes an enqueue a request. Until it does not
	// answer: it may be another one then.
	single bool
}

// call is an enqueue whose caller waits for it.
type call struct {
	id    job.ID
	body  json.RawMessage
	until time.Time // zero: for ever
	sent  bool      // guarded by the peer's mu
	left  func()    // its caller does not wait any more; set when it is sent
	done  chan result
}

type result struct {
	rec receipt
	// certain: with an error, nothing was done.
	certain bool
	err     error
}

// peer is the one at an address.
func (c *Client) peer(addr string) *peer {
	c.peers.mu.Lock()
	defer c.peers.mu.Unlock()
	p := c.peers.at[addr]
	if p == nil {
		p = &peer{}
		c.peers.at[addr] = p
	}
	return p
}

// peers are all that were ever asked, by address.
type peers struct {
	mu sync.Mutex
	at map[string]*peer
}

func newPeers() *peers { return &peers{at: map[string]*peer{}} }

// enqueue has a job ride to the process at addr, and waits for its answer or the end of ctx.
func (c *Client) enqueue(ctx context.Context, addr string, id job.ID, body []byte) result {
	p := c.peer(addr)
	k := &call{id: id, body: body, done: make(chan result, 1)}
	k.until, _ = ctx.Deadline()
	p.mu.Lock()
	if err := p.alone(c, addr); err != nil {
		p.mu.Unlock()
		return result{certain: true, err: err}
	}
	p.waiting = append(p.waiting, k)
	p.send(c, addr)
	p.mu.Unlock()
	select {
	case r := <-k.done:
		return r
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !k.sent {
		p.waiting = slices.DeleteFunc(p.waiting, func(w *call) bool { return w == k })
		return result{certain: true, err: context.Cause(ctx)}
	}
	k.left()
	select {
	case r := <-k.done:
		return r
	default:
		return result{err: context.Cause(ctx)}
	}
}

// alone is why the process is left alone now. mu is held.
func (p *peer) alone(c *Client, addr string) error {
	left := time.Until(p.rest)
	switch {
	case p.down == nil:
		return nil
	case errors.Is(p.down, engine.ErrUnreachable):
		if left <= 0 {
			p.ping(c, addr)
		}
		return p.down
	case left <= 0:
		p.down = nil
		return nil
	}
	return &engine.BusyError{Cause: engine.ErrStalled, RetryAfter: left}
}

// ping finds out whether anybody answers there, whatever. mu is held.
func (p *peer) ping(c *Client, addr string) {
	if p.pinging {
		return
	}
	p.pinging = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
		defer cancel()
		res, err := c.request(ctx, http.MethodGet, addr+pathPing, http.NoBody)
		if err == nil {
			_ = res.Body.Close()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.pinging = false
		switch {
		case err != nil:
			p.fails(fmt.Errorf("%w: %w", engine.ErrUnreachable, err))
		case errors.Is(p.down, engine.ErrUnreachable):
			p.down = nil
		}
	}()
}

// fails leaves the process alone for a while. mu is held.
func (p *peer) fails(why error) {
	rest := min(firstRest<<min(p.failures, 16), lastRest)
	p.failures++
	p.down, p.rest, p.single = why, time.Now().Add(rest), false
}

// send starts requests for what waits, as far as it may. mu is held.
func (p *peer) send(c *Client, addr string) {
	for len(p.waiting) > 0 && p.requests < atOnce {
		p.start(c, addr)
	}
	if len(p.waiting) == 0 || p.timer {
		return
	}
	p.timer = true
	time.AfterFunc(pace, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = false
		if len(p.waiting) > 0 && p.requests < most {
			p.start(c, addr)
		}
		p.send(c, addr)
	})
}

// start makes a request of what waits. mu is held.
func (p *peer) start(c *Client, addr string) {
	n, size := 0, 0
	for n < len(p.waiting) && n < maxBatch && (n == 0 || size+len(p.waiting[n].body) <= maxBatchBytes) {
		size += len(p.waiting[n].body)
		n++
	}
	batch := slices.Clone(p.waiting[:n])
	p.waiting = p.waiting[n:]
	p.requests++
	single := p.single
	ctx, cancel := context.WithTimeout(context.Background(), HandlerTimeout)
	wait := n
	for _, k := range batch {
		k.sent = true
		k.left = func() { // with mu held
			if wait--; wait == 0 {
				cancel()
			}
		}
	}
	go func() {
		defer cancel()
		err := errSingle
		if !single {
			err = c.deliver(ctx, addr, batch)
		}
		if errors.Is(err, errSingle) {
			p.mu.Lock()
			p.single = true
			p.mu.Unlock()
			err = c.deliverSingle(ctx, addr, batch)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests--
		p.ends(c, addr, err)
		p.send(c, addr)
	}()
}

// ends takes note of how a request ended; nil: it was answered. mu is held.
func (p *peer) ends(c *Client, addr string, err error) {
	if err == nil {
		p.failures, p.down = 0, nil
		return
	}
	p.fails(err)
	if !errors.Is(err, engine.ErrUnreachable) {
		p.ping(c, addr)
	}
	for _, k := range p.waiting { // each would wait in vain
		k.done <- result{certain: true, err: p.alone(c, addr)}
	}
	p.waiting = nil
}

// errSingle: the process does not take many enqueues in one request.
var errSingle = errors.New("forward: the other process runs the version before")

// deliverSingle makes a request for each of the calls.
func (c *Client) deliverSingle(ctx context.Context, addr string, batch []*call) error {
	var wg sync.WaitGroup
	failed := make([]error, len(batch))
	for n, k := range batch {
		wg.Go(func() {
			r := result{}
			r.rec, r.certain, r.err = c.post(ctx, addr+pathEnqueue, k.id, k.body, names(k.id))
			if errors.Is(r.err, engine.ErrUnreachable) {
				failed[n] = r.err
			}
			k.done <- r
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// overdue reports that the time of all calls is over.
func overdue(batch []*call) bool {
	return !slices.ContainsFunc(batch, func(k *call) bool { return k.until.IsZero() || time.Now().Before(k.until) })
}

// deliver makes one request for calls, and hands each its answer as it comes. The error says that
// the process did not answer.
func (c *Client) deliver(ctx context.Context, addr string, batch []*call) error {
	var body bytes.Buffer
	for _, k := range batch {
		in := enqueueRequest{Job: k.body}
		if !k.until.IsZero() {
			left := time.Until(k.until)
			in.Millis = max((left - min(left/4, answerTime)).Milliseconds(), 1)
		}
		_ = json.NewEncoder(&body).Encode(in) // of what was JSON
	}
	open := make(map[int]*call, len(batch))
	for n, k := range batch {
		open[n] = k
	}
	tell := func(n int, r result) {
		if k := open[n]; k != nil {
			delete(open, n)
			k.done <- r
		}
	}
	rest := func(certain bool, err error) {
		for n := range batch {
			tell(n, result{certain: certain, err: err})
		}
	}
	res, err := c.request(ctx, http.MethodPost, addr+pathEnqueues, &body)
	if errors.Is(err, engine.ErrUnreachable) {
		rest(true, err)
		return err
	}
	if err != nil {
		rest(false, err)
		if ctx.Err() != nil && !overdue(batch) {
			return nil // its callers have gone
		}
		c.http.CloseIdleConnections() // a new connection shows whether anybody is there
		return err
	}
	defer func() { _ = res.Body.Close() }()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return errSingle
	default:
		certain, err := refused(res, "")
		rest(certain, err)
		return nil
	}
	lines := json.NewDecoder(res.Body)
	for {
		var a enqueueAnswer
		if err := lines.Decode(&a); err != nil {
			answered := len(open) == 0 || ctx.Err() != nil && !overdue(batch)
			rest(false, fmt.Errorf("the answer was cut: %w", err))
			if answered {
				return nil
			}
			return err
		}
		k := open[a.N]
		switch {
		case k == nil:
		case a.Code != "":
			certain, err := a.cause(statuses[a.Code], k.id)
			tell(a.N, result{certain: certain, err: err})
		case a.ID != k.id:
			tell(a.N, result{err: errors.New("an answer to another request")})
		default:
			tell(a.N, result{rec: a.receipt})
		}
	}
}
