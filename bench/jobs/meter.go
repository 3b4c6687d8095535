package jobs

import (
	"context"
	"sync/atomic"

	"fencepost/bench"
	"fencepost/core/store"
)

// meter counts what passes through a store of shards. The creation of a queue is left
// out.
type meter struct {
	store.Shards
	// commits are part of lwts.
	commits, lwts, rejected, unknown, reads atomic.Int64
}

func (m *meter) conditional(applied bool, err error) {
	switch {
	case store.OutcomeOf(err) == store.Unknown:
		m.unknown.Add(1)
	case err == nil && !applied:
		m.rejected.Add(1)
	}
}

// Look implements store.Shards.
func (m *meter) Look(ctx context.Context, s store.ShardID, serial bool) (*store.Header, error) {
	if serial {
		m.lwts.Add(1)
	} else {
		m.reads.Add(1)
	}
	return m.Shards.Look(ctx, s, serial)
}

// Commit implements store.Shards.
func (m *meter) Commit(ctx context.Context, s store.ShardID, b store.Batch, copyNo int) (store.CommitResult, error) {
	m.commits.Add(1)
	m.lwts.Add(1)
	res, err := m.Shards.Commit(ctx, s, b, copyNo)
	m.conditional(res.Applied, err)
	return res, err
}

// Scan implements store.Shards.
func (m *meter) Scan(ctx context.Context, s store.ShardID, r store.Range) ([]store.Row, error) {
	m.reads.Add(1)
	return m.Shards.Scan(ctx, s, r)
}

// Row implements store.Shards.
func (m *meter) Row(ctx context.Context, s store.ShardID, k store.Key) (*store.Row, error) {
	m.reads.Add(1)
	return m.Shards.Row(ctx, s, k)
}

// InboxPut implements store.Shards.
func (m *meter) InboxPut(ctx context.Context, s store.ShardID, r store.InboxRow, copyNo int) (bool, string, error) {
	m.lwts.Add(1)
	applied, existing, err := m.Shards.InboxPut(ctx, s, r, copyNo)
	m.conditional(applied, err)
	return applied, existing, err
}

// InboxDelete implements store.Shards.
func (m *meter) InboxDelete(ctx context.Context, s store.ShardID, id, nonce string, copyNo int) (bool, error) {
	m.lwts.Add(1)
	gone, err := m.Shards.InboxDelete(ctx, s, id, nonce, copyNo)
	m.conditional(gone, err)
	return gone, err
}

// InboxScan implements store.Shards.
func (m *meter) InboxScan(ctx context.Context, s store.ShardID, after, upTo string, limit int) ([]store.InboxRow, error) {
	m.reads.Add(1)
	return m.Shards.InboxScan(ctx, s, after, upTo, limit)
}

func (m *meter) traffic() bench.Traffic {
	return bench.Traffic{LWTs: m.lwts.Load(), Rejected: m.rejected.Load(), Unknown: m.unknown.Load(), Plain: m.reads.Load()}
}
