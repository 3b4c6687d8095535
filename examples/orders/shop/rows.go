package shop

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tables changes the shop's rows in the transaction that accepts an effect.
type tables = func(ctx context.Context, tx pgx.Tx) error

// stock is how much there is of an item, and the version of that: nothing, if it was
// never delivered.
func (s *Shop) stock(ctx context.Context, item string) (quantity, version int64, err error) {
	err = s.DB.QueryRow(ctx, `SELECT quantity, version FROM stock WHERE item = $1`, item).Scan(&quantity, &version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, nil
	}
	return quantity, version, err
}

// take takes the order's items if nobody has changed the stock since it was read.
func take(ctx context.Context, tx pgx.Tx, o Order, quantity, version int64) error {
	left := quantity - o.Quantity
	tag, err := tx.Exec(ctx, `UPDATE stock SET quantity = $2, version = $3 + 1 WHERE item = $1 AND version = $3`, o.Item, left, version)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return errMoved
	}
	return insertMove(ctx, tx, o.Item, version+1, -o.Quantity, left, o.ID)
}

// putBack adds to the stock, whatever there is: that needs no version to be right.
func putBack(ctx context.Context, tx pgx.Tx, item string, quantity int64, order string) error {
	var left, version int64
	err := tx.QueryRow(ctx, `UPDATE stock SET quantity = quantity + $2, version = version + 1 WHERE item = $1 RETURNING quantity, version`, item, quantity).Scan(&left, &version)
	if err != nil {
		return err
	}
	return insertMove(ctx, tx, item, version, quantity, left, order)
}

func insertMove(ctx context.Context, tx pgx.Tx, item string, version, delta, left int64, order string) error {
	_, err := tx.Exec(ctx, `INSERT INTO stock_moves (item, version, delta, quantity, order_id) VALUES ($1, $2, $3, $4, $5)`, item, version, delta, left, order)
	return err
}

func insertOrder(ctx context.Context, tx pgx.Tx, o Order, state string, hold time.Duration) error {
	_, err := tx.Exec(ctx, `INSERT INTO orders (id, item, quantity, cents, state, hold_until) VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6::interval)`,
		o.ID, o.Item, o.Quantity, o.Cents, state, hold)
	return err
}

func setState(ctx context.Context, tx pgx.Tx, o Order, state string) error {
	tag, err := tx.Exec(ctx, `UPDATE orders SET state = $2 WHERE id = $1`, o.ID, state)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("shop: there is no order %s", o.ID)
	}
	return err
}

//go:embed audit.sql
var audit string

// Audit looks for what must never be in the shop's tables and returns a sentence for
// each finding. It is right while orders are under way too.
func Audit(ctx context.Context, db *pgxpool.Pool) ([]string, error) {
	rows, err := db.Query(ctx, audit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Ends counts the orders by state.
func Ends(ctx context.Context, db *pgxpool.Pool) (map[string]int, error) {
	rows, err := db.Query(ctx, `SELECT state, count(*) FROM orders GROUP BY state`)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	var state string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error { out[state] = n; return nil })
	return out, err
}
