package enginetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// batchMutants are wrong about what has become of a batch.
var batchMutants = []Mutant{
	{Name: "tick condition without the tick", Rules: []string{"chain"}, World: func(c *Config) {
		c.setup = func(s *sim.Store) {
			s.MatchStamp = func(row, from store.Stamp) bool { return row.Fence == from.Fence }
		}
	}},
	{Name: "run before the claim is settled", Rules: []string{"claim"}, Plant: earlyAnswers(func(_ *World, c mistake.Copy) bool {
		return mistake.Has(c.Batch, mistake.Claims)
	})},
	{Name: "ack before the tick is settled", Rules: []string{"acked-lost"}, Plant: earlyAnswers(func(w *World, c mistake.Copy) bool {
		return mistake.Has(c.Batch, func(op store.Op) bool { return op.Kind == store.PutNew && !inInbox(w, c.Shard, op.Row.ID) })
	})},
	{Name: "inbox row deleted before its copy is settled", Rules: []string{"acked-lost"}, Plant: earlyAnswers(func(w *World,
		c mistake.Copy) bool {
		return mistake.Has(c.Batch, func(op store.Op) bool { return op.Kind == store.PutNew && inInbox(w, c.Shard, op.Row.ID) })
	})},
	{Name: "all enqueues of a rejected batch taken as duplicates", Rules: []string{"acked-lost"},
		Plant: commits(func(_ *World, c mistake.Copy) (store.CommitResult, error) {
			res, err := c.Send()
			if err == nil && !res.Applied && len(res.Exists) > 0 {
				for _, op := range c.Batch.Ops {
					if op.Kind == store.PutNew {
						res.Exists = append(res.Exists, op.Row.Key)
					}
				}
			}
			return res, err
		})},
	{Name: "takeover settled without its nonce", Rules: []string{"owner"}, Plant: misread(func(b store.Batch, s store.Stamp) bool {
		return b.From.Fence < b.To.Fence && s.Fence == b.To.Fence && s.Tick == b.To.Tick
	})},
	{Name: "a takeover's tick read as one's own", Rules: []string{"ok"}, Under: "cut",
		Plant: misread(func(b store.Batch, s store.Stamp) bool { return b.From.Fence == b.To.Fence && s.Tick == b.To.Tick }),
		// While clocks are right the owner gives up before it can see this.
		World: func(c *Config) { c.beyond, c.rates = true, []float64{0.4, 2, 1} }},
	{Name: "a rejection by a row read as applied", Rules: []string{"acked-lost"},
		Plant: misread(func(b store.Batch, s store.Stamp) bool { return s == b.From })},
	{Name: "batches of any size", Rules: []string{"bytes"}, Under: "storms", World: func(c *Config) { c.maxBytes, c.maxOps, c.slots = 4<<10, 60, 40 },
		Plant: options(func(o *engine.Options) { o.MaxBytes = store.MaxBytes })},
}

// rowMutants write or read rows that are wrong.
var rowMutants = []Mutant{
	{Name: "no dedupe", Rules: []string{"twice"}, Plant: noDedupe},
	{Name: "jobs-attempt-without-run", Rules: []string{"end-state"}, Under: "crash", Plant: operations(func(op *store.Op) {
		if op.Row.Kind == store.KindPending {
			op.Row.Place = 0
		}
	})},
	{Name: "jobs fire when they are read", Rules: []string{"early"}, Plant: scans(func(r *store.Row) {
		r.Due, r.Body = 0,
			undated(r.Body)
	})},
	{Name: "due times of other clocks taken as they are", Rules: []string{"liveness"}, Under: "clocks",
		Plant: scans(func(r *store.Row) { r.Wait = 1 << 40 })},
	{Name: "nobody knows how far clocks were ahead", Rules: []string{"liveness"}, Under: "clocks",
		Plant: looks(func(h *store.Header) { h.Wall = 0 })},
	{Name: "retries without their waits", Rules: []string{"liveness"}, Under: "clocks", Plant: operations(func(op *store.Op) {
		if op.Row.Wait > 0 {
			op.Row.Wait <<= 20
		}
	})},
	{Name: "takeover without waiting", Rules: []string{"exclusive"}, Plant: looks(func(h *store.Header) { h.TTL = 0 })},
	{Name: "no margin", Rules: []string{"exclusive"}, Under: "cut",
		World: func(c *Config) { c.drift, c.rates = 0.0001, []float64{0.9, 1.1} }},
	{Name: "a range deletion beyond the low mark", Rules: []string{"trim"}, Plant: operations(func(op *store.Op) {
		if op.Kind == store.DeleteUpTo {
			op.Row.At += 1 << 40
		}
	})},
	{Name: "a mark that falls", Rules: []string{"marks"},
		Plant: batches(func(_ *World, c *mistake.Copy) { c.Batch.To.LowPending = -c.Batch.To.Tick })},
	{Name: "run ids without the fence", Rules: []string{"tokens"}, Plant: operations(func(op *store.Op) {
		if op.Kind == store.Put {
			op.Row.Run &= job.MaxSeq
		}
	})},
	{Name: "rows are read once and remembered", Rules: []string{"twice", "command"}, Plant: remembered},
	{Name: "a claim forgets what was asked for", Rules: []string{"request"}, Plant: operations(func(op *store.Op) {
		if op.Row.Kind == store.KindJob && op.Row.State == string(job.Running) {
			op.Row.Body = nil
		}
	})},
	{Name: "jobs-mark-after-last-page", Rules: []string{"dead"}, Under: "sweeps", Plant: markAfterLastPage},
	{Name: "jobs-pinned-marks", Rules: []string{"dead"}, Plant: options(func(o *engine.Options) { o.TrimEvery = 1000 })},
}

