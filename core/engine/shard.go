package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"fencepost/core/job"
	"fencepost/core/store"
)

// shard is one shard as this process sees it: it contends, owns, and contends again.
type shard struct {
	e   *Engine
	id  store.ShardID
	rnd *rand.Rand // used by the shard's goroutine only
	// turn is held during an insert into the inbox, inserts counts those who want to.
	turn    chan struct{}
	inserts atomic.Int64

	// glance asks for a look at the header now.
	glance chan struct{}

	mu      sync.Mutex
	owner   *owner // nil unless this process owns the shard
	holder  string // the name of another owner; "" if not known
	addr    string // where that takes enqueues; "" if not known
	next    bool   // it is who was handed the shard, and may not have it before awaited
	awaited time.Duration
	wanted  string        // see Engine.Want
	told    time.Duration // when somebody was told that none gets there; 0: nobody was
}

func (s *shard) current() *owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owner
}

func (s *shard) run(ctx context.Context) {
	for ctx.Err() == nil {
		h := s.observe(ctx)
		if h == nil {
			return
		}
		o := s.takeOver(ctx, *h)
		if o == nil {
			continue
		}
		s.mu.Lock()
		s.owner, s.holder, s.addr, s.next, s.wanted = o, "", "", false, ""
		s.mu.Unlock()
		o.loop(ctx)
		s.mu.Lock()
		s.owner = nil
		s.mu.Unlock()
	}
}

// observe looks at the header until its stamp has stood still for long enough by
// this process's own clock, counted from the return of the first look that showed
// it. It returns nil when ctx ends.
func (s *shard) observe(ctx context.Context) *store.Header {
	var seen store.Header
	var since time.Duration
	first := true
	var refused store.Refusals
	for {
		h, err := s.look(ctx)
		now := s.e.o.Clock.Now()
		wait := s.e.o.TTL / 8
		switch {
		case refused.Final(err):
			s.e.refused(s.id, err)
			wait = refusedPause
		case err == nil && h != nil && (first || h.Stamp != seen.Stamp):
			seen, since, first = *h, now, false
			s.saw(seen)
		case err == nil && h != nil:
			seen = *h
		case err == nil: // who created the queue did not come so far
			if q, ok := s.e.known(s.id.Queue); ok {
				_, _ = s.e.create(ctx, q.Name, q.First)
			}
		}
		if err == nil && h != nil {
			need := time.Duration(s.e.o.Rank(s.id)) * s.e.o.TTL / 8
			switch {
			case h.Owner != "":
				need += h.TTL
			case h.Addr == "": // its owner stopped
			case h.Addr == s.e.o.Addr:
				need = 0 // it was handed to this process
			default:
				need += s.e.o.TTL / 4 // or to another one
			}
			if now-since >= need {
				return &seen
			}
			wait = min(wait, need-(now-since))
		}
		if s.rest(ctx, s.jittered(wait)) != nil {
			return nil
		}
	}
}

// jittered lengthens d by up to an eighth.
func (s *shard) jittered(d time.Duration) time.Duration {
	return d + time.Duration(s.rnd.Int64N(int64(d/8)+1))
}

// look is a plain read: late at worst, and the conditional batch decides.
func (s *shard) look(ctx context.Context) (*store.Header, error) {
	rctx, stop := s.e.timeout(ctx, s.e.o.RequestTimeout)
	defer stop()
	return s.e.store.Look(rctx, s.id, false)
}

