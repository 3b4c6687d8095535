package scenario

import (
	"context"
	"fmt"

	"fencepost/examples/orders/shop"
	"fencepost/harness/record/history"
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

// readShop writes every row of the shop's tables, as of one instant, into the history.
func (r *runner) readShop(ctx context.Context) error {
	tables, ok := r.sink.client.(workload.Tables)
	if j := r.plan.Spec.Workload.Jobs; j.Orders == nil || !ok {
		return nil
	}
	r.progress.at("reading the shop's tables")
	err := workload.ReadBooks(ctx, tables.Pool(), func(b history.Book) {
		r.note(history.Event{Op: history.NoteBook, Details: &history.Details{Book: &b}})
	})
	if err != nil {
		return fmt.Errorf("read the shop's tables: %w", err)
	}
	return nil
}
