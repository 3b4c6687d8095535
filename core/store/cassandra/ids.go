package cassandra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"fencepost/core/clock"
	"fencepost/core/store"
)

// DefaultBlockSize is the number of ids that a process takes at once.
const DefaultBlockSize = 100

// recentBlocks is how many allocations the row remembers: an allocation whose
// answer was lost is settled by finding itself there.
const recentBlocks = 32

// IDs hands out unique numbers from blocks that a process takes by one
// conditional statement each (Hi/Lo). Numbers start at 1. They rise within a
// process, not across processes, so they are no fencing tokens.
//
// A process that ends leaves the rest of its blocks unused; while none does,
// there are no gaps, since an allocation whose answer was lost is asked again
// until it is settled. Safe for concurrent use.
type IDs struct {
	db      database
	timeout time.Duration // of one copy of a request
	block   int64

	mu    sync.Mutex
	names map[string]*block
}

// database is what IDs use of a *DB.
type database interface {
	CAS(ctx context.Context, copyNo int, stmts ...store.Statement) (applied bool, rows []map[string]any, err error)
	QueryBy(ctx context.Context, copyNo int, serial bool, s store.Statement) ([]map[string]any, error)
}

type block struct {
	sem     chan struct{} // one allocation a name at a time
	next    int64
	end     int64       // first number after the block; next == end: empty
	pending *allocation // sent, not settled
	reader  int         // which replica to ask
}

// allocation is one conditional statement and its resends, all identical.
type allocation struct {
	lo      int64
	attempt string
	stmt    store.Statement
	copies  int
}

// NewIDs returns counters in db's keyspace; blockSize 0 means DefaultBlockSize.
func NewIDs(db *DB, blockSize int64) *IDs {
	if blockSize <= 0 {
		blockSize = DefaultBlockSize
	}
	return &IDs{db: db, timeout: db.cfg.RequestTimeout, block: blockSize, names: map[string]*block{}}
}

// Next returns a number that no other call for name returns, in any process.
// When ctx ends first, the allocation on its way is settled by the next call.
func (i *IDs) Next(ctx context.Context, name string) (int64, error) {
	return i.take(ctx, "id/"+name)
}

func (i *IDs) take(ctx context.Context, name string) (int64, error) {
	i.mu.Lock()
	b := i.names[name]
	if b == nil {
		b = &block{sem: make(chan struct{}, 1)}
		i.names[name] = b
	}
	i.mu.Unlock()
	select {
	case b.sem <- struct{}{}:
	case <-ctx.Done():
		return 0, &store.Error{Op: "take an id of " + name, Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	defer func() { <-b.sem }()
	if b.next == b.end {
		if err := i.fill(ctx, name, b); err != nil {
			return 0, err
		}
	}
	n := b.next
	b.next++
	return n, nil
}

const (
	readIDs   = "SELECT next_id, recent FROM ids WHERE name = ?"
	insertIDs = "INSERT INTO ids (name, next_id, recent) VALUES (?, ?, ?) IF NOT EXISTS"
	updateIDs = "UPDATE ids SET next_id = ?, recent = ? WHERE name = ? IF next_id = ?"
)

// fill takes a block.
func (i *IDs) fill(ctx context.Context, name string, b *block) error {
	wait := 10 * time.Millisecond
	var refused store.Refusals
	for {
		done, err := i.try(ctx, name, b)
		if done {
			return nil
		}
		if final := refused.Final(err); final || ctx.Err() != nil {
			return &store.Error{Op: "take a block of ids of " + name, Outcome: store.Unknown, Permanent: final, Cause: errors.Join(context.Cause(ctx), err)}
		}
		if err != nil {
			// Refused or unanswered: give the nodes a moment.
			_ = clock.Go().Sleep(ctx, wait)
			wait = min(2*wait, time.Second)
		}
	}
}

// try sends one copy of the pending allocation, or of a new one.
func (i *IDs) try(ctx context.Context, name string, b *block) (bool, error) {
	if b.pending == nil {
		rows, err := i.read(ctx, name, b, false)
		if err != nil {
			return false, err
		}
		b.pending = i.plan(name, rows)
	}
	p := b.pending
	reqCtx, cancel := context.WithTimeout(ctx, i.timeout)
	applied, _, err := i.db.CAS(reqCtx, p.copies, p.stmt)
	cancel()
	switch {
	case applied:
		b.use(p, i.block)
		return true, nil
	case store.OutcomeOf(err) == store.Unknown && err != nil:
		p.copies++
		return false, err
	case err != nil && p.copies > 0:
		p.copies++ // an earlier copy may have been applied
		return false, err
	case err != nil:
		b.pending = nil
		return false, err
	case p.copies == 0:
		b.pending = nil // the only copy was rejected
		return false, nil
	}
	return i.settle(ctx, name, b)
}

// read asks one node for the row, after a failure another.
func (i *IDs) read(ctx context.Context, name string, b *block, serial bool) ([]map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	rows, err := i.db.QueryBy(ctx, b.reader, serial, store.Statement{CQL: readIDs, Args: []any{name}, Partition: []any{name}})
	if err != nil {
		b.reader++
	}
	return rows, err
}

// settle looks whether an allocation that was rejected after an earlier copy of
// it was lost from sight had been applied by that copy. The row has moved past
// the condition, so no copy can be applied any more.
func (i *IDs) settle(ctx context.Context, name string, b *block) (bool, error) {
	rows, err := i.read(ctx, name, b, true)
	if err != nil {
		return false, err
	}
	p := b.pending
	b.pending = nil
	if len(rows) == 1 {
		recent := recentOf(rows[0])
		if recent[p.lo] == p.attempt {
			b.use(p, i.block)
			return true, nil
		}
		if _, known := recent[p.lo]; !known {
			return false, fmt.Errorf("ids %s: cannot tell who took the block at %d: it is left unused", name, p.lo)
		}
	}
	return false, nil
}

func (b *block) use(p *allocation, size int64) {
	b.next, b.end, b.pending = p.lo, p.lo+size, nil
}

func (i *IDs) plan(name string, rows []map[string]any) *allocation {
	a := &allocation{lo: 1, attempt: uuid.NewString()}
	recent := map[int64]string{}
	if len(rows) == 1 {
		a.lo, _ = rows[0]["next_id"].(int64)
		recent = recentOf(rows[0])
	}
	recent[a.lo] = a.attempt
	if len(recent) > recentBlocks {
		los := slices.Sorted(maps.Keys(recent))
		for _, lo := range los[:len(los)-recentBlocks] {
			delete(recent, lo)
		}
	}
	a.stmt.Partition = []any{name}
	if len(rows) == 0 {
		a.stmt.CQL, a.stmt.Args = insertIDs, []any{name, a.lo + i.block, recent}
	} else {
		a.stmt.CQL, a.stmt.Args = updateIDs, []any{a.lo + i.block, recent, name, a.lo}
	}
	return a
}
