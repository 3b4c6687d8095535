package shop

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
)

// DefaultHold is for how long items are kept for an order that is not paid.
const DefaultHold = 10 * time.Minute

// Shop has the handlers of an order's jobs.
type Shop struct {
	// DB reads the shop's tables.
	DB *pgxpool.Pool
	// Sink changes them, with the fence: core/sink/postgres in the same database, and the
	// one that the scheduler has as its Sink.
	Sink Sink
	// Hold is for how long items are kept for an order that is not paid; default
	// DefaultHold.
	Hold time.Duration
}

// Sink accepts an effect and changes the shop's rows in one transaction; apply may be
// called more than once. It is *postgressink.Sink.
type Sink interface {
	ApplyTx(ctx context.Context, resource, issuer string, token int64, e sink.Effect, apply func(ctx context.Context, tx pgx.Tx) error) (sink.Answer, error)
}

// Handlers by kind of job, for scheduler.Options.
func (s *Shop) Handlers() map[string]worker.Handler {
	return map[string]worker.Handler{KindReserve: s.Reserve, KindPay: s.Pay, KindFulfil: s.Fulfil}
}

// Why an order's jobs end early.
var (
	ErrRejected  = errors.New("shop: the order is rejected: there is not enough in stock")
	ErrCancelled = errors.New("shop: the order is cancelled: it was not paid in time")
)

// errMoved: the stock was changed after it had been read.
var errMoved = errors.New("shop: the stock has changed since it was read")

//go:embed schema.sql
var schema string

// Migrate makes the shop's tables, if they are not there.
func Migrate(ctx context.Context, db *pgxpool.Pool) error {
	_, err := db.Exec(ctx, schema)
	return err
}

// Deliver puts items into the stock.
func Deliver(ctx context.Context, db *pgxpool.Pool, item string, quantity int64) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO stock (item, quantity, version) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING`, item); err != nil {
			return err
		}
		return putBack(ctx, tx, item, quantity, "")
	})
}

// Reserve takes the order's items from the stock, or rejects the order.
func (s *Shop) Reserve(ctx context.Context, t *worker.Task) error {
	o, done, err := s.open(ctx, t)
	switch {
	case err != nil:
		return err
	case done[o.reserveKey()]:
		return nil
	case done[o.rejectKey()]:
		return job.Cancel(ErrRejected)
	}
	for {
		quantity, version, err := s.stock(ctx, o.Item)
		if err != nil {
			return err
		}
		if quantity < o.Quantity {
			err := s.apply(ctx, t, o.rejectKey(), func(ctx context.Context, tx pgx.Tx) error {
				return insertOrder(ctx, tx, o, "rejected", 0)
			})
			if err != nil {
				return err
			}
			return job.Cancel(ErrRejected)
		}
		err = s.apply(ctx, t, o.reserveKey(), func(ctx context.Context, tx pgx.Tx) error {
			if err := take(ctx, tx, o, quantity, version); err != nil {
				return err
			}
			return insertOrder(ctx, tx, o, "reserved", s.hold())
		})
		if !errors.Is(err, errMoved) {
			return err
		}
	}
}

// Pay charges the order, or cancels it if its items are not kept for it any more.
func (s *Shop) Pay(ctx context.Context, t *worker.Task) error {
	o, done, err := s.open(ctx, t)
	switch {
	case err != nil:
		return err
	case done[o.payKey()]:
		return nil
	case done[o.cancelKey()]:
		return job.Cancel(ErrCancelled)
	}
	var expired bool
	if err := s.DB.QueryRow(ctx, `SELECT hold_until < clock_timestamp() FROM orders WHERE id = $1`, o.ID).Scan(&expired); err != nil {
		return fmt.Errorf("order %s: %w", o.ID, err)
	}
	if expired {
		err := s.apply(ctx, t, o.cancelKey(), func(ctx context.Context, tx pgx.Tx) error {
			if err := putBack(ctx, tx, o.Item, o.Quantity, o.ID); err != nil {
				return err
			}
			return setState(ctx, tx, o, "cancelled")
		})
		if err != nil {
			return err
		}
		return job.Cancel(ErrCancelled)
	}
	// Between the look at the reservation and this the worker may be stopped for as long
	// as you like. That nobody has cancelled the order meanwhile is what the fence says.
	return s.apply(ctx, t, o.payKey(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO payments (order_id, cents, token) VALUES ($1, $2, $3)`, o.ID, o.Cents, t.Token()); err != nil {
			return err
		}
		return setState(ctx, tx, o, "paid")
	})
}

// Fulfil ships the order.
func (s *Shop) Fulfil(ctx context.Context, t *worker.Task) error {
	o, done, err := s.open(ctx, t)
	if err != nil || done[o.shipKey()] {
		return err
	}
	return s.apply(ctx, t, o.shipKey(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO shipments (order_id) VALUES ($1)`, o.ID); err != nil {
			return err
		}
		return setState(ctx, tx, o, "shipped")
	})
}

func (s *Shop) hold() time.Duration {
	if s.Hold > 0 {
		return s.Hold
	}
	return DefaultHold
}

// open fences earlier runs of the job off, before anything is read that the run will
// act on, and tells which of its effects they have had.
func (s *Shop) open(ctx context.Context, t *worker.Task) (Order, map[string]bool, error) {
	o, err := orderOf(t.Run.Job)
	if err != nil {
		return o, nil, err
	}
	st, err := t.Open(ctx, o.Effects(t.Run.Job.Kind)...)
	if err != nil {
		return o, nil, err
	}
	done := map[string]bool{}
	for key := range st.Applied {
		done[key] = true
	}
	return o, done, nil
}

// apply makes one effect: fence, key and the shop's rows in one transaction. While it
// is not known whether it was made, the same one is asked for again.
func (s *Shop) apply(ctx context.Context, t *worker.Task, key string, tables tables) error {
	accept := func(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
		return s.Sink.ApplyTx(ctx, resource, issuer, token, e, tables)
	}
	for {
		if !t.Valid() || ctx.Err() != nil {
			return fmt.Errorf("shop: the run ended before %q: %w", key, context.Cause(ctx))
		}
		_, err := t.ApplyBy(ctx, sink.Effect{Key: key, Intent: key, Value: 1}, accept)
		if err == nil || store.OutcomeOf(err) != store.Unknown {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(resendAfter):
		}
	}
}

// resendAfter is the pause before an effect of unknown outcome is asked for again.
const resendAfter = 100 * time.Millisecond
