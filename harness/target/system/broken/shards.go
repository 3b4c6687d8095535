package broken

import (
	"context"
	"slices"

	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

// commitRequest is one copy of a shard's batch.
type commitRequest struct {
	ctx    context.Context
	inner  store.Shards
	shard  store.ShardID
	batch  store.Batch
	copyNo int
}

func (r commitRequest) send() (store.CommitResult, error) {
	return r.inner.Commit(r.ctx, r.shard, r.batch, r.copyNo)
}

// takeover: the batch takes the shard, it is not a tick of its owner.
func (r commitRequest) takeover() bool { return r.batch.From.Fence != r.batch.To.Fence }

// claims is how many runs the batch claims.
func (r commitRequest) claims() (n int) {
	for _, op := range r.batch.Ops {
		if op.Kind == store.Put && op.Row.Kind == store.KindRunning {
			n++
		}
	}
	return n
}

// shards changes single calls of a store of shards; nil: none.
type shards struct {
	store.Shards
	commit  func(commitRequest) (store.CommitResult, error)
	looked  func(context.Context, store.ShardID, store.Header) store.Header
	scanned func(store.ShardID, []store.Row) []store.Row
}

func (s shards) Commit(ctx context.Context, id store.ShardID, b store.Batch, copyNo int) (store.CommitResult, error) {
	r := commitRequest{ctx, s.Shards, id, b, copyNo}
	if s.commit == nil {
		return r.send()
	}
	return s.commit(r)
}

func (s shards) Look(ctx context.Context, id store.ShardID, serial bool) (*store.Header, error) {
	h, err := s.Shards.Look(ctx, id, serial)
	if s.looked != nil && h != nil {
		shown := s.looked(ctx, id, *h)
		h = &shown
	}
	return h, err
}

func (s shards) Scan(ctx context.Context, id store.ShardID, r store.Range) ([]store.Row, error) {
	rows, err := s.Shards.Scan(ctx, id, r)
	if s.scanned != nil {
		rows = s.scanned(id, rows)
	}
	return rows, err
}

// shardsHook makes hooks of a decorator that needs no database.
func shardsHook(f func(workload.Config, store.Shards) store.Shards) func() workload.Hooks {
	return only(workload.Hooks{Shards: func(cfg workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards { return f(cfg, inner) }})
}

// without leaves out the operations that lose names.
func without(lose func(store.Batch, store.Op) bool) func(commitRequest) (store.CommitResult, error) {
	return func(r commitRequest) (store.CommitResult, error) {
		b := r.batch
		r.batch.Ops = slices.DeleteFunc(slices.Clone(b.Ops), func(op store.Op) bool { return lose(b, op) })
		return r.send()
	}
}
