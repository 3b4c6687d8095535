package cassandra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"fencepost/core/store"
)

// Shards is the store of shard partitions in the tables queues, shards and inbox.
type Shards struct {
	db database
	// reader is the replica that reads ask; it moves on when one fails.
	reader atomic.Int64
}

var _ store.Shards = (*Shards)(nil)

// NewShards returns the shards of db's keyspace. db stays the caller's to close.
func NewShards(db *DB) *Shards { return &Shards{db: db} }

const (
	selectQueue = "SELECT queue, shards, first_shards FROM queues"
	readQueue   = selectQueue + " WHERE queue = ?"
	insertQueue = "INSERT INTO queues (queue, shards) VALUES (?, ?) IF NOT EXISTS"
	raiseQueue  = "UPDATE queues SET shards = ?, first_shards = ? WHERE queue = ? IF shards = ?"
)

// headersAtOnce is how many headers EnsureQueue creates at the same time.
const headersAtOnce = 8

// EnsureQueue implements store.Shards. Rows that exist are found by plain reads:
// neither a queue nor a header is ever deleted.
func (s *Shards) EnsureQueue(ctx context.Context, queue string, shards int) (store.Queue, error) {
	op := "create queue " + queue
	if queue == "" || shards < 1 {
		return store.Queue{}, failed(op, fmt.Errorf("%d shards of queue %q: a queue needs a name and at least one shard", shards, queue))
	}
	q, err := s.queue(ctx, op, queue)
	if err != nil {
		return store.Queue{}, err
	}
	if q.Shards > 0 {
		return q, s.ensureHeaders(ctx, queue, 0, q.Shards)
	}
	q, err = s.create(ctx, op, store.Queue{Name: queue, First: shards, Shards: shards})
	if err != nil {
		return store.Queue{}, err
	}
	return q, nil
}

// create inserts the row of a queue, after its headers. There may be one by then, of another creation.
func (s *Shards) create(ctx context.Context, op string, q store.Queue) (store.Queue, error) {
	if err := s.ensureHeaders(ctx, q.Name, 0, q.Shards); err != nil {
		return q, err
	}
	applied, rows, err := s.db.CAS(ctx, int(s.reader.Load()), onQueue(q.Name, insertQueue, q.Name, q.Shards))
	if err != nil || applied {
		return q, err
	}
	if q, err = oneQueue(op, rows); err != nil {
		return q, err
	}
	return q, s.ensureHeaders(ctx, q.Name, 0, q.Shards)
}

// RaiseQueue implements store.Shards. Programs that do not know of raised queues would find no key's job
// any more: from now on they do not start.
func (s *Shards) RaiseQueue(ctx context.Context, queue string, shards int) (store.Queue, error) {
	op := fmt.Sprintf("raise queue %s to %d shards", queue, shards)
	q, err := s.queue(ctx, op, queue)
	switch {
	case err != nil || q.Shards >= shards:
		return q, err
	case q.Shards == 0:
		return q, failed(op, store.ErrNoQueue)
	}
	if _, err := raise(ctx, s.db, "settings", settingOldest, raisesVersion); err != nil {
		return q, err
	}
	if err := s.ensureHeaders(ctx, queue, q.Shards, shards); err != nil {
		return q, err
	}
	applied, _, err := s.db.CAS(ctx, int(s.reader.Load()), onQueue(queue, raiseQueue, shards, q.First, queue, q.Shards))
	switch {
	case err != nil:
		return q, err
	case !applied: // by another raise
		return s.RaiseQueue(ctx, queue, shards)
	}
	q.Shards = shards
	return q, nil
}

