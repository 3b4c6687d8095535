package sinks

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fencepost/harness/env/postgres"
)

// Rival is somebody else in the sink's database: a session that holds rows, and another one that
// looks at what comes of it. Not for concurrent use.
type Rival interface {
	// Hold locks the rows of all resources, and says how many, until Free.
	Hold(ctx context.Context) (rows int, err error)
	// Free gives the rows back, each as a new version of what it was.
	Free(ctx context.Context) error
	// Held says whether the other session finds the rows locked.
	Held(ctx context.Context) (bool, error)
	// Waiting is how many sessions of others wait for a lock that the rival has.
	Waiting(ctx context.Context) (int, error)
	Close()
}

type rivalPostgres struct {
	holder, observer *pgx.Conn
	tx               pgx.Tx
}

// rivalOfPostgres opens both sessions, past all links.
func rivalOfPostgres(ctx context.Context, at Place) (_ Rival, err error) {
	r := &rivalPostgres{}
	cfg, err := pgx.ParseConfig(postgres.ConnString(at.Addr, at.Secret))
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["default_transaction_isolation"] = "read committed" // whatever others get by default
	for _, c := range []**pgx.Conn{&r.holder, &r.observer} {
		if *c, err = pgx.ConnectConfig(ctx, cfg); err != nil {
			r.Close()
			return nil, fmt.Errorf("a rival session: %w", err)
		}
	}
	return r, nil
}

// Hold writes each row as it is: who waits for it at an isolation level with one snapshot a
// transaction finds, when it is free, that it has changed.
func (r *rivalPostgres) Hold(ctx context.Context) (rows int, err error) {
	if r.tx != nil {
		return 0, errors.New("the rival holds the rows already")
	}
	tx, err := r.holder.Begin(ctx)
	if err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, "UPDATE fencepost_sink SET value = value")
	if err != nil {
		return 0, errors.Join(err, tx.Rollback(ctx))
	}
	r.tx = tx
	return int(tag.RowsAffected()), nil
}

func (r *rivalPostgres) Free(ctx context.Context) error {
	if r.tx == nil {
		return nil
	}
	tx := r.tx
	r.tx = nil
	return tx.Commit(ctx)
}

// lockNotAvailable is the SQLSTATE of NOWAIT.
const lockNotAvailable = "55P03"

func (r *rivalPostgres) Held(ctx context.Context) (bool, error) {
	_, err := r.observer.Exec(ctx, "SELECT 1 FROM fencepost_sink FOR UPDATE NOWAIT")
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == lockNotAvailable {
		return true, nil
	}
	return false, err
}

func (r *rivalPostgres) Waiting(ctx context.Context) (n int, err error) {
	const blocked = "SELECT count(*) FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid))"
	err = r.observer.QueryRow(ctx, blocked, int32(r.holder.PgConn().PID())).Scan(&n)
	return n, err
}

// Close ends both sessions, and what they hold.
func (r *rivalPostgres) Close() {
	for _, c := range []*pgx.Conn{r.holder, r.observer} {
		if c != nil {
			_ = c.Close(context.Background()) // the server frees what a session held that is gone
		}
	}
}
