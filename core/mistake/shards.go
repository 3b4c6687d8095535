package mistake

import (
	"context"
	"slices"

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
