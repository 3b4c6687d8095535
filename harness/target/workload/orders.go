package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/target/control"
	"fencepost/harness/target/orders"
)

// Orders makes the jobs those of a shop (examples/orders), on a sink that is in the
// database of the shop's own tables.
type Orders struct {
	Items int           `json:"items"`   // that customers compete for
	Hold  time.Duration `json:"hold_ns"` // how long items are kept for an order that is not paid
}

// draw draws an order.
func (o *Orders) draw(e *enqueuer, queue, key string) job.Job {
	c := e.cfg.Jobs
	out := orders.Draw(e.rng, o.Items, key, queue, c.Shards)
	set := func(j *job.Job) { j.MaxAttempts, j.Retry = c.MaxAttempts, c.retry() }
	set(&out)
	for i := range out.Then {
		set(&out.Then[i])
	}
	return out
}

// orderHandlers are the shop's own, each run in its lane of the record.
func (w *jobs) orderHandlers() (map[string]worker.Handler, error) {
	tables, ok := w.effects.(orders.Tables)
	if !ok {
		return nil, fmt.Errorf("orders need a sink in whose transactions other tables can change too, and %q is none", w.cfg.Sink)
	}
	recorded := &tablesSink{Tables: tables, process: w.process}
	sink := orders.Sink(recorded)
	if w.hooks.Shop != nil {
		sink = w.hooks.Shop(w.cfg, recorded)
	}
	out := map[string]worker.Handler{}
	for kind, h := range orders.Handlers(tables, sink, w.cfg.Jobs.Orders.Hold) {
		out[kind] = func(ctx context.Context, t *worker.Task) error {
			ctx, l, err := w.lanes.in(ctx, t)
			if err != nil {
				return err
			}
			l.task = t
			w.gate.Reach(ctx, control.Holding, l.proc, string(t.Run.Job.ID))
			if err := h(ctx, t); err != nil {
				w.count(err)
				return err
			}
			if p := orders.Done(kind); p != "" {
				w.gate.Reach(ctx, p, l.proc, string(t.Run.Job.ID))
			}
			w.gate.Reach(ctx, control.EffectDone, l.proc, string(t.Run.Job.ID))
			return nil
		}
	}
	return out, nil
}

// tablesSink records the effects of runs that change tables too, each in the lane that its
// context carries.
type tablesSink struct {
	orders.Tables
	*process
}

// errLate: the run ended between the handler's own look at the clock and this one.
var errLate = errors.New("workload: the run's shard is not trusted any more: nothing was sent")

// ApplyTx implements orders.Sink. Like the other sinks' effects the request does not end
// with the run. The last look at the clock before it is repeated here, where it is recorded.
func (s *tablesSink) ApplyTx(ctx context.Context, resource, issuer string, token int64, e sink.Effect, apply func(context.Context, pgx.Tx) error) (sink.Answer, error) {
	l, ok := ctx.Value(laneKey{}).(*lane)
	if !ok {
		return sink.Answer{}, &store.Error{Outcome: store.Fail, Cause: errors.New("workload: an effect of no run")}
	}
	l.decided = s.rec.Now() // before Valid: never later than the check
	if !l.task.Valid() {
		return sink.Answer{}, &store.Error{Op: e.Key, Outcome: store.Fail, Cause: errLate}
	}
	r := &recordingSink{rec: s.rec, proc: l.proc}
	reach := func(at control.Point) {
		if p := orders.Sent(l.task.Run.Job, e.Key); p != "" && at == control.EffectSent {
			s.gate.Reach(context.Background(), p, l.proc, resource)
		}
		s.gate.Reach(context.Background(), at, l.proc, resource)
	}
	return r.accept(resource, issuer, token, l.decided, e, reach, func(ctx context.Context) (sink.Answer, error) {
		return s.Tables.ApplyTx(ctx, resource, issuer, token, e, apply)
	})
}
