//go:build integration

package postgres

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/sink"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/sink/sinktest"
	"fencepost/harness/record/history"
)

// start starts a server that ends with the test.
func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(t.Context(), Options{Log: filepath.Join(t.TempDir(), "postgres.log"), Ended: func(l *history.ProcessLife) {
		if wrong := l.Unplanned(); wrong != "" {
			t.Error(wrong)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// connect opens a pool by an address of the server or of a link to it.
func connect(t *testing.T, s *Server, addr string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), ConnString(addr, s.Secret))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// TestConformance runs the suite with one sink for all calls, and with one a call, as by
// several processes.
func TestConformance(t *testing.T) {
	t.Parallel()
	began := time.Now()
	s := start(t)
	t.Logf("%s: start %s", s.Program.Version, time.Since(began))
	pool, other := connect(t, s, s.Addr()), connect(t, s, s.Addr())
	if err := postgressink.Migrate(context.Background(), pool); err != nil {
		t.Fatal(err)
	}
	one := postgressink.New(pool, postgressink.Options{})
	t.Run("all", func(t *testing.T) {
		t.Run("one sink", func(t *testing.T) {
			t.Parallel()
			sinktest.Run(t, "one", func(*testing.T) sink.Sink { return one })
		})
		t.Run("two sinks in turns", func(t *testing.T) {
			t.Parallel()
			sinktest.Run(t, "turns", func(*testing.T) sink.Sink {
				return sinktest.Turns(one, postgressink.New(other, postgressink.Options{}))
			})
		})
	})
}
