package run

import (
	"context"
	"fmt"

	"fencepost/harness/record/history"
	"fencepost/harness/target/fleet"
	"fencepost/harness/target/orders"
	"fencepost/harness/target/workload"
)

// byOrders are jobs of the core that are a shop's orders.
type byOrders struct{ jobsByShard }

// prepare makes the shop's tables too, and fills its stock.
func (r byOrders) prepare(ctx context.Context, cfg *fleet.Config) error {
	if err := r.jobsByShard.prepare(ctx, cfg); err != nil {
		return err
	}
	o := r.plan.Spec.Workload.Jobs.Orders
	cfg.Worker.Jobs.Orders = &workload.Orders{Items: o.Items, Hold: o.Hold.D()}
	tables, ok := r.sink.client.(orders.Tables)
	if !ok {
		return fmt.Errorf("the sink %s has no transactions in which the shop's tables could change", r.sink.kind.Name)
	}
	return orders.Make(ctx, tables.Pool(), o.Items, o.Stock)
}

// seal writes every row of the shop's tables, as of one instant, into the history too.
func (r byOrders) seal(ctx context.Context) error {
	err := r.jobsByShard.seal(ctx)
	r.progress.at("reading the shop's tables")
	unread := orders.Read(ctx, r.sink.client.(orders.Tables).Pool(), func(b history.Book) { // prepare has looked
		r.note(history.Event{Op: history.NoteBook, Details: &history.Details{Book: &b}})
	})
	if unread != nil {
		r.troubles.add("the shop's tables", fmt.Errorf("read the shop's tables: %w", unread))
	}
	return err
}
