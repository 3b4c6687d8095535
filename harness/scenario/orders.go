package scenario

import (
	"context"
	"fmt"

	"fencepost/examples/orders/shop"
	"fencepost/harness/fleet"
	"fencepost/harness/record/history"
	"fencepost/harness/workload"
)

// orders are jobs of the core that are a shop's orders.
type orders struct{ jobsByShard }

// prepare makes the shop's tables too, and fills its stock.
func (r orders) prepare(ctx context.Context, cfg *fleet.Config) error {
	if err := r.jobsByShard.prepare(ctx, cfg); err != nil {
		return err
	}
	o := r.plan.Spec.Workload.Jobs.Orders
	cfg.Worker.Jobs.Orders = &workload.Orders{Items: o.Items, Hold: o.Hold.D()}
	tables, ok := r.sink.client.(workload.Tables)
	if !ok {
		return fmt.Errorf("the sink %s has no transactions in which the shop's tables could change", r.sink.kind.Name)
	}
	if err := shop.Migrate(ctx, tables.Pool()); err != nil {
		return fmt.Errorf("make the shop's tables: %w", err)
	}
	for i := range o.Items {
		if err := shop.Deliver(ctx, tables.Pool(), workload.Item(i), int64(o.Stock)); err != nil {
			return fmt.Errorf("fill the shop's stock: %w", err)
		}
	}
	return nil
}

// seal writes every row of the shop's tables, as of one instant, into the history too.
func (r orders) seal(ctx context.Context) error {
	err := r.jobsByShard.seal(ctx)
	r.progress.at("reading the shop's tables")
	unread := workload.ReadBooks(ctx, r.sink.client.(workload.Tables).Pool(), func(b history.Book) { // prepare has looked
		r.note(history.Event{Op: history.NoteBook, Details: &history.Details{Book: &b}})
	})
	if unread != nil {
		r.troubles.add("the shop's tables", fmt.Errorf("read the shop's tables: %w", unread))
	}
	return err
}
