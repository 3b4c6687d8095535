package scenario

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"fencepost/examples/orders/shop"
	"fencepost/harness/history"
	"fencepost/harness/workload"
)

// orders is each worker's part of the shop; nil for other jobs.
func (j *Jobs) orders() *workload.Orders {
	if j.Orders == nil {
		return nil
	}
	return &workload.Orders{Items: j.Orders.Items, Hold: j.Orders.Hold.D()}
}

// openShop makes the shop's tables and fills its stock, if the run takes orders.
func (r *runner) openShop(ctx context.Context) error {
	j := r.plan.Spec.Workload.Jobs
	if j == nil || j.Orders == nil {
		return nil
	}
	tables, ok := r.sink.client.(workload.Tables)
	if !ok {
		return fmt.Errorf("the sink %s has no transactions in which the shop's tables could change", r.sink.kind.Name)
	}
	if err := shop.Migrate(ctx, tables.Pool()); err != nil {
		return fmt.Errorf("make the shop's tables: %w", err)
	}
	for i := range j.Orders.Items {
		if err := shop.Deliver(ctx, tables.Pool(), workload.Item(i), int64(j.Orders.Stock)); err != nil {
			return fmt.Errorf("fill the shop's stock: %w", err)
		}
	}
	return nil
}

// books are the shop's tables as rows of the history, table by table.
var books = []struct{ table, query string }{
	{history.BookStock, `SELECT '', item, quantity, version, 0::bigint, 0::bigint, 0::bigint, '' FROM stock ORDER BY item`},
	{history.BookMove, `SELECT order_id, item, quantity, version, delta, 0::bigint, 0::bigint, '' FROM stock_moves ORDER BY id`},
	{history.BookOrder, `SELECT id, item, quantity, 0::bigint, 0::bigint, cents, 0::bigint, state FROM orders ORDER BY id`},
	{history.BookPayment, `SELECT order_id, '', 0::bigint, 0::bigint, 0::bigint, cents, token, '' FROM payments ORDER BY id`},
	{history.BookShipment, `SELECT order_id, '', 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, '' FROM shipments ORDER BY id`},
}

// readShop writes every row of the shop's tables, as of one instant, into the history.
func (r *runner) readShop(ctx context.Context) error {
	tables, ok := r.sink.client.(workload.Tables)
	if j := r.plan.Spec.Workload.Jobs; j.Orders == nil || !ok {
		return nil
	}
	r.progress.at("reading the shop's tables")
	note := func(b history.Book) {
		r.rec.Record(history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteBook, Book: &b})
	}
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, tables.Pool(), snapshot, func(tx pgx.Tx) error {
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
	if err != nil {
		return fmt.Errorf("read the shop's tables: %w", err)
	}
	note(history.Book{Table: history.BookEnd})
	return nil
}
