package cassandra

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/gocql/gocql"

	"fencepost/core/store"
)

// nulls says what a null column becomes.
type nulls int

const (
	nullNil  nulls = iota // nil
	nullZero              // the type's zero value
)

const appliedColumn = "[applied]"

// readRows reads all rows, all pages, and closes the iterator.
func readRows(iter *gocql.Iter, n nulls) ([]map[string]any, error) {
	data, err := iter.RowData()
	if err != nil {
		return nil, errors.Join(err, iter.Close())
	}
	var rows []map[string]any
	for {
		// Pointers to pointers, so that the driver can say null.
		dest := make([]any, len(data.Values))
		for i, v := range data.Values {
			dest[i] = reflect.New(reflect.TypeOf(v)).Interface()
		}
		if !iter.Scan(dest...) {
			break
		}
		row := make(map[string]any, len(dest))
		for i, d := range dest {
			p := reflect.ValueOf(d).Elem()
			switch {
			case !p.IsNil():
				row[data.Columns[i]] = plain(p.Elem().Interface())
			case n == nullZero:
				row[data.Columns[i]] = plain(reflect.Zero(p.Type().Elem()).Interface())
			default:
				row[data.Columns[i]] = nil
			}
		}
		rows = append(rows, row)
	}
	return rows, iter.Close()
}

// plain replaces the driver's own types; a zero UUID is "".
func plain(v any) any {
	if id, ok := v.(gocql.UUID); ok {
		if id == (gocql.UUID{}) {
			return ""
		}
		return id.String()
	}
	return v
}

// executeBatch sends a conditional batch and reads its rows, [applied] included.
// The driver's only way to the rows of a batch panics when the answer has no
// [applied] column or its first row cannot be read.
func executeBatch(s *gocql.Session, b *gocql.Batch) (rows []map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			rows, err = nil, fmt.Errorf("%w (%v)", errNoApplied, p)
		}
	}()
	first := map[string]any{}
	applied, iter, err := s.MapExecuteBatchCAS(b, first)
	if err != nil {
		return nil, err
	}
	first[appliedColumn] = applied
	rows = append(rows, first)
	for row := (map[string]any{}); iter.MapScan(row); row = map[string]any{} {
		rows = append(rows, row)
	}
	for _, row := range rows {
		for k, v := range row {
			row[k] = plain(v)
		}
	}
	return rows, iter.Close()
}

// splitApplied takes [applied] out of the rows of a conditional statement. An
// answer of [applied] alone has no rows.
func splitApplied(all []map[string]any) (applied bool, rows []map[string]any, err error) {
	for i, row := range all {
		a, ok := row[appliedColumn].(bool)
		if !ok {
			return false, nil, errNoApplied
		}
		if i == 0 {
			applied = a
		}
		delete(row, appliedColumn)
		if len(row) > 0 && !applied {
			rows = append(rows, row)
		}
	}
	if len(all) == 0 {
		return false, nil, errNoApplied
	}
	return applied, rows, nil
}

// columns reads a row's columns. lacking: one was null, or of another type.
type columns struct {
	row     map[string]any
	lacking bool
}

func column[T any](c *columns, name string) T {
	v, ok := c.row[name].(T)
	c.lacking = c.lacking || !ok
	return v
}

// recentOf reads the column recent of the table ids.
func recentOf(row map[string]any) map[int64]string {
	out := map[int64]string{}
	if m, ok := row["recent"].(map[int64]gocql.UUID); ok {
		for lo, id := range m {
			out[lo] = id.String()
		}
	}
	return out
}

