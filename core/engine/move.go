package engine

import (
	"context"
	"errors"
	"time"

	"fencepost/core/store"
)

// ErrRunsGoOn: a shard was to be handed over, and runs of it did not end in time. It stays.
var ErrRunsGoOn = errors.New("runs of the shard have not ended in time")

// errMoving: the shard is being handed over already.
var errMoving = errors.New("the shard is being handed over")

// giving is a hand-over by a process that goes on.
type giving struct {
	to    string        // the address of the next owner
	until time.Duration // runs may go on
	done  chan error
}

// HandOver gives a shard to the process at an address, and returns when that is settled. Until
// then nothing is claimed, and all else goes on: what is enqueued rides in the last tick too, and
// what comes too late for that is forwarded. No run is interrupted: if some have not ended after
// DrainTimeout, or when ctx ends, the shard stays, and the error is ErrRunsGoOn, or ctx's cause.
// It may be settled all the same when ctx ends while the last tick is on its way.
//
// The process at the address is the only one that does not wait before it takes the shard;
// Glance tells it. If it does not, another one does.
func (e *Engine) HandOver(ctx context.Context, id store.ShardID, addr string) error {
	s := e.shard(id)
	if s == nil {
		return ErrNotOwner
	}
	o := s.current()
	g := &giving{to: addr, until: e.o.Clock.Now() + e.o.DrainTimeout, done: make(chan error, 1)}
	if o == nil || !o.post(func() { o.give(g) }) {
		return ErrNotOwner
	}
	select {
	case err := <-g.done:
		return err
	case <-ctx.Done():
		o.post(func() { o.keep(g, context.Cause(ctx)) })
		return context.Cause(ctx)
	}
}

// Glance has the header of a shard looked at now: it was handed over to this process. The error is a
// *CommandError.
func (e *Engine) Glance(id store.ShardID) error {
	s := e.shard(id)
	if s == nil {
		return &CommandError{Command: "glance", Shard: id.String(), Outcome: store.Fail, Cause: ErrNotOwner}
	}
	s.lookSoon()
	return nil
}

// Want takes note that the process at an address should own a shard of this one, and WantedBy is the last
// address that was noted; "": none, or the shard was another's since. The error is a *CommandError.
func (e *Engine) Want(id store.ShardID, addr string) error {
	s := e.shard(id)
	if s == nil || s.current() == nil {
		return &CommandError{Command: "want", Shard: id.String(), Outcome: store.Fail, Cause: ErrNotOwner}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = addr
	return nil
}

// WantedBy is explained with Want.
func (e *Engine) WantedBy(id store.ShardID) string {
	s := e.shard(id)
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted
}

// Holders returns the names (Options.Name) of the shards' owners, as the headers last showed
// them; a shard without an owner that is known is not in it.
func (e *Engine) Holders() map[store.ShardID]string {
	out := map[store.ShardID]string{}
	for _, s := range e.all() {
		if name := s.heldBy(); name != "" {
			out[s.id] = name
		}
	}
	return out
}

func (s *shard) heldBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner != nil {
		return s.e.o.Name
	}
	return s.holder
}

// give begins a hand-over.
func (o *owner) give(g *giving) {
	switch {
	case o.stopping:
		g.done <- ErrStopping
	case o.giving != nil:
		g.done <- errMoving
	default:
		o.giving = g
	}
}

// keep ends a hand-over that has not happened.
func (o *owner) keep(g *giving, why error) {
	if g != nil && o.giving == g {
		o.giving = nil
		g.done <- why
	}
}

// leaving: it claims nothing any more.
func (o *owner) leaving() bool { return o.stopping || o.giving != nil }

// last reports whether the next batch can be the last one: nothing runs. A process that stops
// has refused what waits; one that goes on takes what fits into that batch.
func (o *owner) last() bool {
	if o.stopping {
		return o.m.idle()
	}
	return o.giving != nil && o.m.atRest()
}

// nextOwner is the address of who is to own the shard after the last batch; "": it is not known.
func (o *owner) nextOwner() string {
	if o.giving != nil {
		return o.giving.to
	}
	return ""
}

// handed: the last batch is settled. What comes from now on is forwarded to the next owner, who may
// not have the shard yet.
func (o *owner) handed(addr string) {
	o.s.saw(store.Header{Addr: addr})
	if g := o.giving; g != nil {
		o.giving = nil
		g.done <- nil
	}
}

// atRest reports that nothing runs, and nothing is tried alone.
func (m *machine) atRest() bool { return m.running == 0 && len(m.singles) == 0 && !m.probe }

// awaits reports whether who is at the address was handed the shard, and may not have it yet.
func (s *shard) awaits(addr string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next && s.addr == addr && s.e.o.Clock.Now() < s.awaited
}

// lookSoon has the header looked at now. By a timer, so that in a simulation it does not happen at
// the same instant.
func (s *shard) lookSoon() {
	s.e.o.Clock.AfterFunc(1, func() {
		select {
		case s.glance <- struct{}{}:
		default:
		}
	})
}

// rest waits until d is over or somebody asks for a look.
func (s *shard) rest(ctx context.Context, d time.Duration) error {
	over := make(chan struct{})
	defer s.e.o.Clock.AfterFunc(d, func() { close(over) })()
	select {
	case <-over:
	case <-s.glance:
	case <-ctx.Done():
	}
	return ctx.Err()
}
