// Package unfenced writes effects into a sink and records their tokens, but asks
// nobody whether a higher one has been seen: what a system does that passes a fencing
// token along and never compares it. The ledger stays the sink's own, so that it shows
// in which order what was accepted.
package unfenced

import (
	"context"
	"fmt"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// Writer is the way past the rules of a sink.
type Writer interface {
	// WriteUnfenced accepts an effect, whatever its token and key, if the ledger has not
	// grown since st. An error's outcome is that of the write.
	WriteUnfenced(ctx context.Context, st sink.State, resource, issuer string, token int64, e sink.Effect) (a sink.Answer, applied bool, err error)
	// Empty removes a resource, ledger and all.
	Empty(ctx context.Context, resource string) error
}

// Database is what writing an effect needs of a *cassandra.DB.
type Database interface {
	CAS(ctx context.Context, copyNo int, stmts ...store.Statement) (applied bool, rows []map[string]any, err error)
}

const (
	insertHeader = `INSERT INTO sink (resource, kind, seq, key, issuer, highest, last_seq, value) VALUES (?, 0, 0, '', ?, ?, ?, ?) IF NOT EXISTS`
	updateHeader = `UPDATE sink SET value = ?, last_seq = ?, highest = ? WHERE resource = ? AND kind = 0 AND seq = 0 AND key = '' IF last_seq = ?`
	insertAccept = `INSERT INTO sink (resource, kind, seq, key, issuer, fence, value, entry, effect_key) VALUES (?, 2, ?, '', ?, ?, ?, 'accept', ?)`
)

// Write is WriteUnfenced on the rows of the Cassandra sink. Further statements on the
// resource are done with it.
func Write(ctx context.Context, db Database, st sink.State, resource, issuer string, token int64, e sink.Effect, with ...store.Statement) (a sink.Answer, applied bool, err error) {
	seq, seen := st.Seq+1, max(token, st.Seen)
	header := store.Statement{CQL: updateHeader, Args: []any{e.Value, seq, seen, resource, st.Seq}, Partition: []any{resource}}
	if st.Seq == 0 {
		header.CQL, header.Args = insertHeader, []any{resource, issuer, seen, seq, e.Value}
	}
	accept := store.Statement{CQL: insertAccept, Args: []any{resource, seq, issuer, token, e.Value, e.Key}}
	applied, _, err = db.CAS(ctx, 0, append([]store.Statement{header, accept}, with...)...)
	if err != nil {
		return a, false, fmt.Errorf("write to the sink: %w", err)
	}
	return sink.Answer{Result: sink.Applied, FirstToken: token, Seen: seen, Seq: seq}, applied, nil
}

// Session is what a Writer of the Cassandra sink needs of a *cassandra.DB.
type Session interface {
	Database
	Exec(ctx context.Context, cql string, args ...any) error
}

// Rows returns the way past the rules of the Cassandra sink.
func Rows(db Session) Writer { return rows{db} }

type rows struct{ db Session }

func (r rows) WriteUnfenced(ctx context.Context, st sink.State, resource, issuer string, token int64, e sink.Effect) (sink.Answer, bool, error) {
	return Write(ctx, r.db, st, resource, issuer, token, e)
}

func (r rows) Empty(ctx context.Context, resource string) error {
	return r.db.Exec(ctx, `DELETE FROM sink WHERE resource = ?`, resource)
}
