package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// mutant is a scheduler with one mistake, and the rules of which one must find it.
type mutant struct {
	name  string
	rules []string
	plant func(c *simConfig)
}

type planter func(w *world, p *process, s store.Shards, o engine.Options) (store.Shards, engine.Options)

func with(f planter) func(*simConfig) { return func(c *simConfig) { c.plant = f } }

// apart plants a mistake that shows when wall clocks are far apart.
func apart(f planter) func(*simConfig) {
	return func(c *simConfig) {
		c.plant = f
		c.wrongClocks(rand.New(rand.NewPCG(c.seed, 5)))
	}
}

var mutants = []mutant{
	{"tick condition without the tick", []string{"chain"}, func(c *simConfig) {
		c.setup = func(s *sim.Store) {
			s.MatchStamp = func(row, from store.Stamp) bool { return row.Fence == from.Fence }
		}
	}},
	{"new batch after an unknown", []string{"fail", "acked-lost", "claim"}, with(newBatchAfterUnknown)},
	{"rescue of dead workers' runs only", []string{"liveness"}, with(rescueOfTheDead)},
	{"run before the claim is settled", []string{"claim"}, with(earlyAnswers(func(_ *world, _ store.ShardID, b store.Batch) bool {
		return has(b, func(op store.Op) bool { return op.Kind == store.Put && op.Row.Kind == store.KindRunning })
	}))},
	{"ack before the tick is settled", []string{"acked-lost"}, with(earlyAnswers(func(w *world, id store.ShardID, b store.Batch) bool {
		return has(b, func(op store.Op) bool { return op.Kind == store.PutNew && !inInbox(w, id, op.Row.ID) })
	}))},
	{"inbox row deleted before its copy is settled", []string{"acked-lost"}, with(earlyAnswers(func(w *world, id store.ShardID, b store.Batch) bool {
		return has(b, func(op store.Op) bool { return op.Kind == store.PutNew && inInbox(w, id, op.Row.ID) })
	}))},
	{"no dedupe", []string{"twice"}, with(noDedupe)},
	{"all enqueues of a rejected batch taken as duplicates", []string{"acked-lost"}, with(allDuplicates)},
	{"retry counter in memory", []string{"attempts"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, scaned: func(_ store.ShardID, rows []store.Row) []store.Row {
			for n := range rows {
				rows[n].Attempt = 0
			}
			return rows
		}}, o
	})},
	{"jobs-attempt-without-run", []string{"end-state"}, directed("crash", rewrite(func(_ *store.Batch, op *store.Op) {
		if op.Row.Kind == store.KindPending {
			op.Row.Place = 0
		}
	}))},
	{"a failed attempt that is not counted", []string{"attempts"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		o.Executor = results{o.Executor, func(err error) error {
			if err != nil && !job.IsCancel(err) {
				err = errors.Join(job.ErrInterrupted, err)
			}
			return err
		}}
		return s, o
	})},
	{"hand-over before effects are drained", []string{"handover", "exclusive"}, directed("stop", func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		o.Executor, o.DrainTimeout = &hasty{o.Executor}, time.Millisecond
		return s, o
	})},
	{"job rows swept too early", []string{"sweep"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, scan: func(_ store.ShardID, r store.Range) store.Range {
			if r.Kind == store.KindEnded {
				r.UpTo = o.Wall().UnixMilli()
			}
			return r
		}}, o
	})},
	{"trust counted from the answer", []string{"exclusive"}, directed("cut", func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return s, o.WithAnchor(func(_, answered time.Duration) time.Duration { return answered })
	})},
	{"takeover settled without its nonce", []string{"owner"}, with(misread(func(b store.Batch, s store.Stamp) bool {
		return b.From.Fence < b.To.Fence && s.Fence == b.To.Fence && s.Tick == b.To.Tick
	}))},
	{"a takeover's tick read as one's own", []string{"ok"}, func(c *simConfig) {
		directed("cut", misread(func(b store.Batch, s store.Stamp) bool {
			return b.From.Fence == b.To.Fence && s.Tick == b.To.Tick
		}))(c)
		// While clocks are right the owner gives up before it can see this.
		c.beyond, c.rates = true, []float64{0.4, 2, 1}
	}},
	{"a rejection by a row read as applied", []string{"acked-lost"}, with(misread(func(b store.Batch, s store.Stamp) bool { return s == b.From }))},
	{"jobs fire when they are read", []string{"early"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, scaned: func(_ store.ShardID, rows []store.Row) []store.Row {
			for n := range rows {
				rows[n].Due, rows[n].Body = 0, undated(rows[n].Body)
			}
			return rows
		}}, o
	})},
	{"due times of other clocks taken as they are", []string{"liveness"}, apart(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, scaned: func(_ store.ShardID, rows []store.Row) []store.Row {
			for n := range rows {
				rows[n].Wait = 1 << 40
			}
			return rows
		}}, o
	})},
	{"nobody knows how far clocks were ahead", []string{"liveness"}, apart(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, look: func(h *store.Header) { h.Wall = 0 }}, o
	})},
	{"retries without their waits", []string{"liveness"}, apart(rewrite(func(_ *store.Batch, op *store.Op) {
		if op.Row.Wait > 0 {
			op.Row.Wait <<= 20
		}
	}))},
	{"takeover without waiting", []string{"exclusive"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, look: func(h *store.Header) { h.TTL = 0 }}, o
	})},
	{"no margin", []string{"exclusive"}, func(c *simConfig) {
		directed("cut", nil)(c)
		c.drift, c.rates = 0.0001, []float64{0.9, 1.1}
	}},
	{"insert at the due time, whatever the read mark", []string{"behind"}, with(insertAtDue)},
	{"a range deletion beyond the low mark", []string{"trim"}, with(rewrite(func(b *store.Batch, op *store.Op) {
		if op.Kind == store.DeleteUpTo {
			op.Row.At += 1 << 40
		}
	}))},
	{"a mark that falls", []string{"marks"}, with(rewrite(func(b *store.Batch, _ *store.Op) { b.To.LowPending = -b.To.Tick }))},
	{"a claim leaves its pending row", []string{"state"}, with(rewrite(func(_ *store.Batch, op *store.Op) {
		if op.Kind == store.Delete && op.Row.Kind == store.KindPending {
			op.Row.ID = "none"
		}
	}))},
	{"run ids without the fence", []string{"tokens"}, with(rewrite(func(_ *store.Batch, op *store.Op) {
		if op.Kind == store.Put {
			op.Row.Run &= job.MaxSeq
		}
	}))},
	{"batches of any size", []string{"bytes"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		o.MaxBytes = store.MaxBytes
		return s, o
	})},
	{"an observer that is not told of sweeps", []string{"changes"}, with(liar(func(c *engine.Change) bool { return c.Kind != engine.StepSweep }))},
	{"an observer that is told of a rescue as a retry", []string{"changes"}, with(liar(func(c *engine.Change) bool {
		if c.Kind == engine.StepRescue {
			c.Kind = engine.StepRetry
		}
		return true
	}))},
	{"an observer that is told of the attempt before", []string{"changes"}, with(liar(func(c *engine.Change) bool {
		c.Attempt = max(c.Attempt-1, 0)
		return true
	}))},
	{"an observer that is told another due time", []string{"changes"}, with(liar(func(c *engine.Change) bool {
		c.Due = min(c.Due, 1)
		return true
	}))},
	{"an unknown forward taken as failed", []string{"fail"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		send := o.Forward
		o.Forward = func(ctx context.Context, addr string, j job.Job) (engine.Receipt, error) {
			rec, err := send(ctx, addr, j)
			if err != nil {
				err = &store.Error{Op: "forward", Outcome: store.Fail, Cause: err}
			}
			return rec, err
		}
		return s, o
	})},
	{"a forward that is not answered taken as done", []string{"acked-lost"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		send := o.Forward
		o.Forward = func(ctx context.Context, addr string, j job.Job) (engine.Receipt, error) {
			rec, err := send(ctx, addr, j)
			if store.OutcomeOf(err) == store.Unknown {
				return engine.Receipt{ID: j.ID}, nil
			}
			return rec, err
		}
		return s, o
	})},
	{"a cancellation is told before it is settled", []string{"command"}, with(earlyAnswers(func(_ *world, _ store.ShardID, b store.Batch) bool {
		return has(b, func(op store.Op) bool { return op.Kind == store.Put && op.Row.State == string(job.Cancelled) })
	}))},
	{"a cancellation beats success", []string{"end-state"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		o.Executor = spoiler{o.Executor}
		return s, o
	})},
	{"a cancellation is told and forgotten", []string{"command"}, with(rewrite(func(_ *store.Batch, op *store.Op) {
		if op.Row.Kind == store.KindJob && op.Row.State == string(job.Cancelled) {
			op.Row.State = string(job.Completed)
		}
	}))},
	{"a job that is brought forward is told so before it is settled", []string{"command"}, with(earlyAnswers(hastens))},
	{"a job that is brought forward keeps its own time", []string{"liveness"}, apart(keepsItsTime)},
	{"a job that is brought forward starts over", []string{"attempts", "changes"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
			return s.Commit(ctx, id, eachOf(b, hastened(b), func(op *store.Op) { op.Row.Attempt = 0 }), n)
		}}, o
	})},
	{"a job that is brought forward waits twice", []string{"state"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
			return s.Commit(ctx, id, eachOf(b, hastened(b), func(op *store.Op) {
				if op.Kind == store.Delete {
					op.Row.ID = "none"
				}
			}), n)
		}}, o
	})},
	{"an observer that is not told what is brought forward", []string{"changes"}, with(liar(func(c *engine.Change) bool { return c.Kind != engine.StepHasten }))},
	{"a redrive is told before it is settled", []string{"command"}, with(earlyAnswers(redrives))},
	{"a redriven job keeps its attempts", []string{"attempts"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
			again := redrives(nil, id, b)
			b.Ops = append([]store.Op(nil), b.Ops...)
			for n := range b.Ops {
				if again && b.Ops[n].Row.Kind == store.KindPending && b.Ops[n].Row.Attempt == 0 && b.Ops[n].Row.Run > 0 {
					b.Ops[n].Row.Attempt = 2
				}
			}
			return s.Commit(ctx, id, b, n)
		}}, o
	})},
	{"a redriven job stays in the dead letter queue", []string{"state"}, with(rewrite(func(_ *store.Batch, op *store.Op) {
		if op.Kind == store.Delete && op.Row.Kind == store.KindDLQ {
			op.Row.ID = "none"
		}
	}))},
	{"a command that does not look into the inbox", []string{"command"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, inbox: func(*store.InboxRow) *store.InboxRow { return nil }}, o
	})},
	{"rows are read once and remembered", []string{"twice", "command"}, with(remembered)},
	{"a claim forgets what was asked for", []string{"request"}, with(rewrite(func(_ *store.Batch, op *store.Op) {
		if op.Row.Kind == store.KindJob && op.Row.State == string(job.Running) {
			op.Row.Body = nil
		}
	}))},
	{"every result is a success", []string{"end-state"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		o.Executor = results{o.Executor, func(error) error { return nil }}
		return s, o
	})},
	{"slots that are not given back", []string{"slots"}, with(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		o.Executor = miser{o.Executor}
		return s, o
	})},
	{"effects that are not accepted", []string{"effects"}, func(c *simConfig) { c.deafSink = true }},
}
