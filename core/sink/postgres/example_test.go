package postgressink_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/sink"
	postgressink "fencepost/core/sink/postgres"
	"fencepost/core/store"
)

var errNotEnough = errors.New("not enough money")

// A payment under a lease: the balance and the fence change in one transaction, once.
func ExampleSink_ApplyTx() {
	pay := func(ctx context.Context, s *postgressink.Sink, issuer string, token int64, order string, cents int64) error {
		payment := sink.Effect{
			Key:    "pay-" + order,
			Intent: fmt.Sprintf("pay %d cents for %s", cents, order),
			Value:  cents,
		}
		answer, err := s.ApplyTx(ctx, "account-7", issuer, token, payment, func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, `UPDATE accounts SET cents = cents - $1 WHERE id = 7 AND cents >= $1`, cents)
			if err == nil && tag.RowsAffected() == 0 {
				err = errNotEnough // rolls back: nothing has happened, and the key is not used up
			}
			return err
		})
		switch {
		case errors.Is(err, errNotEnough):
			return err
		case store.OutcomeOf(err) == store.Unknown:
			return fmt.Errorf("call again with the same key, or give the lease up: %w", err)
		case err != nil:
			return err
		case answer.Result == sink.Stale:
			return errors.New("another has the lease by now; nothing was paid")
		case answer.Result == sink.Conflict:
			return fmt.Errorf("%s was paid with other words before, under token %d", order, answer.FirstToken)
		}
		return nil // Applied, or Duplicate: paid, by this call or an earlier one
	}

	main := func(ctx context.Context) error {
		pool, err := pgxpool.New(ctx, "postgres://shop@db.example:5432/shop?sslmode=verify-full&sslrootcert=/etc/shop/ca.pem")
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := postgressink.Migrate(ctx, pool); err != nil {
			return err
		}
		s := postgressink.New(pool, postgressink.Options{})
		// On grant, before anything is read: the token of the lease.
		if _, err := s.Raise(ctx, "account-7", "lock-account-7", 42); err != nil {
			return err
		}
		return pay(ctx, s, "lock-account-7", 42, "order-1", 990)
	}
	_ = main
}
