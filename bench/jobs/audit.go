package jobs

import (
	"context"
	"errors"

	"fencepost/bench"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/harness/target/system/lockperjob"
)

// Finish implements bench.Suite: every job of every queue is accounted for. What the
// scheduler did wrong is a violation; what its rival did is a reason not to compare
// with it.
func (s *Suite) Finish(ctx context.Context, r *bench.Result) error {
	violations, bare, unread := s.ceiling.Verify(ctx)
	r.Violations = append(r.Violations, violations...)
	found := map[uint32]*findings{}
	rivals := map[uint32]*book{}
	var own, others count
	for _, b := range s.books {
		f := &findings{queue: b.queue}
		found[b.tag] = f
		b.judge(f)
		does := kinds[b.kind]
		if does.rival {
			rivals[b.tag] = b.book
			others.add(b)
		} else {
			own.add(b)
			unread = errors.Join(unread, b.verifyRows(ctx, s.env.Shards, f))
		}
		if does.effects {
			unread = errors.Join(unread, b.verifyEffects(ctx, s.env.Sink, b.issuer, f))
		}
	}
	if s.rivals != nil {
		unread = errors.Join(unread, s.rivals.verify(ctx, rivals, found))
	}
	unfinished := 0
	for _, b := range s.books {
		unfinished += b.unfinished
		if kinds[b.kind].rival {
			r.Problems = append(r.Problems, found[b.tag].all()...)
		} else {
			r.Violations = append(r.Violations, found[b.tag].all()...)
		}
	}
	if unfinished > 0 {
		r.Note("%d jobs were acknowledged and not completed %s after their window; they wait in their queues", unfinished, bench.DrainTimeout)
	}
	if own.lost > 0 {
		r.Note("%d times a shard was lost while it was measured: its jobs were rescued, and some ran twice", own.lost)
	}
	if len(r.Violations) == 0 && unread == nil {
		r.Note("checked: %d jobs of %d queues, each completed once, by its row too, none of those acknowledged lost; %d effects accepted once each; %s", own.jobs, own.queues, own.effects, bare)
	}
	if s.rivals != nil && unread == nil {
		r.Note("checked in the same way: %d jobs of %d queues with a lock for each, %d effects", others.jobs, others.queues, others.effects)
	}
	return unread
}

// count is what was looked at.
type count struct{ queues, jobs, effects, lost int }

func (c *count) add(b kept) {
	c.queues++
	c.jobs += b.ended
	c.lost += b.lost
	if kinds[b.kind].effects {
		c.effects += b.ended
	}
}

// issuer is that of a job's tokens.
func (b kept) issuer(id job.ID) string {
	if kinds[b.kind].rival {
		return lockperjob.LockName(b.queue, id)
	}
	shard, _ := id.Shard()
	return engine.Issuer(store.ShardID{Queue: b.queue, Shard: shard})
}
