package broken

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"time"

	"fencepost/core/engine"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/cassandra"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-plain-header", only(workload.Hooks{Shards: plainHeader}))
	plant("jobs-format-unsaid", only(workload.Hooks{Shards: formatUnsaid}))
	plant("jobs-no-claims-in-fault", noClaimsInFault)
}

// writeFunc changes a shard's rows, and its header unless that is nil, without any
// condition.
type writeFunc func(context.Context, store.ShardID, *store.Header, []store.Op) error

const (
	plainHeaderCQL = `UPDATE shards SET fence = ?, tick = ?, nonce = ?, owner = ?, addr = ?, ttl_ms = ?, read_mark = ?, ` +
		`low_pending = ?, low_running = ?, low_ended = ?, wall = ?, state = ?, due = ?, wait = ? ` +
		`WHERE queue = ? AND shard = ? AND kind = 0 AND at = 0 AND id = ''`
	plainPutCQL = `INSERT INTO shards (queue, shard, kind, at, id, state, attempt, run, due, wait, place, note, body) ` +
		`VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	plainDeleteCQL  = `DELETE FROM shards WHERE queue = ? AND shard = ? AND kind = ? AND at = ? AND id = ?`
	plainTrimCQL    = `DELETE FROM shards WHERE queue = ? AND shard = ? AND kind = ? AND at <= ?`
	plainBetweenCQL = `DELETE FROM shards WHERE queue = ? AND shard = ? AND kind = ? AND at = ? AND id > ? AND id < ?`
	plainWithinCQL  = `DELETE FROM shards WHERE queue = ? AND shard = ? AND kind = ? AND at > ? AND at < ?`
)

// plainWriter writes to the database what should have been a conditional batch.
func plainWriter(db *cassandra.DB) writeFunc {
	return func(ctx context.Context, id store.ShardID, h *store.Header, ops []store.Op) error {
		cql, args := plainBatch(id, h, ops)
		return db.Exec(ctx, cql, args...)
	}
}

// plainBatch is one statement that does all.
func plainBatch(id store.ShardID, h *store.Header, ops []store.Op) (string, []any) {
	var stmts []string
	var args []any
	add := func(cql string, a ...any) { stmts, args = append(stmts, cql), append(args, a...) }
	if h != nil {
		paused := ""
		if h.Pause.On {
			paused = "paused"
		}
		add(plainHeaderCQL, h.Fence, h.Tick, h.Nonce, h.Owner, h.Addr, h.TTL.Milliseconds(), h.Read, h.LowPending, h.LowRunning, h.LowEnded,
			h.Wall, paused, h.Pause.Since, h.Pause.Lasted, id.Queue, id.Shard)
	}
	for _, op := range ops {
		r := op.Row
		switch op.Kind {
		case store.Delete:
			add(plainDeleteCQL, id.Queue, id.Shard, int8(r.Kind), r.At, r.ID)
		case store.DeleteUpTo:
			add(plainTrimCQL, id.Queue, id.Shard, int8(r.Kind), r.At)
		case store.DeleteBetween:
			add(plainBetweenCQL, id.Queue, id.Shard, int8(r.Kind), r.At, r.ID, op.Before)
		case store.DeleteWithin:
			add(plainWithinCQL, id.Queue, id.Shard, int8(r.Kind), r.At, op.Below)
		default:
			add(plainPutCQL, id.Queue, id.Shard, int8(r.Kind), r.At, r.ID, r.State, r.Attempt, r.Run, r.Due, r.Wait, r.Place, r.Note,
				append([]byte{}, r.Body...))
		}
	}
	return "BEGIN UNLOGGED BATCH " + strings.Join(stmts, "; ") + "; APPLY BATCH", args
}

// plainHeader writes ticks without a condition. What an owner has begun to send
// leaves its process whatever it has come to know meanwhile.
func plainHeader(cfg workload.Config, db *cassandra.DB, inner store.Shards) store.Shards {
	return plainTicks(cfg, inner, plainWriter(db))
}

func plainTicks(cfg workload.Config, inner store.Shards, write writeFunc) store.Shards {
	return mistake.Shards{Shards: inner, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
		if c.Takeover() || mistake.Has(c.Batch, enqueues) {
			return c.Send()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Ctx), cfg.TTL/6)
		defer cancel()
		err := write(ctx, c.Shard, &c.Batch.To, c.Batch.Ops)
		return store.CommitResult{Applied: err == nil}, err
	}}
}

// enqueues: the operation must find out whether its job is there.
func enqueues(op store.Op) bool { return op.Kind == store.PutNew }

// formatUnsaid writes jobs in a form of its own and tells nobody: who runs the version
// before cannot read them.
func formatUnsaid(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
	const mark = "\x02"
	return mistake.Shards{Shards: inner,
		OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
			c.Each(func(op *store.Op) {
				if row := &op.Row; row.Kind != store.KindJob && row.Kind != store.KindSchedule && len(row.Body) > 0 {
					row.Body = append([]byte(mark), row.Body...)
				}
			})
			return c.Send()
		},
		OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
			for i := range rows {
				rows[i].Body = bytes.TrimPrefix(rows[i].Body, []byte(mark))
			}
			return rows
		},
	}
}

// noClaimsInFault claims no job while batches go unanswered, as one does under a fault
// of a node or of links every few seconds: what is not claimed cannot be lost.
func noClaimsInFault() workload.Hooks {
	t := &trouble{}
	return workload.Hooks{
		Shards: func(_ workload.Config, _ *cassandra.DB, inner store.Shards) store.Shards {
			return mistake.Shards{Shards: inner, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
				res, err := c.Send()
				if store.OutcomeOf(err) == store.Unknown {
					t.seen.Store(time.Now().UnixNano())
				}
				return res, err
			}}
		},
		Executor: func(_ workload.Config, inner engine.Executor) engine.Executor { return carefulExecutor{inner, t} },
	}
}

// trouble remembers when a batch was not answered last. A node that does not answer is
// asked again within 8 s.
type trouble struct{ seen atomic.Int64 }

const troubleLasts = 12 * time.Second

func (t *trouble) lasts() bool { return time.Now().UnixNano()-t.seen.Load() < int64(troubleLasts) }

type carefulExecutor struct {
	engine.Executor
	trouble *trouble
}

func (e carefulExecutor) Reserve(n int) int {
	if e.trouble.lasts() {
		return 0
	}
	return e.Executor.Reserve(n)
}