const (
	whereShard  = " WHERE queue = ? AND shard = ?"
	whereHeader = whereShard + " AND kind = 0 AND at = 0 AND id = ''"
	whereRange  = whereShard + " AND kind = ? AND (at, id) > (?, ?) AND (at) <= (?) LIMIT ?"
	whereRow    = whereShard + " AND kind = ? AND at = ? AND id = ?"

	readHeader = "SELECT fence, tick, nonce, owner, addr, ttl_ms, read_mark, low_pending, low_running, low_ended, wall, state, due, wait FROM shards" + whereHeader

	insertShardHeader = "INSERT INTO shards (queue, shard, kind, at, id, fence, tick, nonce, owner, addr, ttl_ms, read_mark, low_pending, low_running, low_ended, wall, state, due, wait) " +
		"VALUES (?, ?, 0, 0, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"

	// The whole stamp is named: a rejected UPDATE returns only what it names, and
	// a condition on less could hold again for a late copy.
	updateShardHeader = "UPDATE shards SET fence = ?, tick = ?, nonce = ?, owner = ?, addr = ?, ttl_ms = ?, read_mark = ?, low_pending = ?, low_running = ?, low_ended = ?, wall = ?, state = ?, due = ?, wait = ?" +
		whereHeader + " IF fence = ? AND tick = ? AND nonce = ?"

	// All columns are written, so that nothing of an overwritten row shows through.
	putShardRow = "INSERT INTO shards (queue, shard, kind, at, id, state, attempt, run, due, wait, place, note, body) " +
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	putNewShardRow  = putShardRow + " IF NOT EXISTS"
	deleteShardRow  = "DELETE FROM shards" + whereRow
	deleteShardUpTo = "DELETE FROM shards" + whereShard + " AND kind = ? AND at <= ?"
	deleteBetween   = "DELETE FROM shards" + whereShard + " AND kind = ? AND at = ? AND id > ? AND id < ?"
	deleteWithin    = "DELETE FROM shards" + whereShard + " AND kind = ? AND at > ? AND at < ?"

	readRow   = "SELECT kind, at, id, state, attempt, run, due, wait, place, note, body FROM shards" + whereRow
	readCount = "SELECT at FROM shards" + whereRange
	readRange = "SELECT kind, at, id, state, attempt, run, due, wait, place, note, body FROM shards" + whereRange
)

// noNonce stands for the nonce "" of a header that no batch has changed: a
// condition on null could not be told from one on an absent column.
const noNonce = "00000000-0000-0000-0000-000000000000"

func nonceArg(nonce string) string { return cmp.Or(nonce, noNonce) }

func partitionOf(id store.ShardID) []any { return []any{id.Queue, int32(id.Shard)} }

// onShard is a statement whose first arguments are the partition's key.
func onShard(id store.ShardID, cql string, args ...any) store.Statement {
	return store.Statement{CQL: cql, Args: append([]any{id.Queue, id.Shard}, args...), Partition: partitionOf(id)}
}

func selectHeader(id store.ShardID) store.Statement { return onShard(id, readHeader) }

func selectRow(id store.ShardID, k store.Key) store.Statement {
	return onShard(id, readRow, int8(k.Kind), k.At, k.ID)
}

func selectRange(id store.ShardID, cql string, r store.Range) store.Statement {
	return onShard(id, cql, int8(r.Kind), r.AfterAt, r.AfterID, r.UpTo, r.Limit)
}

func headerArgs(h store.Header) []any {
	return []any{h.Fence, h.Tick, nonceArg(h.Nonce), h.Owner, h.Addr, h.TTL.Milliseconds(), h.Read, h.LowPending, h.LowRunning, h.LowEnded, h.Wall, pauseState(h.Pause), h.Pause.Since, h.Pause.Lasted}
}

// statePaused is a header's state while its shard is paused; else it is ”.
const statePaused = "paused"

func pauseState(p store.Pause) string {
	if p.On {
		return statePaused
	}
	return ""
}

// pauseOf reads a header's pause. One that an older program wrote says nothing of it.
func pauseOf(row map[string]any) (p store.Pause, ok bool) {
	state, ok1 := row["state"].(string)
	p.Since, _ = row["due"].(int64)
	p.Lasted, _ = row["wait"].(int64)
	p.On = state == statePaused
	return p, (ok1 || row["state"] == nil) && state == pauseState(p)
}

func newHeader(id store.ShardID) store.Statement {
	return onShard(id, insertShardHeader, headerArgs(store.Header{})...)
}

// batchOf is the statements of a batch. The header comes first: the driver routes
// by it, and in a rejection its row is the first. The rest is ordered by
// operation, so that there are few shapes; one timestamp holds for all of them.
func batchOf(id store.ShardID, b store.Batch) []store.Statement {
	args := append(headerArgs(b.To), id.Queue, id.Shard, b.From.Fence, b.From.Tick, nonceArg(b.From.Nonce))
	out := make([]store.Statement, 1, 1+len(b.Ops))
	out[0] = store.Statement{CQL: updateShardHeader, Args: args, Partition: partitionOf(id)}
	for _, kind := range []store.OpKind{store.PutNew, store.Put, store.Delete, store.DeleteUpTo, store.DeleteBetween, store.DeleteWithin} {
		for _, op := range b.Ops {
			if op.Kind == kind {
				out = append(out, change(id, op))
			}
		}
	}
	return out
}

