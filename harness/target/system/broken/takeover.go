package broken

import (
	"context"
	"sync"
	"time"

	"fencepost/core/lock"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("takeover-plain-write", only(workload.Hooks{Locks: takeoverPlainWrite}))
	plant("takeover-ignores-beat", only(workload.Hooks{Locks: takeoverIgnoresBeat}))
}

// takeoverPlainWrite reads the row and, if nothing has changed, writes it
// without a condition. Between the two it stands still for longer than a
// contender's polling interval (ttl/8), as a busy process may: two contenders
// then both find the row unchanged, in every run.
func takeoverPlainWrite(cfg workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
	return plainTakeover{inner, db, cfg.TTL / 7}
}

type plainTakeover struct {
	store.Locks
	db     *cassandra.DB
	window time.Duration
}

func (p plainTakeover) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	takeover := from != nil && from.Holder != "" && to.Holder != "" && to.Fence == from.Fence+1
	if !takeover {
		return p.Locks.CAS(ctx, resource, from, to, copyNo)
	}
	row, err := p.Read(ctx, resource, false)
	if err != nil {
		return store.CASResult{}, err
	}
	if !store.Same(row, from) {
		return store.CASResult{Row: row}, nil
	}
	t := time.NewTimer(p.window)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	err = writeRow(ctx, p.db, resource, to)
	return store.CASResult{Applied: err == nil}, err
}

// takeoverIgnoresBeat looks at whose lease it is and not at whether it was
// renewed: a lease that is longer than its ttl is taken over while it is live.
func takeoverIgnoresBeat(_ workload.Config, db *cassandra.DB, inner store.Locks) store.Locks {
	return &beatBlind{Locks: inner, db: db, first: map[string]store.Version{}}
}

type beatBlind struct {
	store.Locks
	db    *cassandra.DB
	mu    sync.Mutex
	first map[string]store.Version // of each lease, as it was first seen
}

// Read shows a lease as it was first seen, whatever its beat is now.
func (b *beatBlind) Read(ctx context.Context, resource string, serial bool) (*store.Version, error) {
	row, err := b.Locks.Read(ctx, resource, serial)
	if err != nil || row.Free() || serial {
		return row, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if f, ok := b.first[resource]; ok && f.Attempt == row.Attempt {
		return &f, nil
	}
	b.first[resource] = *row
	return row, nil
}

func (b *beatBlind) CAS(ctx context.Context, resource string, from *store.Version, to store.Version, copyNo int) (store.CASResult, error) {
	if from.Free() || mistake.KindOf(from, to) != lock.Acquire {
		return b.Locks.CAS(ctx, resource, from, to, copyNo)
	}
	applied, _, err := b.db.CAS(ctx, copyNo, store.Statement{
		CQL:       `UPDATE locks SET fence = ?, beat = ?, attempt = ?, holder = ?, ttl_ms = ? WHERE resource = ? IF fence = ? AND holder = ?`,
		Args:      []any{to.Fence, to.Beat, to.Attempt, to.Holder, to.TTL.Milliseconds(), resource, from.Fence, from.Holder},
		Partition: []any{resource},
	})
	if err != nil || applied {
		return store.CASResult{Applied: applied}, err
	}
	row, err := b.Locks.Read(ctx, resource, true)
	if err != nil {
		err = &store.Error{Op: "refused; read " + resource, Outcome: store.Fail, Cause: err}
	}
	return store.CASResult{Row: row}, err
}
