//go:build integration

package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fencepost/core/sink"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/store"
)

// short bounds a call that must not be answered.
const short = 3 * time.Second

// standbys sets who must have a commit before it is acknowledged, and waits until that holds.
func (w *world) standbys(names string) {
	w.Helper()
	// As the server's administrator would: the role that programs log in as may not.
	conf := filepath.Join(w.server.Dir, dataName, "postgresql.auto.conf")
	w.must(os.WriteFile(conf, []byte("synchronous_standby_names = '"+names+"'\n"), 0o600))
	w.must(syscall.Kill(w.server.PID(), syscall.SIGHUP))
	for {
		ctx, cancel := context.WithTimeout(w.ctx(), short/10)
		_, err := w.direct.Exec(ctx, `SELECT pg_logical_emit_message(true, 'probe', '')`)
		cancel()
		if (err == nil) == (names == "") {
			return
		}
	}
}

// TestStandbyAway: what no standby has is shown to nobody, also if the wait of the one that
// wrote it was cancelled: a fail-over would take back what was read.
func TestStandbyAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := postgressink.New(w.direct, postgressink.Options{RequestTimeout: short / 3})
	w.answered(sink.Applied)(one.Raise(w.ctx(), "r", issuer, 1))
	w.standbys("away")
	bounded := func(call func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(w.ctx(), short)
		defer cancel()
		return call(ctx)
	}
	err := bounded(func(ctx context.Context) error {
		_, err := one.Accept(ctx, "r", issuer, 2, effect("k"))
		return err
	})
	if store.OutcomeOf(err) != store.Unknown {
		t.Errorf("an effect that no standby has: %v", err)
	}
	err = bounded(func(ctx context.Context) error {
		_, err := one.ApplyTx(ctx, "impatient", issuer, 1, effect("k"), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '100ms'`)
			return err
		})
		return err
	})
	if store.OutcomeOf(err) != store.Unknown {
		t.Errorf("an effect that no standby has, with a statement_timeout that is over: %v", err)
	}
	if err := bounded(func(ctx context.Context) error {
		st, err := one.Read(ctx, "r", "k")
		if err == nil {
			t.Errorf("read: %+v", st)
		}
		return err
	}); store.OutcomeOf(err) != store.Fail {
		t.Errorf("Read: %v", err)
	}
	if err := bounded(func(ctx context.Context) error { _, err := one.Ledger(ctx, "r"); return err }); err == nil {
		t.Error("the ledger was read")
	}
	w.standbys("")
	if st, err := one.Read(w.ctx(), "r", "k"); err != nil || st.Applied["k"] != 2 {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestSlowFunction: a function that takes longer than a try may is an error, soon.
func TestSlowFunction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := postgressink.New(w.direct, postgressink.Options{RequestTimeout: time.Second})
	for name, apply := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"in the database": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
			return err
		},
		"elsewhere": func(ctx context.Context, _ pgx.Tx) error {
			<-ctx.Done()
			return nil
		},
	} {
		calls := 0
		a, err := s.ApplyTx(w.ctx(), name, issuer, 1, effect("k"), func(ctx context.Context, tx pgx.Tx) error {
			calls++
			return apply(ctx, tx)
		})
		if !errors.Is(err, postgressink.ErrSlow) || sink.OutcomeOf(a, err) != store.Fail || calls != 2 {
			t.Errorf("%s: %+v, %v after %d calls", name, a, err, calls)
		}
		w.answered(sink.Applied)(s.ApplyTx(w.ctx(), name, issuer, 1, effect("k"), func(context.Context, pgx.Tx) error { return nil }))
	}
}
