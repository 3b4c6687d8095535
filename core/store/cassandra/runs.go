package cassandra

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fencepost/core/store"
)

// Runs is the store of run rows in the table runs.
type Runs struct{ db plainDatabase }

var _ store.Runs = (*Runs)(nil)

// plainDatabase is what Runs use of a *DB.
type plainDatabase interface {
	Write(ctx context.Context, stmts ...store.Statement) error
	QueryBy(ctx context.Context, copyNo int, serial bool, s store.Statement) ([]map[string]any, error)
}

// NewRuns returns the run rows of db's keyspace. db stays the caller's to close.
func NewRuns(db *DB) *Runs { return &Runs{db} }

const (
	whereDay = " WHERE queue = ? AND shard = ? AND day = ?"
	runKey   = "INSERT INTO runs (queue, shard, day, job, run, attempt, outcome"

	insertRun = runKey + ", worker, started, ended, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	// Of a run of another process only this is known; what that one wrote stays.
	insertRunEnd = runKey + ") VALUES (?, ?, ?, ?, ?, ?, ?)"

	readRuns   = "SELECT job, run, attempt, outcome, worker, started, ended, error FROM runs" + whereDay
	readRunsOf = readRuns + " AND job = ?"
	readRunsOn = readRuns + " AND (job, run) > (?, ?) LIMIT ?"
)

func onDay(d store.RunsDay, cql string, args ...any) store.Statement {
	return store.Statement{CQL: cql, Args: append([]any{d.Shard.Queue, d.Shard.Shard, d.Day}, args...),
		Partition: []any{d.Shard.Queue, int32(d.Shard.Shard), int32(d.Day)}}
}

// PutRuns implements store.Runs: one UNLOGGED batch, without a condition.
func (r *Runs) PutRuns(ctx context.Context, d store.RunsDay, rows []store.RunRow) error {
	if len(rows) > store.MaxOps {
		return failed("put runs", fmt.Errorf("%d rows: at most %d are allowed", len(rows), store.MaxOps))
	}
	if len(rows) == 0 {
		return nil
	}
	stmts := make([]store.Statement, 0, len(rows))
	for _, row := range rows {
		args := []any{row.Job, row.Run, row.Attempt, row.Outcome}
		if row.Worker == "" {
			stmts = append(stmts, onDay(d, insertRunEnd, args...))
			continue
		}
		stmts = append(stmts, onDay(d, insertRun, append(args, row.Worker, timestamp(row.Started), timestamp(row.Ended), strings.ToValidUTF8(row.Error, "\uFFFD"))...))
	}
	return r.db.Write(ctx, stmts...)
}

// timestamp is in whole ms, nil for none.
func timestamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Truncate(time.Millisecond)
}

// RunsOf implements store.Runs.
func (r *Runs) RunsOf(ctx context.Context, d store.RunsDay, job string) ([]store.RunRow, error) {
	return r.read(ctx, onDay(d, readRunsOf, job))
}

// RunsOn implements store.Runs.
func (r *Runs) RunsOn(ctx context.Context, d store.RunsDay, afterJob string, afterRun int64, limit int) ([]store.RunRow, error) {
	if limit < 1 {
		return nil, nil
	}
	return r.read(ctx, onDay(d, readRunsOn, afterJob, afterRun, limit))
}

func (r *Runs) read(ctx context.Context, s store.Statement) ([]store.RunRow, error) {
	rows, err := r.db.QueryBy(ctx, 0, false, s)
	if err != nil {
		return nil, err
	}
	out := make([]store.RunRow, 0, len(rows))
	for _, row := range rows {
		c := &columns{row: row}
		x := store.RunRow{Job: column[string](c, "job"), Run: column[int64](c, "run")}
		if c.lacking {
			return nil, malformed("read runs", rows)
		}
		x.Attempt, _ = row["attempt"].(int)
		x.Outcome, _ = row["outcome"].(string)
		x.Worker, _ = row["worker"].(string)
		x.Started, _ = row["started"].(time.Time)
		x.Ended, _ = row["ended"].(time.Time)
		x.Error, _ = row["error"].(string)
		out = append(out, x)
	}
	return out, nil
}

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
		c := &columns{row: row}
		if out[column[string](c, "name")] = column[string](c, "nonce"); c.lacking {
			return nil, malformed("members of "+cell, []map[string]any{row})
		}
	}
	return out, nil
}
