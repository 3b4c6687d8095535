package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/job"
	"fencepost/core/worker"
	"fencepost/examples/orders/shop"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
)

// Sink accepts an effect and changes the shop's rows in one transaction.
type Sink = shop.Sink

// Tables is a sink in whose transactions the shop's tables change too.
type Tables interface {
	Sink
	// Pool is the database past the sink: for what is only read.
	Pool() *pgxpool.Pool
}

// Make makes the shop's tables, with so many items of which each has that stock.
func Make(ctx context.Context, db *pgxpool.Pool, items, stock int) error {
	if err := shop.Migrate(ctx, db); err != nil {
		return fmt.Errorf("make the shop's tables: %w", err)
	}
	for i := range items {
		if err := shop.Deliver(ctx, db, item(i), int64(stock)); err != nil {
			return fmt.Errorf("fill the shop's stock: %w", err)
		}
	}
	return nil
}

// item is the name of the n-th item, from 0.
func item(n int) string { return fmt.Sprintf("item-%d", n+1) }

// Bounds of what an order is of.
const (
	maxQuantity = 3
	maxCents    = 10_000 // of one
)

// Draw draws an order of one of so many items, as a sequence of jobs for a queue of shards.
func Draw(rng *rand.Rand, items int, id, queue string, shards int) job.Job {
	o := shop.Order{ID: id, Item: item(rng.IntN(items)), Quantity: 1 + rng.Int64N(maxQuantity)}
	o.Cents = o.Quantity * (1 + rng.Int64N(maxCents))
	out, _ := o.Job(queue, shards) // none that it refuses
	return out
}

// Handlers are the shop's own, by kind of job. hold is for how long items are kept for an
// order that is not paid.
func Handlers(tables Tables, sink Sink, hold time.Duration) map[string]worker.Handler {
	return (&shop.Shop{DB: tables.Pool(), Sink: sink, Hold: hold}).Handlers()
}

// Spec says of a job what its order demands of it: the keys of its effect, or of another that
// it may have instead. Nil if it is of none.
func Spec(j job.Job) (o *history.Order, steps, may []string) {
	if !slices.Contains([]string{shop.KindReserve, shop.KindPay, shop.KindFulfil}, j.Kind) {
		return nil, nil, nil
	}
	var of shop.Order
	if json.Unmarshal(j.Payload, &of) != nil {
		return nil, nil, nil
	}
	keys := of.Effects(j.Kind)
	return &history.Order{ID: of.ID, Item: of.Item, Quantity: of.Quantity, Cents: of.Cents}, keys[:1], keys[1:]
}

// Sent is the point at which a run stands before it sends the effect with that key, beside
// those of all effects; "" for none.
func Sent(j job.Job, key string) control.Point {
	if _, steps, _ := Spec(j); j.Kind == shop.KindPay && key == steps[0] {
		return control.PaymentSent
	}
	return ""
}

// Done is the point at which a run of a kind of job stands when its effect is done, beside
// those of all runs; "" for none.
func Done(kind string) control.Point {
	if kind == shop.KindPay {
		return control.OrderPaid
	}
	return ""
}

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
