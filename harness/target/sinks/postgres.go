package sinks

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/sink"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/store"
	"fencepost/harness/env/osproc"
	"fencepost/harness/env/postgres"
)

// connections are so many of one process: each of its clients has one transaction.
const connections = 16

func findPostgres(ctx context.Context, cache string) (string, error) {
	p, err := postgres.Find(ctx, cache)
	return fmt.Sprintf("%s, version %s", p.Dir, p.Version), err
}

func startPostgres(ctx context.Context, o Options) (*osproc.Service, error) {
	s, err := postgres.Start(ctx, postgres.Options{Log: o.Log, Ended: o.Ended})
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, postgres.ConnString(s.Addr(), s.Secret))
	if err == nil {
		err = postgressink.Migrate(ctx, pool)
		pool.Close()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s.Service, nil
}

// inPostgres is the sink in a PostgreSQL database.
type inPostgres struct {
	*postgressink.Sink
	pool *pgxpool.Pool
}

func openPostgres(ctx context.Context, at Place) (Client, error) {
	cfg, err := pgxpool.ParseConfig(postgres.ConnString(at.Addr, at.Secret))
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = connections
	postgressink.BoundConnects(cfg, at.Timeout)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &inPostgres{Sink: postgressink.New(pool, postgressink.Options{RequestTimeout: at.Timeout}), pool: pool}, nil
}

// Close implements Client.
func (c *inPostgres) Close() { c.pool.Close() }

// One statement, and so one transaction: the header as it is after the effect, if the
// ledger has not grown, and then the ledger's entry.
const writeUnfenced = `
WITH header AS (
	INSERT INTO fencepost_sink (resource, issuer, highest, last_seq, value, payload) VALUES ($1, $2, $3, $4 + 1, $5, '')
	ON CONFLICT (resource) DO UPDATE SET highest = excluded.highest, last_seq = excluded.last_seq, value = excluded.value
	WHERE fencepost_sink.last_seq = $4
	RETURNING last_seq
)
INSERT INTO fencepost_sink_ledger (resource, seq, kind, issuer, token, key, value, at)
SELECT $1, last_seq, 'accept', $2, $6, $7, $5, now() FROM header`

// WriteUnfenced implements unfenced.Writer.
func (c *inPostgres) WriteUnfenced(ctx context.Context, st sink.State, resource, issuer string, token int64, e sink.Effect) (sink.Answer, bool, error) {
	seen := max(token, st.Seen)
	tag, err := c.pool.Exec(ctx, writeUnfenced, resource, issuer, seen, st.Seq, e.Value, token, e.Key)
	if err != nil {
		out := store.Unknown
		var refused *pgconn.PgError
		if pgconn.SafeToRetry(err) || errors.As(err, &refused) && refused.Severity == "ERROR" {
			out = store.Fail
		}
		return sink.Answer{}, false, &store.Error{Op: "write to the sink", Outcome: out, Cause: err}
	}
	return sink.Answer{Result: sink.Applied, FirstToken: token, Seen: seen, Seq: st.Seq + 1}, tag.RowsAffected() == 1, nil
}

// Empty implements unfenced.Writer.
func (c *inPostgres) Empty(ctx context.Context, resource string) error {
	for _, table := range []string{"fencepost_sink", "fencepost_sink_keys", "fencepost_sink_ledger"} {
		if _, err := c.pool.Exec(ctx, "DELETE FROM "+table+" WHERE resource = $1", resource); err != nil {
			return fmt.Errorf("empty %s: %w", resource, err)
		}
	}
	return nil
}

// Pool is the database, where a program has tables of its own beside the sink's.
func (c *inPostgres) Pool() *pgxpool.Pool { return c.pool }
