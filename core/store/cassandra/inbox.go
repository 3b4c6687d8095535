package cassandra

import (
	"context"
	"fmt"

	"fencepost/core/store"
)

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
