package paxos

import (
	"context"
	"errors"
	"time"

	"fencepost/harness/env/link"
)

// cut is the victim's flows to and from the other nodes.
type cut struct {
	in, out []link.End
	inert   bool
}

func newCut(f *link.Fabric, inert bool) *cut {
	c := &cut{inert: inert}
	for _, name := range nodes {
		if name != victim {
			c.in = append(c.in, f.Flow(name, victim)...)
			c.out = append(c.out, f.Flow(victim, name)...)
		}
	}
	return c
}

func (c *cut) set(ctx context.Context, ends []link.End, kind link.Kind) error {
	if c.inert {
		return nil
	}
	return link.SetEnds(ctx, ends, link.Mode{Kind: kind})
}

// hold keeps what is sent to the victim.
func (c *cut) hold(ctx context.Context) error { return c.set(ctx, c.in, link.Stall) }

// deliver lets what is held through and holds on.
func (c *cut) deliver(ctx context.Context) error {
	if c.inert {
		return nil
	}
	_, err := link.Flush(ctx, c.in...)
	return err
}

// isolate lets the victim hear but not speak. The order matters: what it does upon
// hearing must find its way out closed.
func (c *cut) isolate(ctx context.Context) error {
	if err := c.set(ctx, c.out, link.Stall); err != nil {
		return err
	}
	return c.set(ctx, c.in, link.Pass)
}

// heal lets everything pass and waits until what was held has arrived.
func (c *cut) heal(ctx context.Context) error {
	if err := errors.Join(c.set(ctx, c.out, link.Pass), c.set(ctx, c.in, link.Pass)); err != nil {
		return err
	}
	for c.inside(c.out)+c.inside(c.in) > 0 {
		if err := pause(ctx, poll); err != nil {
			return err
		}
	}
	return nil
}

// inside is the number of bytes that are under way in the links.
func (c *cut) inside(ends []link.End) int64 {
	var n int64
	for _, e := range ends {
		n += e.Link.Counters().Dir(e.Dir).PendingBytes
	}
	return n
}

const (
	// poll is how often a condition is looked at.
	poll = 5 * time.Millisecond
	// quiet is how long nothing more must have come for an answer to count as
	// held as a whole. Gossip can begin the wait too early: hence the armed check.
	quiet = 200 * time.Millisecond
)

// errNothingHeld: the write ended, or time was up, before an answer was held.
var errNothingHeld = errors.New("the write ended before an answer to it was held")

// awaitHeld waits until bytes are held on the way to the victim and no more come.
func (c *cut) awaitHeld(ctx context.Context, ended <-chan struct{}) error {
	last, since := int64(0), time.Now()
	for {
		n := c.inside(c.in)
		if n != last {
			last, since = n, time.Now()
		}
		if n > 0 && time.Since(since) >= quiet {
			return nil
		}
		if err := wait(ctx, ended); err != nil {
			return err
		}
	}
}

// wait is one poll, unless the write has ended.
func wait(ctx context.Context, ended <-chan struct{}) error {
	t := time.NewTimer(poll)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ended:
		return errNothingHeld
	case <-ctx.Done():
		return ctx.Err()
	}
}
