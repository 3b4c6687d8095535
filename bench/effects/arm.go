package effects

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/bench"
	"fencepost/core/sink"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/store"
)

// What a plain transaction does, in tables as the sink's.
const (
	insertHeader = `INSERT INTO fencepost_sink (resource, issuer, highest, last_seq, value, payload) VALUES ($1, $2, $3, 0, 0, '')`
	updateHeader = `UPDATE fencepost_sink SET highest = $2, last_seq = $3, value = $4, payload = $5 WHERE resource = $1`
	insertKey    = `INSERT INTO fencepost_sink_keys (resource, key, token, seq, fingerprint, attempt, at) VALUES ($1, $2, $3, $4, $5, $6, now())`
	insertEntry  = `INSERT INTO fencepost_sink_ledger (resource, seq, kind, issuer, token, key, value, at) VALUES ($1, $2, $3, $4, $5, $6, $7, now())`
	countRows    = `SELECT last_seq, (SELECT count(*) FROM fencepost_sink_ledger l WHERE l.resource = s.resource), (SELECT count(*) FROM fencepost_sink_keys k WHERE k.resource = s.resource) FROM fencepost_sink s WHERE resource = $1`
)

const (
	issuer = "bench"
	token  = 7
	intent = "credit 1"
)

// payload is what an effect stores beside its value.
var payload = make([]byte, 64)

// count is what a thread's operations came to.
type count struct{ tried, ok, unknown int64 }

// arm does effects, or plain transactions if it has no sink. Each thread has a resource.
type arm struct {
	pool *pgxpool.Pool
	sink *postgressink.Sink
	of   bench.Arm
	done []count // by thread, each used by that one alone
}

func resource(thread int) string { return fmt.Sprintf("r%d", thread) }

// prepare makes tables and resources, so that no first operation differs from the rest, and opens all connections.
func (a *arm) prepare(ctx context.Context, schema string) error {
	if _, err := a.pool.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
		return err
	}
	if err := postgressink.Migrate(ctx, a.pool); err != nil {
		return err
	}
	for n := range a.of.Threads {
		c, err := a.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer c.Release()
		if _, err := c.Exec(ctx, insertHeader, resource(n), issuer, token); err != nil {
			return err
		}
	}
	return nil
}

// Window implements bench.Subject.
func (a *arm) Window(ctx context.Context, w bench.Window) (bench.Sample, error) {
	return w.Loop(ctx, a)
}

// Close implements bench.Subject.
func (a *arm) Close(context.Context) error { return nil }

// Traffic implements bench.Operator: there are no conditional requests.
func (a *arm) Traffic() bench.Traffic { return bench.Traffic{} }

// Operate implements bench.Operator.
func (a *arm) Operate(ctx context.Context, th *bench.Thread, _ func() bool) bench.End {
	c := &a.done[th.Number]
	c.tried++
	e := sink.Effect{Key: uuid.NewString(), Intent: intent, Value: c.tried, Payload: payload}
	var err error
	if a.sink != nil {
		err = a.effect(ctx, th.Number, e)
	} else {
		err = a.plain(ctx, th.Number, e)
	}
	switch store.OutcomeOf(err) {
	case store.OK:
		c.ok++
	case store.Unknown:
		c.unknown++
	}
	return bench.EndOf(err)
}

func (a *arm) effect(ctx context.Context, thread int, e sink.Effect) error {
	answer, err := a.sink.Accept(ctx, resource(thread), issuer, token, e)
	if err == nil && answer.Result != sink.Applied {
		return &store.Error{Op: "effect", Outcome: store.Fail, Cause: fmt.Errorf("%+v", answer)}
	}
	return err
}

// plain is a transaction with what an effect writes.
func (a *arm) plain(ctx context.Context, thread int, e sink.Effect) error {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	row, seq := resource(thread), a.done[thread].tried
	err := pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(updateHeader, row, token, seq, e.Value, e.Payload)
		b.Queue(insertKey, row, e.Key, token, seq, e.Fingerprint(), uuid.New())
		b.Queue(insertEntry, row, seq, sink.KindAccept, issuer, token, e.Key, e.Value)
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return &store.Error{Op: "transaction", Outcome: store.Unknown, Cause: err}
	}
	return nil
}

// audit counts the rows of all resources: what ended well is there once.
func (a *arm) audit(ctx context.Context) (wrong []string, rows int64, err error) {
	for n, c := range a.done {
		var last, entries, keys int64
		if err := a.pool.QueryRow(ctx, countRows, resource(n)).Scan(&last, &entries, &keys); err != nil {
			return wrong, rows, err
		}
		rows += entries + keys
		if keys < c.ok || keys > c.ok+c.unknown || entries != keys || last < entries || c.unknown == 0 && last != entries {
			wrong = append(wrong, fmt.Sprintf("%s, thread %d: %d operations ended well and %d of unknown outcome, and the database has %d keys and %d entries up to %d",
				a.of.ID, n, c.ok, c.unknown, keys, entries, last))
		}
	}
	return wrong, rows, nil
}
