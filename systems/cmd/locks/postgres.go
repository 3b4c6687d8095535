package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fencepost/systems/clients"
	"fencepost/systems/drive"
)

// pgLease is a row for each lock. One statement takes it if its lease is over by the server's
// clock, and counts: the count is the token. The row stays when the lock is given back. It is on the
// server that takes writes.
type pgLease struct {
	pgSession
	table string
}

// pgSession is one connection at a time to the server that takes writes.
type pgSession struct {
	at   string
	conn *pgx.Conn // nil: none, or it is broken
}

// postgresRetry is left between looks for a server that takes writes.
const postgresRetry = 50 * time.Millisecond

// connectPostgres looks for one until ctx is over: at a failover there is none for a moment.
func connectPostgres(ctx context.Context, at string) (*pgx.Conn, error) {
	for {
		conn, err := pgx.Connect(ctx, at)
		if err == nil {
			return conn, nil
		}
		select {
		case <-time.After(postgresRetry):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func setUpPostgres(ctx context.Context, at drive.Place) error {
	server, err := clients.Postgres(at)
	if err != nil {
		return err
	}
	conn, err := connectPostgres(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CREATE TABLE "+at.Name+" (name text PRIMARY KEY, id text NOT NULL, token bigint NOT NULL, expires timestamptz NOT NULL)")
	return err
}

func openPostgres(_ context.Context, at drive.Place) (drive.Locker, error) {
	server, err := clients.Postgres(at)
	return &pgLease{pgSession{at: server}, at.Name}, err
}

// query makes a statement that returns one row, or none: then found is false.
func (p *pgSession) query(ctx context.Context, to []any, sql string, args ...any) (found bool, err error) {
	if p.conn == nil || p.conn.IsClosed() {
		if p.conn, err = connectPostgres(ctx, p.at); err != nil {
			p.conn = nil
			return false, err
		}
	}
	err = p.conn.QueryRow(ctx, sql, args...).Scan(to...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (p *pgLease) Acquire(ctx context.Context, name, id string, ttl time.Duration) (token int64, taken bool, err error) {
	taken, err = p.query(ctx, []any{&token}, fmt.Sprintf(`INSERT INTO %[1]s AS l VALUES ($1, $2, 1, clock_timestamp() + $3)
		ON CONFLICT (name) DO UPDATE SET id = $2, token = l.token + CASE WHEN l.id = $2 THEN 0 ELSE 1 END, expires = excluded.expires
		WHERE l.expires < clock_timestamp() OR l.id = $2 RETURNING token`, p.table), name, id, ttl)
	return token, taken, err
}

func (p *pgLease) Renew(ctx context.Context, name, id string, ttl time.Duration) (bool, error) {
	var n int
	return p.query(ctx, []any{&n}, "UPDATE "+p.table+" SET expires = clock_timestamp() + $3 WHERE name = $1 AND id = $2 AND expires > clock_timestamp() RETURNING 1", name, id, ttl)
}

func (p *pgLease) Release(ctx context.Context, name, id string) (bool, error) {
	var n int
	return p.query(ctx, []any{&n}, "UPDATE "+p.table+" SET id = '', expires = '-infinity' WHERE name = $1 AND id = $2 RETURNING 1", name, id)
}

func (p *pgLease) Holder(ctx context.Context, name string) (id string, err error) {
	_, err = p.query(ctx, []any{&id}, "SELECT id FROM "+p.table+" WHERE name = $1 AND expires > clock_timestamp()", name)
	return id, err
}

func (p *pgLease) Seal(ctx context.Context, name, id string) (bool, error) {
	var n int
	return p.query(ctx, []any{&n}, fmt.Sprintf(`INSERT INTO %[1]s AS l VALUES ($1, $2, 1, 'infinity')
		ON CONFLICT (name) DO UPDATE SET id = $2, token = l.token + 1, expires = 'infinity' WHERE l.expires < clock_timestamp() RETURNING 1`, p.table), name, id)
}

func (p *pgSession) Close() error {
	if p.conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return p.conn.Close(ctx)
}
