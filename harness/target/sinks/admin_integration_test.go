//go:build integration

package sinks

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/sink"
	"fencepost/harness/env/postgres"
)

// What an administrator sets holds for sessions that were open before, and the server's log says
// of others what came of it: which statements it ended, and under which isolation level they
// decided.
func TestAdminOfPostgres(t *testing.T) {
	t.Parallel()
	k := found(t, Postgres)
	s, c := started(t, k, Options{})
	if _, err := c.Raise(t.Context(), "r", "l", 1); err != nil {
		t.Fatal(err)
	}
	a, err := k.Admin(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	set := func(setting, value, want string) {
		t.Helper()
		if err := a.Set(setting, value); err != nil {
			t.Fatal(err)
		}
		for {
			open, fresh, err := a.Shown(t.Context(), setting)
			if err != nil {
				t.Fatal(err)
			}
			if open == want && fresh == want {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	ended := func(want bool) {
		t.Helper()
		if n, err := a.Cancelled(); err != nil || n > 0 != want {
			t.Errorf("%d statements were ended, %v", n, err)
		}
	}
	decided := func(key string, want Isolation) {
		t.Helper()
		if _, err := c.Accept(t.Context(), "r", "l", 1, sink.Effect{Key: key, Value: 7}); err != nil {
			t.Fatal(err)
		}
		if got, err := a.Decisions(); err != nil || len(got) != 1 || got[want] == 0 {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}

	pool := c.(*inPostgres).pool
	const look = `SELECT 1 FROM fencepost_sink`
	crowd := func() {
		t.Helper()
		if err := a.Crowd(500 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		for now := false; !now; {
			if now, _, err = a.Crowded(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	clear := func() {
		t.Helper()
		if err := a.Clear(); err != nil {
			t.Fatal(err)
		}
		if now, longest, err := a.Crowded(t.Context()); now || longest == 0 || err != nil {
			t.Errorf("crowded %t, for %s, %v", now, longest, err)
		}
	}
	// A table that is crowded ends nothing by itself.
	crowd()
	if _, err := pool.Exec(t.Context(), look); err != nil {
		t.Error(err)
	}
	clear()
	ended(false)
	set("statement_timeout", "100ms", "100ms")
	ended(false)
	crowd()
	var refused *pgconn.PgError
	for !errors.As(err, &refused) {
		_, err = pool.Exec(t.Context(), look)
	}
	if refused.Code != "57014" {
		t.Error(err)
	}
	clear()
	ended(true)
	ended(false)
	set("statement_timeout", "", "0")

	if err := a.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	decided("a", Isolation{Default: "read committed", Level: "read committed"})
	for _, level := range []string{"repeatable read", "serializable"} {
		set("default_transaction_isolation", level, level)
		decided(level, Isolation{Default: level, Level: "read committed"}) // which the sink names
		other, err := pgxpool.New(t.Context(), postgres.ConnString(s.Addr(), s.Secret))
		if err != nil {
			t.Fatal(err)
		}
		_, err = other.Exec(t.Context(), `INSERT INTO fencepost_sink_ledger VALUES ('other', 1, 'raise', 'l', 1, $1, 0, now())`, level)
		if err == nil {
			_, err = other.Exec(t.Context(), `DELETE FROM fencepost_sink_ledger WHERE resource = 'other'`)
		}
		other.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := a.Decisions(); err != nil || got[Isolation{level, level}] != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	set("default_transaction_isolation", "", "read committed")
	a.Close()
	var left int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_trigger WHERE tgname = 'fencepost_says_isolation'`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d triggers are left, %v", left, err)
	}
}