// takeOver tries to make the shard this process's own, from exactly the header
// that was seen.
func (s *shard) takeOver(ctx context.Context, h store.Header) *owner {
	if h.Fence >= job.MaxFence {
		s.e.o.Logger.Error("fences of a shard exhausted", "shard", s.id.String(), "fence", h.Fence)
		_ = s.e.o.Clock.Sleep(ctx, s.e.o.TTL)
		return nil
	}
	to := h
	to.Fence, to.Tick, to.Nonce = h.Fence+1, h.Tick+1, s.e.o.NewID()
	to.Owner, to.Addr, to.TTL = s.e.o.Name, s.e.o.Addr, s.e.o.TTL
	b := store.Batch{From: h.Stamp, To: to}
	span := s.e.begin(Op{Kind: OpTakeover, Shard: s.id, From: b.From, To: to.Stamp})
	a := answer{from: b.From, to: to.Stamp}
	first := s.e.o.Clock.Now()
	trust := first + s.e.o.TTL - s.e.o.margin()
	var refused store.Refusals
	for n := 0; ; n++ {
		s.e.step(Step{Kind: StepSend, Shard: s.id, Fence: to.Fence, Tick: to.Tick})
		span.Sending(n)
		rctx, stop := s.e.timeout(ctx, s.e.o.RequestTimeout)
		a.res, a.err = s.e.store.Commit(rctx, s.id, b, n)
		stop()
		now := s.e.o.Clock.Now()
		switch v := settleTakeover(a); {
		case v == applied:
			span.End(Result{Outcome: store.OK})
			trust = max(trust, s.e.o.anchor(first, now)+s.e.o.TTL-s.e.o.margin())
			if now >= trust {
				return nil // too late to be trusted: the next one takes it over
			}
			s.e.taken()
			s.e.step(Step{Kind: StepOwn, Shard: s.id, Fence: to.Fence, Tick: to.Tick, Paused: to.Pause.On})
			return newOwner(s, to, first, trust)
		case v == lost:
			// Only the sole copy's rejection says that it never happened.
			span.End(Result{Outcome: rejection(a), Stamp: a.res.Stamp})
			return nil
		case v == again:
			a.unsure++
		}
		final := refused.Final(a.err)
		if final || now >= trust || ctx.Err() != nil || a.unsure == 0 && n >= 2 {
			outcome := store.Fail
			if a.unsure > 0 {
				outcome = store.Unknown
			}
			span.End(Result{Outcome: outcome, Err: a.err})
			pause := s.e.o.TTL / 8
			if final {
				s.e.refused(s.id, a.err)
				pause = refusedPause
			}
			_ = s.e.o.Clock.Sleep(ctx, s.jittered(pause))
			return nil
		}
		if s.e.o.Clock.Sleep(ctx, s.jittered(s.e.o.TTL/100)) != nil {
			continue // the next answer is "not sent", and ends it
		}
	}
}

// rejection is the outcome of a batch whose last copy was rejected for good.
func rejection(a answer) store.Outcome {
	if a.unsure > 0 {
		return store.Unknown
	}
	return store.Fail
}

// RaiseFences raises the fences of a queue's shards by so much, for rows that were restored
// from an old copy of the database: runs that were claimed since had higher ids, and theirs
// must not be given out again. The next owners rescue the runs that the copy shows. A queue
// that is younger than the copy is created. Nobody should own the shards meanwhile; an
// owner loses them.
//
// With an error it may be called again: a fence that is raised twice is only higher. They
// end at job.MaxFence.
func RaiseFences(ctx context.Context, s store.Shards, q Queue, by int64) error {
	if by < 1 {
		return fmt.Errorf("engine: raise the fences of queue %q by %d: fences only rise", q.Name, by)
	}
	stored, err := s.EnsureQueue(ctx, q.Name, q.Shards)
	if err == nil {
		err = fits(stored, q.Shards)
	}
	if err != nil {
		return err
	}
	for i := range stored.Shards {
		if err := raiseFence(ctx, s, store.ShardID{Queue: q.Name, Shard: i}, by); err != nil {
			return err
		}
	}
	return nil
}

// raiseFence is a takeover by nobody.
func raiseFence(ctx context.Context, s store.Shards, id store.ShardID, by int64) error {
	h, err := s.Look(ctx, id, true)
	switch {
	case err != nil:
		return err
	case h == nil:
		return fmt.Errorf("engine: raise the fence of shard %s: it has no header", id)
	case h.Fence > job.MaxFence-by:
		return fmt.Errorf("engine: raise the fence of shard %s by %d: it is %d, and fences end at %d", id, by, h.Fence, int64(job.MaxFence))
	}
	to := *h
	to.Fence, to.Tick, to.Nonce = h.Fence+by, h.Tick+1, uuid.NewString()
	to.Owner, to.Addr = "", ""
	res, err := s.Commit(ctx, id, store.Batch{From: h.Stamp, To: to}, 0)
	if err == nil && !res.Applied {
		err = fmt.Errorf("engine: raise the fence of shard %s: it was changed at the same time: stop all schedulers first", id)
	}
	return err
}
