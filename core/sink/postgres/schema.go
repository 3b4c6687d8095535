package postgressink

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema.sql
var schema string

// SchemaVersion is the version of the tables that this package works with.
const SchemaVersion = 1

// migrateLock is the advisory lock that makes concurrent Migrates wait for each
// other ("fencepos" as a number); CREATE TABLE IF NOT EXISTS alone may fail then.
const migrateLock = 0x66656e6365706f73

// undefinedTable is the SQLSTATE of a table that is not there.
const undefinedTable = "42P01"

// SchemaError is a database whose tables do not fit.
type SchemaError struct {
	// Found is the version of the tables, 0 if there are none.
	Found int
}

func (e *SchemaError) Error() string {
	if e.Found == 0 {
		return "sink: the database has no tables of the sink in its search path: run postgressink.Migrate once, as a role that may create tables"
	}
	return fmt.Sprintf("sink: the database's tables of the sink have version %d, this program works with %d: run the program's newer version", e.Found, SchemaVersion)
}

// Migrate creates the sink's tables in the first schema of the connection's search
// path, unless they are in it somewhere: then the role needs no right to create any.
// It may be called by many processes at once. Tables of another version are a
// *[SchemaError].
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	err := checkVersion(ctx, pool)
	if err == nil {
		return nil
	}
	if missing := (*SchemaError)(nil); !errors.As(err, &missing) || missing.Found != 0 {
		return fmt.Errorf("sink: look at the tables: %w", err)
	}
	// What another one has committed while this one waited for the lock is seen at this level only.
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrateLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, schema); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO fencepost_sink_version (version) VALUES ($1) ON CONFLICT DO NOTHING", SchemaVersion); err != nil {
			return err
		}
		return checkVersion(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("sink: create tables: %w", err)
	}
	return nil
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// checkVersion reports a *SchemaError.
func checkVersion(ctx context.Context, db querier) error {
	var found int
	err := db.QueryRow(ctx, "SELECT version FROM fencepost_sink_version").Scan(&found)
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows), errors.As(err, &pg) && pg.Code == undefinedTable:
		return &SchemaError{}
	case err != nil:
		return err
	case found != SchemaVersion:
		return &SchemaError{Found: found}
	}
	return nil
}