// Queues implements store.Shards.
func (s *Shards) Queues(ctx context.Context) ([]store.Queue, error) {
	rows, err := s.read(ctx, false, store.Statement{CQL: selectQueue, Partition: []any{""}}) // any node
	out := make([]store.Queue, 0, len(rows))
	for n := 0; err == nil && n < len(rows); n++ {
		var q store.Queue
		q, err = oneQueue("read the queues", rows[n:n+1])
		out = append(out, q)
	}
	slices.SortFunc(out, func(a, b store.Queue) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

// queue reads one; without shards if it does not exist.
func (s *Shards) queue(ctx context.Context, op, queue string) (store.Queue, error) {
	rows, err := s.read(ctx, false, onQueue(queue, readQueue, queue))
	if err != nil || len(rows) == 0 {
		return store.Queue{Name: queue}, err
	}
	return oneQueue(op, rows)
}

func onQueue(queue, cql string, args ...any) store.Statement {
	return store.Statement{CQL: cql, Args: args, Partition: []any{queue}}
}

func oneQueue(op string, rows []map[string]any) (q store.Queue, err error) {
	if len(rows) == 1 {
		q.Name, _ = rows[0]["queue"].(string)
		q.Shards, _ = rows[0]["shards"].(int)
		q.First, _ = rows[0]["first_shards"].(int)
		q.First = cmp.Or(q.First, q.Shards)
	}
	if q.Name == "" || q.First < 1 || q.Shards < q.First {
		return store.Queue{}, malformed(op, rows)
	}
	return q, nil
}

// ensureHeaders creates those of the shards from one on, and before another.
func (s *Shards) ensureHeaders(ctx context.Context, queue string, from, to int) error {
	var g errgroup.Group
	g.SetLimit(headersAtOnce)
	for shard := from; shard < to; shard++ {
		g.Go(func() error { return s.ensureHeader(ctx, store.ShardID{Queue: queue, Shard: shard}) })
	}
	return g.Wait()
}

func (s *Shards) ensureHeader(ctx context.Context, id store.ShardID) error {
	h, err := s.Look(ctx, id, false)
	if h != nil || err != nil {
		return err
	}
	_, _, err = s.db.CAS(ctx, int(s.reader.Load()), newHeader(id))
	return err
}

// Look implements store.Shards.
func (s *Shards) Look(ctx context.Context, id store.ShardID, serial bool) (*store.Header, error) {
	rows, err := s.read(ctx, serial, selectHeader(id))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	h, ok := headerOf(rows[0])
	if !ok || len(rows) > 1 {
		return nil, malformed("look at shard "+id.String(), rows)
	}
	return h, nil
}

// Commit implements store.Shards: one conditional UNLOGGED batch.
func (s *Shards) Commit(ctx context.Context, id store.ShardID, b store.Batch, copyNo int) (store.CommitResult, error) {
	op := "commit " + id.String() + " " + b.To.Stamp.String()
	if err := check(b); err != nil {
		return store.CommitResult{}, failed(op, err)
	}
	applied, rows, err := s.db.CAS(ctx, copyNo, batchOf(id, b)...)
	if err != nil || applied {
		return store.CommitResult{Applied: applied}, err
	}
	res, ok := rejection(rows, b)
	if !ok {
		return store.CommitResult{}, malformed(op, rows)
	}
	return res, nil
}

// Scan implements store.Shards. A plain quorum read is enough: a conditional batch
// is answered after a quorum has it, and the next batch of the partition, applied
// or rejected, first brings what was decided before it to a quorum.
func (s *Shards) Scan(ctx context.Context, id store.ShardID, r store.Range) ([]store.Row, error) {
	if r.Limit < 1 {
		return nil, nil
	}
	rows, err := s.read(ctx, false, selectRange(id, readRange, r))
	if err != nil {
		return nil, err
	}
	out := make([]store.Row, 0, len(rows))
	for _, row := range rows {
		got, ok := rowOf(row)
		if !ok || got.Kind != r.Kind {
			return nil, malformed("scan shard "+id.String(), []map[string]any{row})
		}
		out = append(out, got)
	}
	return out, nil
}

// Count implements store.Shards.
func (s *Shards) Count(ctx context.Context, id store.ShardID, r store.Range) (int, error) {
	if r.Limit < 1 {
		return 0, nil
	}
	rows, err := s.read(ctx, false, selectRange(id, readCount, r))
	return len(rows), err
}

// Row implements store.Shards.
func (s *Shards) Row(ctx context.Context, id store.ShardID, k store.Key) (*store.Row, error) {
	rows, err := s.read(ctx, false, selectRow(id, k))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	row, ok := rowOf(rows[0])
	if !ok || row.Key != k {
		return nil, malformed("read row "+k.String()+" of shard "+id.String(), rows)
	}
	return &row, nil
}

// read asks one replica; after a failure the next call asks another.
func (s *Shards) read(ctx context.Context, serial bool, stmt store.Statement) ([]map[string]any, error) {
	replica := s.reader.Load()
	rows, err := s.db.QueryBy(ctx, int(replica), serial, stmt)
	if err != nil {
		s.reader.CompareAndSwap(replica, replica+1)
	}
	return rows, err
}

// check reports a batch that Cassandra would refuse, or answer by an unknown
// outcome, or apply as something else than its caller meant.
func check(b store.Batch) error {
	if len(b.Ops) > store.MaxOps {
		return fmt.Errorf("%d operations: at most %d are allowed", len(b.Ops), store.MaxOps)
	}
	if b.To.Stamp == b.From {
		return errors.New("the batch leaves the stamp as it is, so that its copies could be applied again and again")
	}
	var ranges []store.Op
	touched := make(map[store.Key]bool, len(b.Ops))
	for _, op := range b.Ops {
		k := op.Row.Key
		switch {
		case k.Kind < store.KindPending:
			return fmt.Errorf("row %s: kind %d is the header's or none", k, k.Kind)
		case op.IsRange():
			ranges = append(ranges, op)
			continue
		case op.Kind != store.Put && op.Kind != store.PutNew && op.Kind != store.Delete:
			return fmt.Errorf("row %s: unknown operation %d", k, op.Kind)
		case touched[k]:
			return fmt.Errorf("row %s occurs twice: one timestamp holds for the whole batch, so that a deletion would win over an insertion", k)
		}
		touched[k] = true
	}
	if size := b.Bytes(); size > store.MaxBytes {
		return fmt.Errorf("%d bytes in %d operations: at most %d are allowed", size, len(b.Ops), store.MaxBytes)
	}
	for _, op := range b.Ops {
		for _, r := range ranges {
			if (op.Kind == store.Put || op.Kind == store.PutNew) && r.Takes(op.Row.Key) {
				return fmt.Errorf("row %s lies in the range that the batch deletes, from or up to %s", op.Row.Key, r.Row.Key)
			}
		}
	}
	return nil
}

func failed(op string, cause error) error {
	return &store.Error{Op: op, Outcome: store.Fail, Cause: cause}
}

// malformed: nothing may be concluded from rows that this package did not write.
func malformed(op string, rows []map[string]any) error {
	return &store.Error{Op: op, Outcome: store.Unknown,
		Cause: fmt.Errorf("malformed rows: %.300v: they were written by something else than this program", rows)}
}

const (
	insertInbox  = "INSERT INTO inbox (queue, shard, id, nonce, body) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"
	deleteInbox  = "DELETE FROM inbox" + whereShard + " AND id = ? IF nonce = ?"
	readInbox    = "SELECT id, nonce, body FROM inbox" + whereShard
	readInboxRow = readInbox + " AND id = ?"
	scanInbox    = readInbox + " AND id > ? AND id <= ? LIMIT ?"
)

// InboxPut implements store.Shards.
func (s *Shards) InboxPut(ctx context.Context, id store.ShardID, r store.InboxRow, copyNo int) (applied bool, existing string, err error) {
	op := "put " + r.ID + " into the inbox of " + id.String()
	switch {
	case r.ID == "" || r.Nonce == "" || r.Nonce == noNonce:
		return false, "", failed(op, fmt.Errorf("job %q, nonce %q: both are needed", r.ID, r.Nonce))
	case r.Bytes() > store.MaxBytes:
		return false, "", failed(op, fmt.Errorf("%d bytes: at most %d are allowed", r.Bytes(), store.MaxBytes))
	}
	applied, rows, err := s.db.CAS(ctx, copyNo, onShard(id, insertInbox, r.ID, r.Nonce, blob(r.Body)))
	if err != nil || applied {
		return applied, "", err
	}
	if len(rows) == 1 {
		if nonce, _ := rows[0]["nonce"].(string); nonce != "" {
			return false, nonce, nil
		}
	}
	return false, "", malformed(op, rows)
}

// InboxDelete implements store.Shards.
func (s *Shards) InboxDelete(ctx context.Context, id store.ShardID, job, nonce string, copyNo int) (gone bool, err error) {
	op := "delete " + job + " from the inbox of " + id.String()
	applied, rows, err := s.db.CAS(ctx, copyNo, onShard(id, deleteInbox, job, nonce))
	if err != nil || applied {
		return applied, err
	}
	// A row that does not exist does not come back. One that does has another
	// nonce, else it would have been deleted.
	if len(rows) == 0 {
		return true, nil
	}
	if now, _ := rows[0]["nonce"].(string); len(rows) == 1 && now != "" && now != nonce {
		return false, nil
	}
	return false, malformed(op, rows)
}

// InboxRow implements store.Shards.
func (s *Shards) InboxRow(ctx context.Context, id store.ShardID, job string) (*store.InboxRow, error) {
	rows, err := s.readInbox(ctx, id, onShard(id, readInboxRow, job))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// InboxScan implements store.Shards by a plain quorum read, see Scan.
func (s *Shards) InboxScan(ctx context.Context, id store.ShardID, after, upTo string, limit int) ([]store.InboxRow, error) {
	if limit < 1 {
		return nil, nil
	}
	return s.readInbox(ctx, id, onShard(id, scanInbox, after, upTo, limit))
}

func (s *Shards) readInbox(ctx context.Context, id store.ShardID, stmt store.Statement) ([]store.InboxRow, error) {
	rows, err := s.read(ctx, false, stmt)
	if err != nil {
		return nil, err
	}
	out := make([]store.InboxRow, 0, len(rows))
	for _, row := range rows {
		c := &columns{row: row}
		r := store.InboxRow{ID: column[string](c, "id"), Nonce: column[string](c, "nonce"), Body: column[[]byte](c, "body")}
		if c.lacking || r.Nonce == "" {
			return nil, malformed("read the inbox of "+id.String(), []map[string]any{row})
		}
		out = append(out, r)
	}
	return out, nil
}
