package lock

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/store"
)

// maxIdle bounds the resources without callers whose rows are remembered, apart from
// those that another holds and that were asked for within sightingTTLs of their ttl: a
// caller that polls many locks must find its sightings again, or none ever gets old.
const (
	maxIdle      = 1024
	sightingTTLs = 10
)

// Client acquires locks. One a process and store is right: its callers queue in
// order and share what it knows. Safe for concurrent use.
type Client struct {
	store store.Locks
	opt   Options
	clock clock.Clock
	obs   Observer
	log   *slog.Logger

	// closing ends when Close is called, base when Close stops waiting.
	closing, base          context.Context
	beginClose, cancelBase context.CancelCauseFunc
	drained                chan struct{}
	mu                     sync.Mutex
	work                   int // calls, leases and background operations
	isClosing, isDrained   bool
	resources              map[string]*resource
	idle                   *list.List // of *resource, next to be forgotten first
	idleAt                 map[*resource]*list.Element
	leases                 map[*Lease]struct{}
}

// New returns a client of the lock rows in s, which stays the caller's to close.
func New(s store.Locks, o Options) (*Client, error) {
	if s == nil {
		return nil, errors.New("lock: no store")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{
		store: s, opt: o, clock: o.Clock, obs: o.Observer, log: o.Logger,
		drained:   make(chan struct{}),
		resources: map[string]*resource{},
		idle:      list.New(),
		idleAt:    map[*resource]*list.Element{},
		leases:    map[*Lease]struct{}{},
	}
	if c.obs == nil {
		c.obs = noObserver{}
	}
	c.closing, c.beginClose = context.WithCancelCause(context.Background())
	c.base, c.cancelBase = context.WithCancelCause(context.Background())
	return c, nil
}

// Close refuses new calls, ends the waiting ones with ErrClosed, and waits until
// every lease is released or lost and everything in the background is settled.
// When ctx ends first, it ends them all: leases are lost with ErrClosed as
// reason, operations end unknown, and an error says how much there was.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.isClosing = true
	c.drainLocked()
	c.mu.Unlock()
	c.beginClose(ErrClosed)
	select {
	case <-c.drained:
		c.cancelBase(ErrClosed)
		return nil
	case <-ctx.Done():
	}
	// First this, then the leases: one that begins in between sees it itself.
	c.cancelBase(ErrClosed)
	c.mu.Lock()
	left := c.work
	leases := slices.Collect(maps.Keys(c.leases))
	c.mu.Unlock()
	for _, l := range leases {
		l.lose(ErrClosed)
	}
	<-c.drained
	if left == 0 {
		return nil
	}
	return fmt.Errorf("lock: closed with %d leases and unsettled operations left (a lock that they hold is free again after its ttl): %w", left, context.Cause(ctx))
}

// begin counts a call in.
func (c *Client) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosing {
		return ErrClosed
	}
	c.work++
	return nil
}

// fork counts work in that follows from counted work. It reports false when
// the client is drained: then nothing may be started any more.
func (c *Client) fork() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isDrained {
		return false
	}
	c.work++
	return true
}

func (c *Client) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work--
	c.drainLocked()
}

func (c *Client) drainLocked() {
	if c.isClosing && c.work == 0 && !c.isDrained {
		c.isDrained = true
		close(c.drained)
	}
}

// resource returns the shared state of name and holds on to it.
func (c *Client) resource(name string) *resource {
	if c.opt.NoSingleFlight {
		return newResource(name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.resources[name]
	if r == nil {
		r = newResource(name)
		c.resources[name] = r
	}
	c.holdLocked(r)
	return r
}

func (c *Client) hold(r *resource) {
	if c.opt.NoSingleFlight {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holdLocked(r)
}

func (c *Client) holdLocked(r *resource) {
	r.refs++
	if e := c.idleAt[r]; e != nil {
		c.idle.Remove(e)
		delete(c.idleAt, r)
	}
}

// drop lets go of a resource; if too many are idle, some are forgotten.
func (c *Client) drop(r *resource) {
	if c.opt.NoSingleFlight {
		return
	}
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.refs--; r.refs > 0 {
		return
	}
	r.idleSince = now
	c.idleAt[r] = c.idle.PushBack(r)
	// One comes, two are looked at: so those that are kept are passed, and what has
	// become useless among them is found, however many there are.
	for range 2 {
		if c.idle.Len() <= maxIdle {
			return
		}
		e := c.idle.Front()
		old := e.Value.(*resource)
		if old.watched(now - old.idleSince) {
			c.idle.MoveToBack(e)
			continue
		}
		c.idle.Remove(e)
		delete(c.idleAt, old)
		delete(c.resources, old.name)
	}
}

// newID returns a new attempt id, spelled as stores give UUIDs back: ids are compared
// as text.
func (c *Client) newID() string {
	id := c.opt.NewID()
	if u, err := uuid.Parse(id); err == nil {
		return u.String()
	}
	return id // the store refuses it
}

// jitter returns a duration drawn from d/2 to 3d/2.
func (c *Client) jitter(d time.Duration) time.Duration { return d/2 + c.draw(d) }

// draw returns a duration drawn from 0 to d.
func (c *Client) draw(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.opt.Rand.Int64N(int64(d)))
}

// requestTimeout is the time limit of one copy of a request about a lease of ttl.
func (c *Client) requestTimeout(ttl time.Duration) time.Duration {
	if c.opt.RequestTimeout > 0 {
		return c.opt.RequestTimeout
	}
	return max(ttl/6, time.Millisecond)
}

// RaiseFence raises the fence of a lock by so much and frees it, for rows that were restored
// from an old copy of the database: tokens above theirs were given out since, and must not
// be given out again. A lock without a row, as it is younger than the copy, gets one. Nobody
// should use the lock meanwhile; a holder loses it.
//
// It returns the new fence: the next grant's token is one higher. With an error it may be
// called again: a fence that is raised twice is only higher.
func RaiseFence(ctx context.Context, s store.Locks, resource string, by int64) (fence int64, err error) {
	if by < 1 {
		return 0, fmt.Errorf("lock: raise the fence of %q by %d: fences only rise", resource, by)
	}
	from, err := s.Read(ctx, resource, true)
	if err != nil {
		return 0, err
	}
	to := store.Version{Fence: by, Attempt: uuid.NewString(), TTL: DefaultTTL}
	if from != nil {
		// The next grant's token must be one that sinks take.
		if from.Fence > math.MaxInt64-2-by {
			return 0, fmt.Errorf("lock: raise the fence of %q by %d: it is %d, and tokens end at 2^63-2", resource, by, from.Fence)
		}
		to.Fence, to.TTL = from.Fence+by, from.TTL
	}
	res, err := s.CAS(ctx, resource, from, to, 0)
	if err != nil {
		return 0, err
	}
	if !res.Applied {
		return 0, fmt.Errorf("lock: raise the fence of %q: it was changed at the same time, to %s: stop its users first", resource, res.Row)
	}
	return to.Fence, nil
}