// storeMutants trust what the store does not promise.
var storeMutants = []Mutant{
	{Name: "a condition that a second copy meets too", Rules: []string{"chain"}, Under: "doubled", World: func(c *Config) {
		c.setup = func(s *sim.Store) {
			s.MatchStamp = func(row, from store.Stamp) bool { return row.Fence == from.Fence }
		}
	}},
	readAt("shards are read at ONE", sim.Levels{Rows: sim.One}, "twice", "state", "liveness", "acked-lost"),
	readAt("inboxes are read at ONE", sim.Levels{Inbox: sim.One}, "command"),
}

func readAt(name string, l sim.Levels, rules ...string) Mutant {
	return Mutant{Name: name, Rules: rules, Under: "stale", Plant: func(_ *World, s store.Shards, _ *engine.Options) store.Shards {
		s.(*sim.Session).ReadAt(l)
		return s
	}}
}

var noDedupe = operations(func(op *store.Op) {
	if op.Kind == store.PutNew {
		op.Kind = store.Put
	}
})

// otherMutants are wrong beside the store.
var otherMutants = []Mutant{
	{Name: "a failed attempt that is not counted", Rules: []string{"attempts"}, Plant: ends(func(_ context.Context, err error) error {
		if err != nil && !job.IsCancel(err) {
			err = errors.Join(job.ErrInterrupted, err)
		}
		return err
	})},
	{Name: "hand-over before effects are drained", Rules: []string{"handover", "exclusive"}, Under: "stop",
		Plant: options(func(o *engine.Options) { o.Executor, o.DrainTimeout = hasty{o.Executor}, time.Millisecond })},
	{Name: "an unknown forward taken as failed", Rules: []string{"fail"}, Under: "cut", Plant: forwards(func(rec engine.Receipt,
		err error) (engine.Receipt, error) {
		if err != nil {
			err = &store.Error{Op: "forward", Outcome: store.Fail, Cause: err}
		}
		return rec, err
	})},
	{Name: "a forward that is not answered taken as done", Rules: []string{"acked-lost"},
		Plant: forwards(func(rec engine.Receipt, err error) (engine.Receipt, error) {
			if store.OutcomeOf(err) == store.Unknown {
				err = nil
			}
			return rec, err
		})},
	{Name: "every result is a success", Rules: []string{"end-state"}, Plant: ends(func(context.Context, error) error { return nil })},
	{Name: "slots that are not given back", Rules: []string{"slots"},
		Plant: options(func(o *engine.Options) { o.Executor = miser{o.Executor} })},
	{Name: "effects that are not accepted", Rules: []string{"effects"}, World: func(c *Config) { c.deafSink = true }},
	{Name: "jobs-retire-before-end", Rules: []string{"retire"}, Under: "retires", Plant: retiring(func(right retire) retire {
		return func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error {
			return right(ctx, shard, job.FirstRunID(below.Fence()+1), ended)
		}
	})},
	{Name: "what was retired once is retired again, below the runs of today", Rules: []string{"retire"}, Under: "again",
		Plant: func(w *World, s store.Shards, o *engine.Options) store.Shards {
			var mu sync.Mutex
			had := map[store.ShardID][]job.ID{}
			return retiring(func(right retire) retire {
				return func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error {
					mu.Lock()
					had[shard] = append(had[shard], ended...)
					all := slices.Compact(slices.Sorted(slices.Values(had[shard])))
					mu.Unlock()
					return right(ctx, shard, below, all)
				}
			})(w, s, o)
		}},
	{Name: "jobs-swept-before-retired", Rules: []string{"retire"}, Under: "retires", Plant: retiring(func(right retire) retire {
		return func(ctx context.Context, shard store.ShardID, below job.RunID, ended []job.ID) error {
			_ = right(ctx, shard, below, ended)
			return nil
		}
	})},
}
