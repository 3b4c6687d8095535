package mistake

import (
	"context"
	"errors"
	"sync"
	"time"

	"fencepost/core/store"
)

// tickBlind has a tick's condition name the fence and not the tick. A copy that was
// not answered stays on its way for ttl/2, as in a coordinator that hangs, and then
// does again what was done long ago.
func tickBlind(p Process, inner store.Shards) store.Shards {
	return Shards{Shards: inner, OnCommit: func(c Copy) (store.CommitResult, error) {
		if c.Takeover() {
			return c.Send()
		}
		res, err := sendBlindly(c)
		if store.OutcomeOf(err) == store.Unknown && c.N == 0 {
			time.AfterFunc(p.TTL/2, func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Ctx), p.TTL/6)
				defer cancel()
				c.Ctx = ctx
				_, _ = sendBlindly(c)
			})
		}
		return res, err
	}}
}

// sendBlindly does the batch from whatever stamp its fence has come to.
func sendBlindly(c Copy) (store.CommitResult, error) {
	named := c.Batch.From
	for {
		res, err := c.Send()
		s := res.Stamp
		if err != nil || res.Applied || s == nil || s.Fence != named.Fence || *s == c.Batch.To.Stamp {
			return res, err
		}
		if *s == c.Batch.From { // a row kept it from happening: the stamp was fine
			res.Stamp = &named
			return res, nil
		}
		c.Batch.From = *s
	}
}

// unknownMeansNo takes a batch without an answer for one that did not happen, so
// that another one is built from the same stamp.
func unknownMeansNo(_ Process, inner store.Shards) store.Shards {
	var mu sync.Mutex
	given := map[string]bool{} // batches taken for lost, by nonce
	return Shards{Shards: inner, OnCommit: func(c Copy) (store.CommitResult, error) {
		no := &store.Error{Op: "commit " + c.Shard.String(), Outcome: store.Fail, Cause: errors.New("no answer")}
		mu.Lock()
		lost := given[c.Batch.To.Nonce]
		mu.Unlock()
		if lost {
			return store.CommitResult{}, no
		}
		res, err := c.Send()
		if store.OutcomeOf(err) != store.Unknown {
			return res, err
		}
		mu.Lock()
		given[c.Batch.To.Nonce] = true
		mu.Unlock()
		return store.CommitResult{}, no
	}}
}

// handOverAfter is how many runs a process claims before it hands a shard over.
const handOverAfter = 20

// earlyHandOver has each process hand one of its shards over, once, as if it were to
// stop: with the tick that claims a run, instead of one after the run's end. Then it
// ticks no more, and its runs go on.
func earlyHandOver(_ Process, inner store.Shards) store.Shards {
	l := &leaver{}
	return Shards{Shards: inner, OnCommit: l.do}
}

type leaver struct {
	mu      sync.Mutex
	claimed int
	left    reign
	by      string // the nonce of the batch that left it; "": not yet
}

func (l *leaver) do(c Copy) (store.CommitResult, error) {
	leaves, gone := l.look(c)
	switch {
	case gone:
		<-c.Ctx.Done()
		return store.CommitResult{}, &store.Error{Op: "tick", Outcome: store.Unknown, Cause: context.Cause(c.Ctx)}
	case !leaves:
		return c.Send()
	}
	c.Batch.To.Owner, c.Batch.To.Addr = "", ""
	res, err := c.Send()
	if err == nil && !res.Applied && (res.Stamp == nil || *res.Stamp != c.Batch.To.Stamp) {
		l.mu.Lock()
		l.by = "" // it did not happen
		l.mu.Unlock()
	}
	return res, err
}

// look says whether the batch is the one that leaves its shard, or comes after it.
func (l *leaver) look(c Copy) (leaves, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := reign{c.Shard, c.Batch.From.Fence}
	switch {
	case c.Takeover():
	case l.by != "":
		leaves = l.by == c.Batch.To.Nonce
		gone = !leaves && l.left == at
	case Has(c.Batch, Claims):
		for _, op := range c.Batch.Ops {
			if Claims(op) {
				l.claimed++
			}
		}
		if l.claimed >= handOverAfter {
			leaves, l.left, l.by = true, at, c.Batch.To.Nonce
		}
	}
	return leaves, gone
}
