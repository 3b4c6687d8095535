//go:build integration

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/sink"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/store"
	"fencepost/harness/env/link"
)

const issuer = "lock-a"

// timeout is of a try, and so of what a lost client leaves on the server: long, since a
// COMMIT that a busy machine does not get to send in time is no COMMIT.
const timeout = 4 * time.Second

// world is a server with tables, and a sink behind a link to it.
type world struct {
	*testing.T
	server *Server
	link   *link.Link
	direct *pgxpool.Pool
	near   *postgressink.Sink // without the link
	far    *postgressink.Sink // through it
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, server: start(t)}
	fabric := link.NewFabric(link.Options{})
	t.Cleanup(func() { fabric.Close() })
	var err error
	if w.link, err = fabric.Add(link.Spec{From: "w1", To: "sink", Listen: "127.0.0.1:0", Upstream: w.server.Addr()}); err != nil {
		t.Fatal(err)
	}
	w.direct = connect(t, w.server, w.server.Addr())
	w.must(postgressink.Migrate(w.ctx(), w.direct))
	w.exec(`CREATE TABLE account (id int PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0))`)
	w.near = postgressink.New(w.direct, postgressink.Options{RequestTimeout: timeout})
	w.far = postgressink.New(connect(t, w.server, w.link.Addr()), postgressink.Options{RequestTimeout: timeout})
	return w
}

func (w *world) ctx() context.Context { return context.Background() }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	_, err := w.direct.Exec(w.ctx(), sql, args...)
	w.must(err)
}

func (w *world) cents(id int, want int64) {
	w.Helper()
	var have int64
	w.must(w.direct.QueryRow(w.ctx(), `SELECT cents FROM account WHERE id = $1`, id).Scan(&have))
	if have != want {
		w.Errorf("account %d has %d, want %d", id, have, want)
	}
}

func (w *world) answered(want sink.Result) func(sink.Answer, error) {
	return func(a sink.Answer, err error) {
		w.Helper()
		if err != nil || a.Result != want {
			w.Errorf("%+v (%s), %v; want %s", a, a.Result, err, want)
		}
	}
}

// onCommit runs f when the transaction is about to be committed, once.
func onCommit(f func()) func(context.Context, pgx.Tx) error {
	var once atomic.Bool
	return func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE account SET cents = cents + 1 WHERE id = 1`)
		if err == nil && once.CompareAndSwap(false, true) {
			f()
		}
		return err
	}
}

func effect(key string) sink.Effect { return sink.Effect{Key: key, Intent: "one more", Value: 1} }

// TestOutcomesOnALink: what a call says, and what has happened, when its COMMIT or the
// answer to it does not arrive.
func TestOutcomesOnALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO account VALUES (1, 0)`)
	set := func(d link.Dir, k link.Kind) { w.must(w.link.Set(w.ctx(), d, link.Mode{Kind: k})) }
	heal := func() { w.must(w.link.SetBoth(w.ctx(), link.Mode{Kind: link.Pass})) }

	t.Run("the answer is lost, the next copy settles it", func(t *testing.T) {
		again := onCommit(func() {
			set(link.Down, link.Drop)
			time.AfterFunc(timeout/2, heal)
		})
		w.answered(sink.Applied)(w.far.ApplyTx(w.ctx(), "r1", issuer, 1, effect("k"), again))
		w.cents(1, 1)
		w.answered(sink.Duplicate)(w.far.ApplyTx(w.ctx(), "r1", issuer, 1, effect("k"), again))
		w.cents(1, 1)
	})
	t.Run("the answer is lost for good", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(w.ctx(), 2*timeout)
		defer cancel()
		defer heal()
		a, err := w.far.ApplyTx(ctx, "r2", issuer, 1, effect("k"), onCommit(func() { set(link.Down, link.Drop) }))
		if sink.OutcomeOf(a, err) != store.Unknown {
			t.Errorf("%+v, %v, want unknown", a, err)
		}
		w.cents(1, 2) // in fact it was done
		if st, err := w.near.Read(w.ctx(), "r2", "k"); err != nil || st.Applied["k"] != 1 {
			t.Errorf("%+v, %v", st, err)
		}
	})
	t.Run("the COMMIT is lost", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(w.ctx(), 2*timeout)
		defer cancel()
		a, err := w.far.ApplyTx(ctx, "r3", issuer, 1, effect("k"), onCommit(func() { set(link.Up, link.Drop) }))
		if sink.OutcomeOf(a, err) != store.Unknown {
			t.Errorf("%+v, %v, want unknown", a, err)
		}
		heal()
		w.cents(1, 2)
		// What it left locked is free again, and the same effect can be accepted.
		w.answered(sink.Applied)(w.near.Accept(w.ctx(), "r3", issuer, 2, effect("k")))
	})
	t.Run("the COMMIT comes late", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(w.ctx(), 2*timeout)
		defer cancel()
		a, err := w.far.ApplyTx(ctx, "r4", issuer, 1, effect("k"), onCommit(func() { set(link.Up, link.Stall) }))
		if sink.OutcomeOf(a, err) != store.Unknown {
			t.Errorf("%+v, %v, want unknown", a, err)
		}
		// The next holder waits until the server has given the session up, and wins.
		w.answered(sink.Applied)(w.near.Raise(w.ctx(), "r4", issuer, 2))
		heal() // the COMMIT arrives at a session that is gone
		w.answered(sink.Stale)(w.far.Raise(w.ctx(), "r4", issuer, 1))
		w.cents(1, 2)
		if l, err := w.near.Ledger(w.ctx(), "r4"); err != nil || len(l) != 1 || l[0].Token != 2 {
			t.Errorf("%+v, %v", l, err)
		}
	})
	t.Run("nothing is sent", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(w.ctx(), timeout)
		defer cancel()
		defer heal()
		w.must(w.link.SetBoth(w.ctx(), link.Mode{Kind: link.Close}))
		a, err := w.far.ApplyTx(ctx, "r5", issuer, 1, effect("k"), onCommit(func() { t.Error("called") }))
		if sink.OutcomeOf(a, err) != store.Fail || err == nil {
			t.Errorf("%+v, %v, want fail", a, err)
		}
	})
}

