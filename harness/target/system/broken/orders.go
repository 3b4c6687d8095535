package broken

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/harness/target/orders"
	"fencepost/harness/target/workload"
)

func init() {
	plant("orders-pay-before-fence", only(workload.Hooks{Shop: payBeforeFence}))
	plant("orders-pay-by-run", only(workload.Hooks{Shop: payByRun}))
	plant("orders-stock-unversioned", only(workload.Hooks{Shop: stockUnversioned}))
}

// isPayment tells the effect that takes the money by its key.
func isPayment(e sink.Effect) bool { return strings.HasPrefix(e.Key, "pay ") }

// payBeforeFence takes the money in a transaction of its own, as from a provider, and
// then writes down with the fence that it has. The provider knows the order's key, so
// that nobody pays twice; it knows nothing of tokens.
func payBeforeFence(_ workload.Config, t orders.Tables) orders.Sink { return hastyShop{t} }

type hastyShop struct{ orders.Tables }

func (s hastyShop) ApplyTx(ctx context.Context, resource, issuer string, token int64, e sink.Effect, apply func(context.Context, pgx.Tx) error) (sink.Answer, error) {
	if !isPayment(e) {
		return s.Tables.ApplyTx(ctx, resource, issuer, token, e, apply)
	}
	err := pgx.BeginFunc(ctx, s.Pool(), func(tx pgx.Tx) error {
		var paid bool
		order := strings.TrimPrefix(e.Key, "pay ")
		// The lock makes two that come at once follow each other.
		const look = `SELECT EXISTS (SELECT 1 FROM payments p WHERE p.order_id = o.id) FROM orders o WHERE o.id = $1 FOR UPDATE`
		if err := tx.QueryRow(ctx, look, order).Scan(&paid); err != nil || paid {
			return err
		}
		return apply(ctx, leavingOut{tx, "UPDATE orders "})
	})
	if err != nil {
		return sink.Answer{}, &store.Error{Op: e.Key, Outcome: store.Unknown, Cause: err}
	}
	return s.Tables.ApplyTx(ctx, resource, issuer, token, e, func(ctx context.Context, tx pgx.Tx) error {
		return apply(ctx, leavingOut{tx, "INSERT INTO payments "})
	})
}

// leavingOut is a transaction without the statements that begin so.
type leavingOut struct {
	pgx.Tx
	what string
}

func (t leavingOut) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if strings.HasPrefix(sql, t.what) {
		return pgconn.NewCommandTag("UPDATE 1"), nil
	}
	return t.Tx.Exec(ctx, sql, args...)
}

// payByRun makes the run a part of the payment's idempotency key: what an earlier run
// has paid is not found.
func payByRun(_ workload.Config, t orders.Tables) orders.Sink { return runKeyShop{t} }

type runKeyShop struct{ orders.Tables }

func (s runKeyShop) ApplyTx(ctx context.Context, resource, issuer string, token int64, e sink.Effect, apply func(context.Context, pgx.Tx) error) (sink.Answer, error) {
	if isPayment(e) {
		e.Key = fmt.Sprintf("%s by run %d", e.Key, token)
		e.Intent = e.Key
	}
	return s.Tables.ApplyTx(ctx, resource, issuer, token, e, apply)
}

// stockUnversioned writes the stock that it has computed from what it read, even if
// somebody has changed it since. Between the two it takes its time, as a busy process does.
func stockUnversioned(cfg workload.Config, t orders.Tables) orders.Sink {
	return carelessShop{t, cfg.TTL / 40}
}

type carelessShop struct {
	orders.Tables
	pause time.Duration
}

func (s carelessShop) ApplyTx(ctx context.Context, resource, issuer string, token int64, e sink.Effect, apply func(context.Context, pgx.Tx) error) (sink.Answer, error) {
	if strings.HasPrefix(e.Key, "reserve ") {
		time.Sleep(s.pause)
	}
	return s.Tables.ApplyTx(ctx, resource, issuer, token, e, func(ctx context.Context, tx pgx.Tx) error {
		return apply(ctx, carelessTx{tx})
	})
}

// The condition of the shop's optimistic write, and one that always holds.
const (
	versioned   = "WHERE item = $1 AND version = $3"
	unversioned = "WHERE item = $1 AND $3::bigint IS NOT NULL"
)

var errOtherStatement = errors.New("the statement that takes the stock is not the one that this variant knows")

// carelessTx leaves the version out of the condition.
type carelessTx struct{ pgx.Tx }

func (t carelessTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if strings.HasPrefix(sql, "UPDATE stock ") {
		if !strings.Contains(sql, versioned) {
			return pgconn.CommandTag{}, errOtherStatement
		}
		sql = strings.Replace(sql, versioned, unversioned, 1)
	}
	return t.Tx.Exec(ctx, sql, args...)
}
