package enginetest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// forgets has jobs be forgotten while the run goes on, and enqueued again. The dedupe window is
// longer than anything is on its way while clocks are right.
func (c *Config) forgets() { c.again, c.dedupe, c.duration = true, onItsWay*c.ttl+2*c.ttl, 30*c.ttl }

// onItsWay is for how long an enqueue may be, in ttls: a call, the last of its copies, and the wait
// for an owner.
const onItsWay = 7

// planAgain draws which jobs are used again after they were forgotten. Nobody gives commands on
// those: the answer might be about any of their lives.
func (w *World) planAgain() {
	r := rand.New(rand.NewPCG(w.cfg.seed, 17))
	for _, j := range w.jobs {
		if w.cfg.again && len(j.job.Then) == 0 && j.poison == "" && r.IntN(3) > 0 {
			j.again, j.cancelAfter, j.redriven, j.hasteAfter = true, 0, false, 0
			j.after /= 3
		}
	}
}

// reuse enqueues a job now and then, when it is remembered and when it is not.
func (w *World) reuse(ctx context.Context, j *simJob, r *rand.Rand) {
	for sleep(ctx, j.after+w.cfg.dedupe/2); j.again && ctx.Err() == nil; {
		sleep(ctx, time.Duration(r.Int64N(int64(w.cfg.dedupe))))
		w.ask(ctx, j, r)
	}
}

// relived begins another life of a job that was forgotten, if somebody has asked for it since, or
// so shortly before that it may have been on its way; or if its schedule was removed and put again
// since, and knows nothing of the times that it has fired.
func (t *truth) relived(j *jobTruth, c sim.ShardChange, id job.ID) bool {
	asked := t.w.byID[id]
	since := j.sweptAt.Add(-onItsWay * t.w.cfg.ttl)
	wanted := asked != nil && slices.ContainsFunc(asked.enqueues, func(e simEnqueue) bool {
		return e.outcome != store.Fail && e.begun.After(since) && !e.begun.After(c.At)
	})
	if !j.swept || !wanted && !t.recreated(c, id, j.insertedAt) {
		return false
	}
	if j.state() == job.Completed {
		j.completed++
	}
	j.lives++
	j.swept, j.states, j.claims, j.attempt, j.spared, j.failure = false, nil, 0, 0, 0, nil
	t.w.counts["relived"]++
	return true
}

// recreated says whether a job that a batch inserts is an occurrence of a schedule, or follows one, and
// that schedule was removed and put again after an instant.
func (t *truth) recreated(c sim.ShardChange, id job.ID, since time.Time) bool {
	for _, op := range c.Ops {
		j, err := job.Decode(op.Row.Body)
		if op.Row.ID != string(id) || op.Row.Kind != store.KindPending || err != nil || j.Occurrence.IsZero() {
			continue
		}
		steps := t.steps[string(job.ScheduleID(c.Shard.Queue, j.Occurrence.Schedule, t.w.cfg.shards))]
		for n, s := range steps {
			if n > 0 && s.kind == engine.StepPut && !steps[n-1].has && s.at.After(since) {
				return true
			}
		}
	}
	return false
}

// judgeForgotten: who asks for a job that is forgotten has another one.
func (w *World) judgeForgotten(j *simJob, t *jobTruth) {
	for _, e := range j.enqueues {
		if t.swept && e.outcome == store.OK && e.begun.After(t.sweptAt) {
			w.violate("acked-lost", "job %s was forgotten at %s, acknowledged after that, and never was in its shard again", j.job.ID,
				t.sweptAt.Sub(w.begun))
		}
	}
}

// effects is how often each effect of a job must be in the ledger, and may be: the sink forgets
// those of a life that is over if it is told to, else it refuses them to all later ones.
func (w *World) effects(t *jobTruth) (least, most int) {
	if least, most = t.completed, t.lives+1; t.state() == job.Completed {
		least++
	}
	if !w.cfg.retires {
		least, most = min(least, 1), 1
	}
	return least, most
}

// againMutants are wrong about jobs that were forgotten.
var againMutants = []Mutant{
	{Name: "an owner that remembers ids that were forgotten", Rules: []string{"acked-lost"}, Under: "again",
		Plant: func(_ *World, s store.Shards, _ *engine.Options) store.Shards {
			var mu sync.Mutex
			known := map[store.Key]bool{}
			return mistake.Shards{Shards: s, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
				mu.Lock()
				defer mu.Unlock()
				var had []store.Key
				for _, op := range c.Batch.Ops {
					if op.Kind == store.PutNew && known[op.Row.Key] {
						had = append(had, op.Row.Key)
					}
				}
				if len(had) > 0 {
					return store.CommitResult{Stamp: &c.Batch.From, Exists: had}, nil
				}
				mu.Unlock()
				res, err := c.Send()
				mu.Lock()
				for _, op := range c.Batch.Ops {
					if op.Kind == store.PutNew && err == nil && res.Applied {
						known[op.Row.Key] = true
					}
				}
				return res, err
			}}
		}},
}
