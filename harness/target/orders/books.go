package orders

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/harness/record/history"
)

// books are the shop's tables as rows of the history, table by table.
var books = []struct{ table, query string }{
	{history.BookStock, `SELECT '', item, quantity, version, 0::bigint, 0::bigint, 0::bigint, '' FROM stock ORDER BY item`},
	{history.BookMove, `SELECT order_id, item, quantity, version, delta, 0::bigint, 0::bigint, '' FROM stock_moves ORDER BY id`},
	{history.BookOrder, `SELECT id, item, quantity, 0::bigint, 0::bigint, cents, 0::bigint, state FROM orders ORDER BY id`},
	{history.BookPayment, `SELECT order_id, '', 0::bigint, 0::bigint, 0::bigint, cents, token, '' FROM payments ORDER BY id`},
	{history.BookShipment, `SELECT order_id, '', 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, '' FROM shipments ORDER BY id`},
}

// Read notes every row of the shop's tables, as of one instant, and then that these
// were all.
func Read(ctx context.Context, pool *pgxpool.Pool, note func(history.Book)) error {
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, pool, snapshot, func(tx pgx.Tx) error {
		for _, b := range books {
			rows, err := tx.Query(ctx, b.query)
			if err != nil {
				return err
			}
			e := history.Book{Table: b.table}
			fields := []any{&e.Order, &e.Item, &e.Quantity, &e.Version, &e.Delta, &e.Cents, &e.Token, &e.State}
			if _, err := pgx.ForEachRow(rows, fields, func() error { note(e); return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		note(history.Book{Table: history.BookEnd})
	}
	return err
}
