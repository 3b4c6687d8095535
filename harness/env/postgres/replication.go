package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// marks is a table of the harness's own, in a database that programs do not use.
const marks = "marks"

// asAdmin connects as the harness's own role. What that commits waits for no standby: it is about
// the server itself.
func asAdmin(ctx context.Context, addr, secret string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, connString(addr, secret, admin, "postgres")+"&synchronous_commit=local")
}

// askAdmin asks for one row.
func askAdmin(ctx context.Context, addr, secret string, to []any, sql string, args ...any) error {
	conn, err := asAdmin(ctx, addr, secret)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.QueryRow(ctx, sql, args...).Scan(to...)
}

// Replication asks a server whether it is a primary, and if not, how it receives from one: "streaming", or
// something else; "none" if it has no connection.
func Replication(ctx context.Context, addr, secret string) (primary bool, receiver string, err error) {
	err = askAdmin(ctx, addr, secret, []any{&primary, &receiver},
		"SELECT NOT pg_is_in_recovery(), coalesce((SELECT status FROM pg_stat_wal_receiver), 'none')")
	return primary, receiver, err
}

// Streams says why a primary's standby is not in sync: it has to have caught up. If it is to be
// synchronous, the primary's commits wait for it from then on.
//
// That is set here and not from the start, as a primary that knows of no standby must not wait for one: after
// a promotion it answers alone until the old one follows it.
func Streams(ctx context.Context, addr, secret string, synchronous bool) error {
	conn, err := asAdmin(ctx, addr, secret)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var streams, waits bool
	err = conn.QueryRow(ctx, `SELECT coalesce(bool_or(state = 'streaming'), false), coalesce(bool_or(sync_state = 'sync'), false)
		FROM pg_stat_replication`).Scan(&streams, &waits)
	switch {
	case err != nil:
		return err
	case !streams:
		return errors.New("its standby has not caught up")
	case !synchronous || waits:
		return nil
	}
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return errors.New("it does not wait for its standby yet")
}

// Promote makes a standby a primary, and waits until it is one.
func Promote(ctx context.Context, addr, secret string) error {
	var promoted bool
	err := askAdmin(ctx, addr, secret, []any{&promoted}, "SELECT pg_promote(true, 10)")
	if err == nil && !promoted {
		err = errors.New("it is still a standby after 10 s")
	}
	return err
}

// readOnly is the SQLSTATE by which a standby refuses to write.
const readOnly = "25006"

// Mark writes a key; taken is false of a standby.
func Mark(ctx context.Context, addr, secret, key string) (taken bool, err error) {
	err = askAdmin(ctx, addr, secret, []any{&taken}, "INSERT INTO "+marks+" VALUES ($1) RETURNING true", key)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == readOnly {
		return false, nil
	}
	return taken, err
}

// Marked says whether a server has a key.
func Marked(ctx context.Context, addr, secret, key string) (there bool, err error) {
	err = askAdmin(ctx, addr, secret, []any{&there}, "SELECT EXISTS (SELECT FROM "+marks+" WHERE key = $1)", key)
	return there, err
}
