package enginetest

import (
	"context"
	"math/rand/v2"
	"time"

	"fencepost/core/job"
)

// raiseAt is when the queues get more shards, if they do.
func (c *Config) raiseAt() time.Duration { return c.duration / 3 }

// raise gives all queues more shards, as an operator would.
func (w *World) raise(ctx context.Context) {
	s := w.store.Connect("operator", w.cfg.seed)
	s.SetFaults(w.faults())
	for _, q := range w.queues() {
		for ctx.Err() == nil {
			rctx, stop := context.WithTimeout(ctx, w.cfg.ttl)
			_, err := s.RaiseQueue(rctx, q.Name, w.cfg.raised)
			stop()
			if err == nil {
				break
			}
			sleep(ctx, w.cfg.ttl/10)
		}
	}
	if ctx.Err() == nil {
		w.count("raised")
	}
}

// born waits until there is a job's shard, from which on it can be asked for. All clients of a job ask for it
// then, well within the time for which it is remembered.
func (w *World) born(ctx context.Context, j *simJob, r *rand.Rand) {
	wait := w.cfg.raiseAt()
	for n, _ := j.job.ID.Shard(); n >= w.cfg.shards && !w.met("raised") && ctx.Err() == nil; wait = 0 {
		sleep(ctx, wait+time.Duration(r.Int64N(int64(w.cfg.ttl))))
	}
}

func (w *World) met(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[what] > 0
}

// identify checks that a process gives a job with a key the id that it has.
func (w *World) identify(ctx context.Context, p *process, j job.Job) {
	if j.Key == "" || w.cfg.raised == 0 || w.cfg.arrives != nil {
		return
	}
	q, err := p.eng.Queue(ctx, j.Queue)
	if id := job.KeyedID(j.Queue, j.Key, q.First); err == nil && id != j.ID {
		w.violate("identity", "%s gives key %q of queue %s the id %s, and it has %s", p.name, j.Key, j.Queue, id, j.ID)
	}
}
