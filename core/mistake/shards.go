package mistake

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"fencepost/core/member"
	"fencepost/core/store"
)

// Copy is one copy of a shard's batch on its way.
type Copy struct {
	Ctx   context.Context
	Inner store.Shards
	Shard store.ShardID
	Batch store.Batch
	N     int // 0 for the first copy
}

// Send sends it as it is now.
func (c Copy) Send() (store.CommitResult, error) {
	return c.Inner.Commit(c.Ctx, c.Shard, c.Batch, c.N)
}

// Takeover: the batch takes the shard, it is not a tick of its owner.
func (c Copy) Takeover() bool { return c.Batch.From.Fence != c.Batch.To.Fence }

// Each changes a copy's operations one by one, not the batch that it is a copy of.
func (c *Copy) Each(f func(*store.Op)) {
	c.Batch.Ops = slices.Clone(c.Batch.Ops)
	for n := range c.Batch.Ops {
		f(&c.Batch.Ops[n])
	}
}

// Shards changes single calls of a store of shards; those whose function is nil are as
// they were.
type Shards struct {
	store.Shards
	OnCommit   func(Copy) (store.CommitResult, error)
	OnLook     func(context.Context, store.ShardID, *store.Header)
	OnRows     func(store.ShardID, []store.Row) []store.Row
	OnRow      func(context.Context, store.ShardID, store.Key) (*store.Row, error)
	OnInboxRow func(*store.InboxRow) *store.InboxRow
	OnQueue    func(*store.Queue)
}

// EnsureQueue implements store.Shards.
func (s Shards) EnsureQueue(ctx context.Context, queue string, shards int) (store.Queue, error) {
	q, err := s.Shards.EnsureQueue(ctx, queue, shards)
	if err == nil && s.OnQueue != nil {
		s.OnQueue(&q)
	}
	return q, err
}

// Queues implements store.Shards.
func (s Shards) Queues(ctx context.Context) ([]store.Queue, error) {
	all, err := s.Shards.Queues(ctx)
	for n := range all {
		if s.OnQueue != nil {
			s.OnQueue(&all[n])
		}
	}
	return all, err
}

// Commit implements store.Shards.
func (s Shards) Commit(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
	c := Copy{ctx, s.Shards, id, b, n}
	if s.OnCommit == nil {
		return c.Send()
	}
	return s.OnCommit(c)
}

// Look implements store.Shards.
func (s Shards) Look(ctx context.Context, id store.ShardID, serial bool) (*store.Header, error) {
	h, err := s.Shards.Look(ctx, id, serial)
	if s.OnLook != nil && h != nil {
		s.OnLook(ctx, id, h)
	}
	return h, err
}

// Scan implements store.Shards.
func (s Shards) Scan(ctx context.Context, id store.ShardID, r store.Range) ([]store.Row, error) {
	rows, err := s.Shards.Scan(ctx, id, r)
	if s.OnRows != nil {
		rows = s.OnRows(id, rows)
	}
	return rows, err
}

// Row implements store.Shards.
func (s Shards) Row(ctx context.Context, id store.ShardID, k store.Key) (*store.Row, error) {
	if s.OnRow == nil {
		return s.Shards.Row(ctx, id, k)
	}
	return s.OnRow(ctx, id, k)
}

// InboxRow implements store.Shards.
func (s Shards) InboxRow(ctx context.Context, id store.ShardID, job string) (*store.InboxRow, error) {
	row, err := s.Shards.InboxRow(ctx, id, job)
	if s.OnInboxRow != nil {
		row = s.OnInboxRow(row)
	}
	return row, err
}

// Has: the batch has an operation of which what is true.
func Has(b store.Batch, what func(store.Op) bool) bool { return slices.ContainsFunc(b.Ops, what) }

// Claims: the operation claims a run.
func Claims(op store.Op) bool { return op.Kind == store.Put && op.Row.Kind == store.KindRunning }

// Without leaves out the operations that lose names.
func Without(inner store.Shards, lose func(store.Batch, store.Op) bool) store.Shards {
	return Shards{Shards: inner, OnCommit: func(c Copy) (store.CommitResult, error) {
		whole := c.Batch
		c.Batch.Ops = slices.DeleteFunc(slices.Clone(whole.Ops), func(op store.Op) bool { return lose(whole, op) })
		return c.Send()
	}}
}

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

// silentIsDead takes the shards of a process whose heartbeats have stood still for a
// ttl as if it had handed them over, though it ticks.
func silentIsDead(p Process, inner store.Shards) store.Shards {
	begin := time.Now()
	var mu sync.Mutex
	watch := member.NewWatch(p.TTL, 0)
	silent := func(ctx context.Context, owner string) bool {
		nonces, err := p.Members.Members(ctx, p.Cell)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			watch.Saw(nonces, time.Since(begin))
		}
		worker, _ := life(owner)
		// The first looks show nobody's silence.
		return time.Since(begin) > 2*p.TTL && !slices.Contains(watch.Present(), worker)
	}
	return Shards{Shards: inner, OnLook: func(ctx context.Context, _ store.ShardID, h *store.Header) {
		if h.Owner != "" && silent(ctx, h.Owner) {
			h.Owner = ""
		}
	}}
}
