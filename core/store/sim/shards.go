package sim

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"fencepost/core/store"
)

// ShardChange is one batch that was applied.
type ShardChange struct {
	Shard   store.ShardID
	From    store.Stamp
	To      store.Header
	Ops     []store.Op
	Session string
	At      time.Time
}

// InboxChange is an insert or a deletion in an inbox that was applied.
type InboxChange struct {
	Shard   store.ShardID
	Row     store.InboxRow
	Deleted bool
	At      time.Time
}

// partition is one shard's rows, and its inbox.
type partition struct {
	header store.Header
	before store.Header // the header before the last change
	rows   map[store.Key]store.Row
	inbox  map[string]store.InboxRow
	dead   dead
	// What the last changes replaced.
	undoRows  undo[store.Key, store.Row]
	undoInbox undo[string, store.InboxRow]
}

// tables holds all shards. It is guarded by Store.mu.
type tables struct {
	queues  map[string]store.Queue
	shards  map[store.ShardID]*partition
	changes []ShardChange
	inbox   []InboxChange
}

// partition returns a shard to read; one that does not exist is empty.
func (s *Store) partition(id store.ShardID) *partition {
	return cmp.Or(s.tables.shards[id], &partition{})
}

// ShardChanges returns the batches that were applied, in order.
func (s *Store) ShardChanges() []ShardChange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tables.changes)
}

// InboxChanges returns what was applied to inboxes, in order.
func (s *Store) InboxChanges() []InboxChange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tables.inbox)
}

// ShardRows returns a shard's header and rows as they are now, in order.
func (s *Store) ShardRows(id store.ShardID) (store.Header, []store.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.partition(id)
	return p.header, pick(p.rows, func(store.Key) bool { return true }, len(p.rows))
}

// InboxRows returns a shard's inbox as it is now.
func (s *Store) InboxRows(id store.ShardID) []store.InboxRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, _ := s.inboxScan(id, "", store.AboveAll, 1<<30, nothing)
	return rows
}

// pick returns the first rows that are wanted, in order.
func pick(all map[store.Key]store.Row, wanted func(store.Key) bool, limit int) []store.Row {
	var keys []store.Key
	for k := range all {
		if wanted(k) {
			keys = append(keys, k)
		}
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].Less(keys[j]) })
	keys = keys[:min(limit, len(keys))]
	rows := make([]store.Row, len(keys))
	for i, k := range keys {
		rows[i] = cloneRow(all[k])
	}
	return rows
}

func cloneRow(r store.Row) store.Row {
	r.Body = bytes.Clone(r.Body)
	return r
}

func (s *Store) ensureQueue(queue string, shards int) store.Queue {
	if q, ok := s.tables.queues[queue]; ok {
		return q
	}
	return s.spread(store.Queue{Name: queue, First: shards}, shards)
}

func (s *Store) raiseQueue(queue string, shards int) (store.Queue, error) {
	q, ok := s.tables.queues[queue]
	if !ok {
		return q, &store.Error{Op: "raise queue " + queue, Outcome: store.Fail, Cause: store.ErrNoQueue}
	}
	return s.spread(q, max(shards, q.Shards)), nil
}

// spread gives a queue so many shards.
func (s *Store) spread(q store.Queue, shards int) store.Queue {
	for i := q.Shards; i < shards; i++ {
		s.tables.shards[store.ShardID{Queue: q.Name, Shard: i}] = &partition{
			rows: map[store.Key]store.Row{}, inbox: map[string]store.InboxRow{}, dead: newDead()}
	}
	q.Shards = shards
	s.tables.queues[q.Name] = q
	return q
}

func (s *Store) allQueues() (out []store.Queue) {
	for _, name := range slices.Sorted(maps.Keys(s.tables.queues)) {
		out = append(out, s.tables.queues[name])
	}
	return out
}

func (s *Store) look(id store.ShardID, serial, stale bool) *store.Header {
	p := s.tables.shards[id]
	if p == nil {
		return nil
	}
	h := p.header
	switch {
	case serial:
		p.undoRows.open = false
	case stale:
		h = p.before
	}
	return &h
}

func (s *Store) commit(session string, id store.ShardID, b store.Batch, timeout bool) store.CommitResult {
	p := s.tables.shards[id]
	if p == nil {
		return store.CommitResult{}
	}
	p.undoRows.open = false
	match := p.header.Stamp == b.From
	if s.MatchStamp != nil {
		match = s.MatchStamp(p.header.Stamp, b.From)
	}
	var exists []store.Key
	for _, op := range b.Ops {
		if _, ok := p.rows[op.Row.Key]; ok && op.Kind == store.PutNew {
			exists = append(exists, op.Row.Key)
		}
	}
	if !match || len(exists) > 0 {
		stamp := p.header.Stamp
		return store.CommitResult{Stamp: &stamp, Exists: exists}
	}
	p.before, p.header = p.header, b.To
	p.undoRows.begin(timeout)
	p.apply(b.Ops)
	ops := append([]store.Op(nil), b.Ops...)
	s.tables.changes = append(s.tables.changes, ShardChange{Shard: id, From: p.before.Stamp, To: b.To, Ops: ops, Session: session, At: time.Now()})
	return store.CommitResult{Applied: true}
}

