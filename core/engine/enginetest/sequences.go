package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
)

// followers gives some jobs a sequence of up to three others, which fail, are cancelled and
// redriven as they are, and returns those.
func (w *World) followers() (all []*simJob) {
	r, ttl := rand.New(rand.NewPCG(w.cfg.seed, 16)), int64(w.cfg.ttl)
	policy := func() job.OnFailure { return []job.OnFailure{job.Stop, job.GoOn}[r.IntN(2)] }
	for n, first := range w.jobs {
		if !w.cfg.sequences || r.IntN(2) > 0 || first.poison != "" {
			continue
		}
		first.job.OnFailure = policy()
		var list []*simJob
		for k := range 1 + r.IntN(3) {
			f := &simJob{first: first, after: first.after + time.Duration(r.Int64N(3*ttl)), length: time.Duration(r.Int64N(ttl / 2)),
				failFirst: []int{0, 0, 0, 1, 100}[r.IntN(5)], cancel: r.IntN(6) == 0, keys: []string{"step0"}, stubborn: r.IntN(6) == 0}
			f.job = job.Job{Kind: "sim", Priority: r.IntN(3), MaxAttempts: 2 + r.IntN(2), MaxDuration: 4 * w.cfg.ttl, Retry: w.cfg.retry,
				OnFailure: policy(), Payload: fmt.Appendf(nil, "%d after %d", k+1, n)}
			if r.IntN(3) == 0 {
				f.job.Rescue = job.AtMostOnce
			}
			w.planCommands(f, r)
			first.job.Then = append(first.job.Then, f.job)
			list = append(list, f)
		}
		for before := first.job; len(list) > 0; list = list[1:] {
			before, _ = before.Next(job.Completed, w.cfg.shards)
			list[0].job = before
			w.byID[before.ID] = list[0]
			all = append(all, list[0])
		}
	}
	return all
}

// asked is the job that clients enqueue so that this one runs.
func (j *simJob) asked() *simJob {
	if j.first != nil {
		return j.first
	}
	return j
}

// follows: by what was asked for, another job follows one that ends so. One that goes on after
// it has failed is followed once, and not again when it is redriven.
func (t *truth) follows(j job.Job, s job.State) (follows, has bool) {
	has = len(j.Then) > 0
	if asked := t.w.byID[j.ID]; asked != nil {
		has, j.OnFailure = len(asked.job.Then) > 0 && !t.followed[j.ID], asked.job.OnFailure
	}
	follows = has && (s == job.Completed || s != job.Cancelled && j.OnFailure == job.GoOn)
	t.followed[j.ID] = t.followed[j.ID] || follows
	return follows, has
}

// sequenceMutants are wrong about what follows jobs that fail or are cancelled.
var sequenceMutants = []Mutant{
	{Name: "a cancelled job is followed", Rules: []string{"sequence"}, Under: "sequences",
		Plant: batches(func(w *World, c *mistake.Copy) {
			var more []store.Op
			for _, op := range c.Batch.Ops {
				j := w.byID[job.ID(op.Row.ID)]
				if j == nil || op.Row.Kind != store.KindJob || op.Row.State != string(job.Cancelled) || len(j.job.Then) == 0 {
					continue
				}
				next, _ := j.job.Next(job.Completed, w.cfg.shards)
				body, _ := next.Encode() // it was made from one that was read
				id, at := string(next.ID), c.Batch.To.Read+1
				more = append(more, store.Op{Kind: store.PutNew, Row: store.Row{Key: store.Key{Kind: store.KindJob, ID: id},
					State: string(job.Pending), Due: 1, Place: at}}, store.Op{Kind: store.Put, Row: store.Row{
					Key: store.Key{Kind: store.KindPending, At: at, ID: id}, Due: 1, Body: body}})
			}
			c.Batch.Ops = append(slices.Clone(c.Batch.Ops), more...)
		})},
	{Name: "a sequence goes by its first job's policy", Rules: []string{"sequence"}, Under: "sequences",
		Plant: func(_ *World, s store.Shards, _ *engine.Options) store.Shards {
			return mistake.Shards{Shards: s, OnCommit: func(c mistake.Copy) (store.CommitResult, error) {
				c.Each(func(op *store.Op) {
					if j, err := job.Decode(op.Row.Body); err == nil && op.Row.Kind == store.KindPending {
						for n := range j.Then {
							j.Then[n].OnFailure = j.OnFailure
						}
						op.Row.Body, _ = j.Encode() // as it was before
					}
				})
				return c.Send()
			}}
		}},
}
