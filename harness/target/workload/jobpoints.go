package workload

import (
	"context"

	"fencepost/core/engine"
	"fencepost/core/store"
	"fencepost/harness/target/control"
)

// changePoints are reached before a batch with such a change is sent.
var changePoints = map[engine.StepKind]control.Point{
	engine.StepEnqueue:  control.EnqueueSent,
	engine.StepClaim:    control.ClaimSent,
	engine.StepComplete: control.CompleteSent,
	engine.StepRetry:    control.RetrySent,
	engine.StepDLQ:      control.DLQSent,
	engine.StepFire:     control.FireSent,
}

// answerPoints are reached when the answer has come that a batch with such a change was applied.
var answerPoints = map[engine.StepKind]control.Point{
	engine.StepClaim:    control.ClaimAnswered,
	engine.StepComplete: control.FinishAnswered,
	engine.StepRetry:    control.FinishAnswered,
	engine.StepDLQ:      control.FinishAnswered,
}

// flies notes the one batch of a shard's owner that is on its way.
func (o *shardObserver) flies(s *shardSpan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.flights == nil {
		o.flights = map[store.ShardID]*shardSpan{}
	}
	o.flights[s.shard] = s
}

// landed: the batch is settled, or given up.
func (o *shardObserver) landed(s *shardSpan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.flights[s.shard] == s {
		delete(o.flights, s.shard)
	}
}

// answered stops a shard whose batch was applied, before its owner acts on the answer.
func (o *shardObserver) answered(shard store.ShardID) {
	o.mu.Lock()
	s := o.flights[shard]
	o.mu.Unlock()
	if s != nil {
		s.reach(s.answers...)
	}
}

// watchedShards stops those who watch another's shard before and after a look at its header.
type watchedShards struct {
	store.Shards
	o *shardObserver
}

// Look implements store.Shards.
func (w watchedShards) Look(ctx context.Context, id store.ShardID, serial bool) (*store.Header, error) {
	reach := func(p control.Point) { w.o.gate.Reach(w.o.ctx, p, w.o.proc(id), engine.Issuer(id)) }
	reach(control.LookSent)
	h, err := w.Shards.Look(ctx, id, serial)
	if err == nil && h != nil {
		reach(control.LookAnswered)
	}
	return h, err
}
