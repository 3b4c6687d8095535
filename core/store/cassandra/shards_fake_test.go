package cassandra

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"fencepost/core/store"
)

// fakeShards executes exactly the statements on queues, shards and inboxes, in
// memory. Arguments must have the types of their columns.
type fakeShards struct {
	mu     sync.Mutex
	queues map[string]fakeQueue
	// oldest is the setting, once there is one.
	oldest string
	// failing are the errors of statements.
	failing map[string]error
	// between, if set, is called once before a queue is raised.
	between func()
	parts   map[store.ShardID]*fakePart
	// blind plants a bug: these statements' conditions hold always.
	blind map[string]bool
	// stampOnly plants a bug: rejections show the header only.
	stampOnly bool
	last      []int // copyNo of each request
	// fail, if set, is the error of every request.
	fail       error
	unexpected error
}

// fakeQueue is a row; first is nil until it is set.
type fakeQueue struct {
	shards int
	first  any
}

func (q fakeQueue) row(name any) map[string]any {
	first, _ := q.first.(int) // null has its type's zero value
	return map[string]any{"queue": name, "shards": q.shards, "first_shards": first}
}

type fakePart struct {
	rows  map[store.Key]map[string]any
	inbox map[string]map[string]any
}

var _ database = (*fakeShards)(nil)

const insertSetting = "INSERT INTO settings (name, value) VALUES (?, ?) IF NOT EXISTS"

func newFakeShards() *fakeShards {
	return &fakeShards{queues: map[string]fakeQueue{}, parts: map[store.ShardID]*fakePart{}, blind: map[string]bool{}}
}

func (f *fakeShards) part(queue, shard any) *fakePart {
	id := store.ShardID{Queue: queue.(string), Shard: shard.(int)}
	p := f.parts[id]
	if p == nil {
		p = &fakePart{rows: map[store.Key]map[string]any{}, inbox: map[string]map[string]any{}}
		f.parts[id] = p
	}
	return p
}

func (f *fakeShards) begin(ctx context.Context, copyNo int) error {
	f.last = append(f.last, copyNo)
	if ctx.Err() != nil {
		return &store.Error{Outcome: store.Fail, Cause: context.Cause(ctx)}
	}
	return f.fail
}

// headerRow makes a header's columns of the arguments that begin with the fence.
func headerRow(a []any) map[string]any {
	row := map[string]any{"kind": int8(0), "at": int64(0), "id": ""}
	for n, name := range []string{"fence", "tick", "nonce", "owner", "addr", "ttl_ms", "read_mark", "low_pending", "low_running", "low_ended", "wall", "state", "due", "wait"} {
		row[name] = a[n]
	}
	row["nonce"] = stored(a[2].(string))
	return row
}

// stored: an all-zero UUID reads as "", see plain.
func stored(nonce string) string {
	if nonce == noNonce {
		return ""
	}
	return nonce
}

func fakeKey(a []any) store.Key {
	return store.Key{Kind: store.Kind(a[0].(int8)), At: a[1].(int64), ID: a[2].(string)}
}

func fakeRow(a []any) map[string]any {
	return map[string]any{"kind": a[0].(int8), "at": a[1].(int64), "id": a[2].(string), "state": a[3].(string), "attempt": a[4].(int),
		"run": a[5].(int64), "due": a[6].(int64), "wait": a[7].(int64), "place": a[8].(int64),
		"note": a[9].(string), "body": a[10].([]byte)}
}

func (f *fakeShards) CAS(ctx context.Context, copyNo int, stmts ...store.Statement) (bool, []map[string]any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin(ctx, copyNo); err != nil {
		return false, nil, err
	}
	ok := true
	var there []map[string]any
	var puts, deletes []func() // one timestamp: deletions win
	for _, s := range stmts {
		if err := f.failing[s.CQL]; err != nil {
			return false, nil, err
		}
		holds, row, isDeletion, do := f.exec(s)
		if f.unexpected != nil {
			return false, nil, f.unexpected
		}
		if row != nil && (len(stmts) == 1 || !f.stampOnly || s.CQL == updateShardHeader) {
			there = append(there, row)
		}
		ok = ok && (holds || f.blind[s.CQL])
		if isDeletion {
			deletes = append(deletes, do)
		} else {
			puts = append(puts, do)
		}
	}
	if !ok {
		if len(stmts) == 1 && stmts[0].CQL == updateShardHeader && len(there) == 1 {
			h := there[0] // a single statement returns what it names
			there = []map[string]any{{"fence": h["fence"], "tick": h["tick"], "nonce": h["nonce"]}}
		}
		return false, there, nil
	}
	for _, do := range append(puts, deletes...) {
		do()
	}
	return true, nil, nil
}

