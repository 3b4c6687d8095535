package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/examples/orders/shop"
	"fencepost/harness/control"
	"fencepost/harness/record/history"
)

// Orders makes the jobs those of a shop (examples/orders), on a sink that is in the
// database of the shop's own tables.
type Orders struct {
	Items int           `json:"items"`   // that customers compete for
	Hold  time.Duration `json:"hold_ns"` // how long items are kept for an order that is not paid
}

// Tables is a sink in whose transactions the shop's tables change too.
type Tables interface {
	shop.Sink
	// Pool is the database past the sink: for what is only read.
	Pool() *pgxpool.Pool
}

// Item is the name of the n-th item, from 0.
func Item(n int) string { return fmt.Sprintf("item-%d", n+1) }

// Bounds of what an order is of.
const (
	maxQuantity = 3
	maxCents    = 10_000 // of one
)

// draw draws an order.
func (o *Orders) draw(rng *rand.Rand, id string) shop.Order {
	out := shop.Order{ID: id, Item: Item(rng.IntN(o.Items)), Quantity: 1 + rng.Int64N(maxQuantity)}
	out.Cents = out.Quantity * (1 + rng.Int64N(maxCents))
	return out
}

// order is the sequence of jobs of an order.
func (j *Jobs) order(o shop.Order) job.Job {
	out, _ := o.Job(j.Queue, j.Shards) // draw makes none that is refused
	set := func(j1 *job.Job) { j1.MaxAttempts, j1.Retry = j.MaxAttempts, j.retry() }
	set(&out)
	for i := range out.Then {
		set(&out.Then[i])
	}
	return out
}

// orderSpec says of a job what its order demands of it; nil if it is of none.
func orderSpec(j job.Job) (o *history.Order, steps, may []string) {
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

// shopHandlers are the shop's own, each run in its lane of the record.
func (w *jobs) shopHandlers() (map[string]worker.Handler, error) {
	tables, ok := w.effects.(Tables)
	if !ok {
		return nil, fmt.Errorf("orders need a sink in whose transactions other tables can change too, and %q is none", w.cfg.Sink)
	}
	recorded := &shopSink{Tables: tables, process: w.process}
	s := &shop.Shop{DB: tables.Pool(), Sink: recorded, Hold: w.cfg.Jobs.Orders.Hold}
	if w.hooks.Shop != nil {
		s.Sink = w.hooks.Shop(w.cfg, recorded)
	}
	out := map[string]worker.Handler{}
	for kind, h := range s.Handlers() {
		out[kind] = func(ctx context.Context, t *worker.Task) error {
			l := w.lanes.of(runKey{t.Issuer(), t.Run.ID})
			if l == nil {
				return errors.New("workload: a run that was never started")
			}
			l.task = t
			w.gate.Reach(ctx, control.Holding, l.proc, string(t.Run.Job.ID))
			err := h(withLane(ctx, l), t)
			if err != nil {
				w.count(err)
				return err
			}
			if kind == shop.KindPay {
				w.gate.Reach(ctx, control.OrderPaid, l.proc, string(t.Run.Job.ID))
			}
			w.gate.Reach(ctx, control.EffectDone, l.proc, string(t.Run.Job.ID))
			return nil
		}
	}
	return out, nil
}

// shopSink records the effects of the shop's runs, each in the lane that its context
// carries.
type shopSink struct {
	Tables
	*process
}

// errLate: the run ended between the shop's own look at the clock and this one.
var errLate = errors.New("workload: the run's shard is not trusted any more: nothing was sent")

// ApplyTx implements shop.Sink. Like the other sinks' effects the request does not end
// with the run. The last look at the clock before it is repeated here, where it is recorded.
func (s *shopSink) ApplyTx(ctx context.Context, resource, issuer string, token int64, e sink.Effect, apply func(context.Context, pgx.Tx) error) (sink.Answer, error) {
	l, ok := ctx.Value(laneKey{}).(*lane)
	if !ok {
		return sink.Answer{}, &store.Error{Outcome: store.Fail, Cause: errors.New("workload: an effect of no run")}
	}
	l.decided = history.Now() // before Valid: never later than the check
	if !l.task.Valid() {
		return sink.Answer{}, &store.Error{Op: e.Key, Outcome: store.Fail, Cause: errLate}
	}
	r := &recordingSink{rec: s.rec, proc: l.proc}
	sent := func() {
		if _, steps, _ := orderSpec(l.task.Run.Job); l.task.Run.Job.Kind == shop.KindPay && e.Key == steps[0] {
			s.gate.Reach(context.Background(), control.PaymentSent, l.proc, resource)
		}
		s.gate.Reach(context.Background(), control.EffectSent, l.proc, resource)
	}
	return r.accept(resource, issuer, token, l.decided, e, sent, func(ctx context.Context) (sink.Answer, error) {
		return s.Tables.ApplyTx(ctx, resource, issuer, token, e, apply)
	})
}