// apply changes the rows as one timestamp would: deletions win.
func (p *partition) apply(ops []store.Op) {
	for _, op := range ops {
		if op.Kind == store.Put || op.Kind == store.PutNew {
			p.undoRows.note(p.rows, op.Row.Key)
			p.rows[op.Row.Key] = cloneRow(op.Row)
			delete(p.dead.rows, op.Row.Key)
		}
	}
	for _, op := range ops {
		switch op.Kind {
		case store.Delete:
			p.undoRows.note(p.rows, op.Row.Key)
			delete(p.rows, op.Row.Key)
			p.dead.rows[op.Row.Key] = true
		case store.DeleteUpTo, store.DeleteBetween, store.DeleteWithin:
			maps.DeleteFunc(p.dead.rows, func(k store.Key, _ bool) bool { return op.Takes(k) })
			for k := range p.rows {
				if op.Takes(k) {
					p.undoRows.note(p.rows, k)
					delete(p.rows, k)
				}
			}
		}
	}
}

func (s *Store) scan(id store.ShardID, r store.Range, hide hides) ([]store.Row, error) {
	p := s.partition(id)
	after := store.Key{Kind: r.Kind, At: r.AfterAt, ID: r.AfterID}
	rows := pick(p.undoRows.shown(s, p.rows, hide), func(k store.Key) bool { return k.Kind == r.Kind && after.Less(k) && k.At <= r.UpTo }, max(r.Limit, 0))
	last := store.Key{Kind: r.Kind, At: r.UpTo, ID: aboveAll}
	if r.Limit > 0 && len(rows) == r.Limit {
		last = rows[len(rows)-1].Key
	}
	return rows, s.passed(id.String()+" "+after.String(), p.dead.between(after, last))
}

func (s *Store) row(id store.ShardID, k store.Key, hide hides) *store.Row {
	p := s.partition(id)
	row, ok := p.undoRows.shown(s, p.rows, hide)[k]
	if !ok {
		return nil
	}
	row = cloneRow(row)
	return &row
}

// inboxPut returns the row that was there before, if there was one.
func (s *Store) inboxPut(id store.ShardID, r store.InboxRow, timeout bool) (existing *store.InboxRow, err error) {
	p := s.tables.shards[id]
	if p == nil {
		return nil, fmt.Errorf("sim: no shard %s", id)
	}
	p.undoInbox.open = false
	if old, ok := p.inbox[r.ID]; ok {
		return &old, nil
	}
	p.undoInbox.begin(timeout)
	p.undoInbox.note(p.inbox, r.ID)
	r.Body = bytes.Clone(r.Body)
	p.inbox[r.ID] = r
	delete(p.dead.inbox, r.ID)
	s.tables.inbox = append(s.tables.inbox, InboxChange{Shard: id, Row: r, At: time.Now()})
	return nil, nil
}

func (s *Store) inboxDelete(id store.ShardID, job, nonce string, timeout bool) (gone bool) {
	p := s.partition(id)
	p.undoInbox.open = false
	row, ok := p.inbox[job]
	if ok && row.Nonce == nonce {
		p.undoInbox.begin(timeout)
		p.undoInbox.note(p.inbox, job)
		delete(p.inbox, job)
		p.dead.inbox[job] = true
		s.tables.inbox = append(s.tables.inbox, InboxChange{Shard: id, Row: row, Deleted: true, At: time.Now()})
		return true
	}
	return !ok
}

func (s *Store) inboxRow(id store.ShardID, job string, hide hides) *store.InboxRow {
	p := s.partition(id)
	row, ok := p.undoInbox.shown(s, p.inbox, hide)[job]
	if !ok {
		return nil
	}
	row.Body = bytes.Clone(row.Body)
	return &row
}

func (s *Store) inboxScan(id store.ShardID, after, upTo string, limit int, hide hides) ([]store.InboxRow, error) {
	p := s.partition(id)
	var out []store.InboxRow
	for _, r := range p.undoInbox.shown(s, p.inbox, hide) {
		if r.ID > after && r.ID <= upTo {
			r.Body = bytes.Clone(r.Body)
			out = append(out, r)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	last := upTo
	if len(out) >= limit {
		out = out[:limit]
		last = out[limit-1].ID
	}
	passed := 0
	for id := range p.dead.inbox {
		if id > after && id <= last {
			passed++
		}
	}
	return out, s.passed(id.String()+" inbox", passed)
}

// ErrDead is the cause of the failure of a scan that passes more than Store.MaxDead
// deleted rows.
var ErrDead = errors.New("sim: the scan passes too many deleted rows")

// aboveAll is above any id.
const aboveAll = "\U0010FFFF"

// dead are the deleted rows of a partition that scans still pass over. Nothing ever
// drops them but a range deletion, which stands for all that lie in it: a test does not
// last for gc_grace_seconds.
type dead struct {
	rows  map[store.Key]bool
	inbox map[string]bool
}

func newDead() dead { return dead{map[store.Key]bool{}, map[string]bool{}} }

// between counts the deleted rows behind after, up to last.
func (d dead) between(after, last store.Key) (n int) {
	for k := range d.rows {
		if k.Kind == after.Kind && after.Less(k) && !last.Less(k) {
			n++
		}
	}
	return n
}

// passed is the error of a scan that has passed so many deleted rows.
func (s *Store) passed(what string, n int) error {
	if s.MaxDead == 0 || n <= s.MaxDead {
		return nil
	}
	err := fmt.Errorf("%w: %d after %s, at most %d are allowed", ErrDead, n, what, s.MaxDead)
	s.overrun = append(s.overrun, err)
	return err
}

// Overrun returns the scans that failed with ErrDead.
func (s *Store) Overrun() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.overrun)
}
