// Package postgrestest gives tests a PostgreSQL server of their own.
package postgrestest

import (
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	postgressink "fencepost/core/sink/postgres"
	"fencepost/harness/env/postgres"
)

// Pool is one of connections to a new server, whose database has the sink's tables. Both
// end with the test.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	s, err := postgres.Start(t.Context(), postgres.Options{Log: filepath.Join(t.TempDir(), "postgres.log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	pool, err := pgxpool.New(t.Context(), postgres.ConnString(s.Addr(), s.Secret))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := postgressink.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	return pool
}