// TestCallersTransaction: the caller's changes and the fence are one transaction.
func TestCallersTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO account VALUES (1, 10)`)
	take := func(cents int) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE account SET cents = cents - $1 WHERE id = 1`, cents)
			return err
		}
	}
	w.answered(sink.Applied)(w.near.ApplyTx(w.ctx(), "r", issuer, 2, effect("a"), take(3)))
	w.cents(1, 7)
	w.answered(sink.Duplicate)(w.near.ApplyTx(w.ctx(), "r", issuer, 2, effect("a"), take(3)))
	w.answered(sink.Stale)(w.near.ApplyTx(w.ctx(), "r", issuer, 1, effect("b"), take(3)))
	w.cents(1, 7)
	// A constraint of the caller's: nothing is left of the call, not even the raise.
	a, err := w.near.ApplyTx(w.ctx(), "r", issuer, 3, effect("c"), take(100))
	if code, ok := codeOf(err); !ok || code != "23514" || sink.OutcomeOf(a, err) != store.Fail {
		t.Errorf("%+v, %v", a, err)
	}
	own := errors.New("mine")
	a, err = w.near.ApplyTx(w.ctx(), "r", issuer, 3, effect("c"), func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(take(1)(ctx, tx), own)
	})
	if !errors.Is(err, own) || sink.OutcomeOf(a, err) != store.Fail {
		t.Errorf("%+v, %v", a, err)
	}
	_, err = w.near.ApplyTx(w.ctx(), "r", issuer, 3, effect("c"), func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) })
	if store.OutcomeOf(err) != store.Fail || err == nil {
		t.Errorf("a function that commits: %v", err)
	}
	// An error that the function keeps to itself does not pass as a success.
	_, err = w.near.ApplyTx(w.ctx(), "r", issuer, 3, effect("c"), func(ctx context.Context, tx pgx.Tx) error {
		_ = take(100)(ctx, tx)
		return nil
	})
	if store.OutcomeOf(err) != store.Fail || err == nil {
		t.Errorf("a function that hides its error: %v", err)
	}
	if st, err := w.near.Read(w.ctx(), "r", "a", "b", "c"); err != nil || st.Seen != 2 || len(st.Applied) != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	w.cents(1, 7)
	func() {
		defer func() { _ = recover() }()
		_, _ = w.near.ApplyTx(w.ctx(), "r", issuer, 3, effect("c"), func(context.Context, pgx.Tx) error { panic("x") })
	}()
	// Asked to come again by the server: one call's work is committed.
	var calls atomic.Int64
	w.answered(sink.Applied)(w.near.ApplyTx(w.ctx(), "r", issuer, 3, effect("c"), func(ctx context.Context, tx pgx.Tx) error {
		if err := take(1)(ctx, tx); err != nil || calls.Add(1) > 1 {
			return err
		}
		_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$`)
		return err
	}))
	if calls.Load() != 2 {
		t.Errorf("%d calls", calls.Load())
	}
	w.cents(1, 6)
	if n := w.direct.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are not given back", n)
	}
}

// TestProcess: what is acknowledged survives SIGKILL, a paused server answers nobody, and
// nothing is left in the end.
func TestProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range int64(20) {
		w.answered(sink.Applied)(w.near.Accept(w.ctx(), "r", issuer, i+1, effect(string(rune('a'+i)))))
		if i%5 == 4 {
			w.must(w.server.Kill(context.Background()))
			if w.server.PID() != 0 {
				t.Fatal("it still runs")
			}
			w.must(w.server.Start(w.ctx()))
		}
	}
	if l, err := w.near.Ledger(w.ctx(), "r"); err != nil || len(l) != 20 {
		t.Errorf("%d entries, %v", len(l), err)
	}
	w.must(w.server.Pause(w.ctx()))
	if n, err := w.server.Standing(); err != nil || n < 5 {
		t.Errorf("%d processes stand still, %v", n, err)
	}
	ctx, cancel := context.WithTimeout(w.ctx(), timeout)
	defer cancel()
	// On the connection that is open already, whose process is not the postmaster.
	if a, err := w.near.Raise(ctx, "r", issuer, 99); err == nil {
		t.Errorf("a paused server answers: %+v", a)
	}
	w.must(w.server.Resume(w.ctx()))
	w.answered(sink.Applied)(w.near.Raise(w.ctx(), "r", issuer, 100))
	ns := namespace(t, w.server.PID())
	if n := members(t, ns); n < 5 {
		t.Errorf("%d processes of the server are seen: the look for what is left proves nothing", n)
	}
	w.must(w.server.Kill(context.Background()))
	if n := members(t, ns); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	w.must(w.server.Close())
	if _, err := os.Stat(w.server.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", w.server.Dir, err)
	}
}

func namespace(t *testing.T, pid int) string {
	t.Helper()
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	must(t, err)
	return ns
}

// members counts the processes in a PID namespace.
func members(t *testing.T, ns string) (n int) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	must(t, err)
	for _, l := range links {
		if got, err := os.Readlink(l); err == nil && got == ns {
			n++
		}
	}
	return n
}

func codeOf(err error) (string, bool) {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState(), true
	}
	return "", false
}