func change(id store.ShardID, op store.Op) store.Statement {
	r := op.Row
	switch op.Kind {
	case store.Delete:
		return onShard(id, deleteShardRow, int8(r.Kind), r.At, r.ID)
	case store.DeleteUpTo:
		return onShard(id, deleteShardUpTo, int8(r.Kind), r.At)
	case store.DeleteBetween:
		return onShard(id, deleteBetween, int8(r.Kind), r.At, r.ID, op.Before)
	case store.DeleteWithin:
		return onShard(id, deleteWithin, int8(r.Kind), r.At, op.Below)
	}
	cql := putShardRow
	if op.Kind == store.PutNew {
		cql = putNewShardRow
	}
	// A note is for people, and often cut from somebody's error message: bytes
	// that are not UTF-8 would have the whole batch refused.
	note := strings.ToValidUTF8(r.Note, "\uFFFD")
	return onShard(id, cql, int8(r.Kind), r.At, r.ID, r.State, r.Attempt, r.Run, r.Due, r.Wait, r.Place, note, blob(r.Body))
}

// blob: nil would be null, and null is a tombstone.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// rejection reads the rows that came back with a rejected batch: of those that it
// names in a condition, the ones that exist, with their whole keys. A rejected
// single statement returns the header without its key.
func rejection(rows []map[string]any, b store.Batch) (store.CommitResult, bool) {
	var res store.CommitResult
	conditioned := map[store.Key]bool{}
	for _, op := range b.Ops {
		if op.Kind == store.PutNew {
			conditioned[op.Row.Key] = true
		}
	}
	for _, row := range rows {
		k, hasKey := keyOf(row)
		switch {
		case !hasKey && len(b.Ops) > 0:
			return res, false
		case !hasKey, k == (store.Key{}):
			stamp, ok := stampOf(row)
			if !ok || res.Stamp != nil {
				return res, false
			}
			res.Stamp = &stamp
		case conditioned[k]:
			res.Exists = append(res.Exists, k)
		default:
			return res, false
		}
	}
	// With neither, every condition held.
	if res.Stamp != nil && *res.Stamp == b.From && len(res.Exists) == 0 {
		return res, false
	}
	return res, true
}

func keyOf(row map[string]any) (store.Key, bool) {
	c := &columns{row: row}
	k := store.Key{Kind: store.Kind(column[int8](c, "kind")), At: column[int64](c, "at"), ID: column[string](c, "id")}
	return k, !c.lacking
}

func stampOf(row map[string]any) (store.Stamp, bool) {
	c := &columns{row: row}
	s := store.Stamp{Fence: column[int64](c, "fence"), Tick: column[int64](c, "tick"), Nonce: column[string](c, "nonce")}
	if s.Nonce == noNonce {
		s.Nonce = ""
	}
	return s, !c.lacking && s.Fence >= 0 && s.Tick >= 0
}

func headerOf(row map[string]any) (*store.Header, bool) {
	stamp, ok := stampOf(row)
	c := &columns{row: row}
	h := &store.Header{Stamp: stamp, Owner: column[string](c, "owner"), Addr: column[string](c, "addr"),
		TTL: time.Duration(column[int64](c, "ttl_ms")) * time.Millisecond, Read: column[int64](c, "read_mark"), Wall: column[int64](c, "wall"),
		LowPending: column[int64](c, "low_pending"), LowRunning: column[int64](c, "low_running"), LowEnded: column[int64](c, "low_ended")}
	var known bool
	h.Pause, known = pauseOf(row)
	return h, ok && !c.lacking && known
}

// rowOf reads a job's row. A row that a deletion and a partial write have left
// without some of its columns is none.
func rowOf(row map[string]any) (store.Row, bool) {
	key, ok := keyOf(row)
	c := &columns{row: row}
	r := store.Row{Key: key, State: column[string](c, "state"), Note: column[string](c, "note"), Run: column[int64](c, "run"),
		Due: column[int64](c, "due"), Wait: column[int64](c, "wait"), Place: column[int64](c, "place"), Attempt: column[int](c, "attempt"), Body: column[[]byte](c, "body")}
	return r, ok && !c.lacking && key.Kind >= store.KindPending
}
