package cassandra

import (
	"context"
	"fmt"
	"time"

	"fencepost/core/store"
)

var _ store.Members = (*Members)(nil)

// Members is the table of heartbeats.
type Members struct{ db *DB }

// NewMembers returns the members of a keyspace that Migrate has made.
func NewMembers(db *DB) *Members { return &Members{db} }

const (
	beatMember   = "INSERT INTO members (cell, name, nonce) VALUES (?, ?, ?) USING TTL ?"
	removeMember = "DELETE FROM members WHERE cell = ? AND name = ?"
	listMembers  = "SELECT name, nonce FROM members WHERE cell = ?"
)

// Beat implements store.Members.
func (m *Members) Beat(ctx context.Context, cell, name, nonce string, keep time.Duration) error {
	if keep < time.Second {
		return failed("beat of "+name, fmt.Errorf("a row that is kept for %s: a second is the least", keep))
	}
	return m.db.Exec(ctx, beatMember, cell, name, nonce, int32(keep/time.Second))
}

// Leave implements store.Members.
func (m *Members) Leave(ctx context.Context, cell, name string) error {
	return m.db.Exec(ctx, removeMember, cell, name)
}

// Members implements store.Members.
func (m *Members) Members(ctx context.Context, cell string) (map[string]string, error) {
	rows, err := m.db.Query(ctx, false, listMembers, cell)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(rows))
	for _, row := range rows {
		name, ok1 := row["name"].(string)
		nonce, ok2 := row["nonce"].(string)
		if !ok1 || !ok2 {
			return nil, malformed("members of "+cell, []map[string]any{row})
		}
		out[name] = nonce
	}
	return out, nil
}