// exec says whether a statement's condition holds, which row it names in it, and
// what it does.
func (f *fakeShards) exec(s store.Statement) (holds bool, row map[string]any, isDeletion bool, do func()) {
	a := s.Args
	switch s.CQL {
	case insertQueue:
		q, exists := f.queues[a[0].(string)]
		if exists {
			row = q.row(a[0])
		}
		return !exists, row, false, func() { f.queues[a[0].(string)] = fakeQueue{shards: a[1].(int)} }
	case raiseQueue:
		if do := f.between; do != nil {
			f.between = nil
			do()
		}
		q, exists := f.queues[a[2].(string)]
		if exists {
			row = map[string]any{"shards": q.shards}
		}
		return exists && q.shards == a[3], row, false, func() { f.queues[a[2].(string)] = fakeQueue{a[0].(int), a[1].(int)} }
	case insertSetting:
		if f.oldest != "" {
			row = map[string]any{"name": settingOldest, "value": f.oldest}
		}
		return row == nil, row, false, func() { f.oldest = a[1].(string) }
	case insertShardHeader:
		p := f.part(a[0], a[1])
		row = maps.Clone(p.rows[store.Key{}])
		return row == nil, row, false, func() { p.rows[store.Key{}] = headerRow(a[2:]) }
	case updateShardHeader:
		p := f.part(a[14], a[15])
		row = maps.Clone(p.rows[store.Key{}])
		holds = row != nil && row["fence"] == a[16] && row["tick"] == a[17] && row["nonce"] == stored(a[18].(string))
		return holds, row, false, func() { p.rows[store.Key{}] = headerRow(a) }
	case putShardRow, putNewShardRow:
		p, k := f.part(a[0], a[1]), fakeKey(a[2:])
		if s.CQL == putNewShardRow {
			row = maps.Clone(p.rows[k])
		}
		return row == nil, row, false, func() { p.rows[k] = fakeRow(a[2:]) }
	case deleteShardRow:
		p := f.part(a[0], a[1])
		return true, nil, true, func() { delete(p.rows, fakeKey(a[2:])) }
	case deleteShardUpTo:
		p := f.part(a[0], a[1])
		return true, nil, true, func() {
			maps.DeleteFunc(p.rows, func(k store.Key, _ map[string]any) bool { return int8(k.Kind) == a[2].(int8) && k.At <= a[3].(int64) })
		}
	case deleteBetween:
		p := f.part(a[0], a[1])
		return true, nil, true, func() {
			maps.DeleteFunc(p.rows, func(k store.Key, _ map[string]any) bool {
				return int8(k.Kind) == a[2].(int8) && k.At == a[3].(int64) && k.ID > a[4].(string) && k.ID < a[5].(string)
			})
		}
	case deleteWithin:
		p := f.part(a[0], a[1])
		return true, nil, true, func() {
			maps.DeleteFunc(p.rows, func(k store.Key, _ map[string]any) bool {
				return int8(k.Kind) == a[2].(int8) && k.At > a[3].(int64) && k.At < a[4].(int64)
			})
		}
	case insertInbox:
		p := f.part(a[0], a[1])
		row = maps.Clone(p.inbox[a[2].(string)])
		return row == nil, row, false, func() {
			p.inbox[a[2].(string)] = map[string]any{"id": a[2], "nonce": a[3], "body": a[4].([]byte)}
		}
	case deleteInbox:
		p := f.part(a[0], a[1])
		row = maps.Clone(p.inbox[a[2].(string)])
		return row != nil && row["nonce"] == a[3], row, true, func() { delete(p.inbox, a[2].(string)) }
	}
	f.unexpected = fmt.Errorf("statement %q", s.CQL)
	return false, nil, false, nil
}

func (f *fakeShards) QueryBy(ctx context.Context, copyNo int, _ bool, s store.Statement) ([]map[string]any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin(ctx, copyNo); err != nil {
		return nil, err
	}
	a := s.Args
	var out []map[string]any
	switch s.CQL {
	case readQueue:
		if q, ok := f.queues[a[0].(string)]; ok {
			out = append(out, q.row(a[0]))
		}
		return out, nil
	case selectQueue:
		for name, q := range f.queues {
			out = append(out, q.row(name))
		}
		return out, nil
	}
	p := f.part(a[0], a[1])
	take := func(k store.Key) {
		if row := p.rows[k]; row != nil {
			out = append(out, maps.Clone(row))
		}
	}
	switch s.CQL {
	case readHeader:
		take(store.Key{})
	case readRow:
		take(fakeKey(a[2:]))
	case readRange, readCount:
		after := store.Key{Kind: store.Kind(a[2].(int8)), At: a[3].(int64), ID: a[4].(string)}
		keys := slices.SortedFunc(maps.Keys(p.rows), func(k, l store.Key) int {
			if k.Less(l) {
				return -1
			}
			return 1
		})
		for _, k := range keys {
			if k.Kind == after.Kind && after.Less(k) && k.At <= a[5].(int64) && len(out) < a[6].(int) {
				take(k)
			}
		}
	case readInboxRow:
		if row := p.inbox[a[2].(string)]; row != nil {
			out = append(out, maps.Clone(row))
		}
	case scanInbox:
		for _, id := range slices.Sorted(maps.Keys(p.inbox)) {
			if id > a[2].(string) && id <= a[3].(string) && len(out) < a[4].(int) {
				out = append(out, maps.Clone(p.inbox[id]))
			}
		}
	default:
		return nil, fmt.Errorf("statement %q", s.CQL)
	}
	return out, nil
}
