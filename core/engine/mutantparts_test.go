package engine_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// altered changes single calls of a store.
type altered struct {
	store.Shards
	commit func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error)
	scan   func(id store.ShardID, r store.Range) store.Range
	scaned func(id store.ShardID, rows []store.Row) []store.Row
	look   func(h *store.Header)
	row    func(ctx context.Context, id store.ShardID, k store.Key) (*store.Row, error)
	inbox  func(*store.InboxRow) *store.InboxRow
}

func (a altered) InboxRow(ctx context.Context, id store.ShardID, job string) (*store.InboxRow, error) {
	row, err := a.Shards.InboxRow(ctx, id, job)
	if a.inbox != nil {
		row = a.inbox(row)
	}
	return row, err
}

func (a altered) Row(ctx context.Context, id store.ShardID, k store.Key) (*store.Row, error) {
	if a.row == nil {
		return a.Shards.Row(ctx, id, k)
	}
	return a.row(ctx, id, k)
}

func (a altered) Commit(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
	if a.commit == nil {
		return a.Shards.Commit(ctx, id, b, n)
	}
	return a.commit(ctx, id, b, n)
}

func (a altered) Look(ctx context.Context, id store.ShardID, serial bool) (*store.Header, error) {
	h, err := a.Shards.Look(ctx, id, serial)
	if a.look != nil && h != nil {
		a.look(h)
	}
	return h, err
}

func (a altered) Scan(ctx context.Context, id store.ShardID, r store.Range) ([]store.Row, error) {
	if a.scan != nil {
		r = a.scan(id, r)
	}
	rows, err := a.Shards.Scan(ctx, id, r)
	if a.scaned != nil {
		rows = a.scaned(id, rows)
	}
	return rows, err
}

// directed plants a mistake that shows under one kind of fault only, and makes that
// fault frequent: many processes are struck, and many replies are lost.
func directed(kind string, f planter) func(*simConfig) {
	return func(c *simConfig) {
		c.plant, c.drift, c.rates = f, 0.01, nil
		c.faults = sim.Faults{Latency: time.Millisecond, LoseReply: 0.3}
		c.events = nil
		for n := range 9 {
			c.events = append(c.events, event{at: time.Duration(n+1) * c.duration / 10, length: 2 * c.ttl, node: n % c.nodes, kind: kind})
		}
	}
}

func has(b store.Batch, what func(store.Op) bool) bool {
	for _, op := range b.Ops {
		if what(op) {
			return true
		}
	}
	return false
}

func inInbox(w *world, id store.ShardID, job string) bool {
	for _, r := range w.store.InboxRows(id) {
		if r.ID == job {
			return true
		}
	}
	return false
}

// newBatchAfterUnknown takes an unanswered batch as not done.
func newBatchAfterUnknown(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
	var mu sync.Mutex
	given := map[string]bool{}
	return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
		mu.Lock()
		over := given[b.To.Nonce]
		mu.Unlock()
		not := &store.Error{Outcome: store.Fail, Cause: errors.New("taken as not done")}
		if over {
			return store.CommitResult{}, not
		}
		res, err := s.Commit(ctx, id, b, n)
		if err == nil || store.OutcomeOf(err) == store.Fail {
			return res, err
		}
		mu.Lock()
		given[b.To.Nonce] = true
		mu.Unlock()
		return store.CommitResult{}, not
	}}, o
}

// rescueOfTheDead leaves the runs of processes that seem alive alone.
func rescueOfTheDead(w *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
	return altered{Shards: s, scaned: func(id store.ShardID, rows []store.Row) []store.Row {
		w.mu.Lock()
		defer w.mu.Unlock()
		var dead []store.Row
		for _, r := range rows {
			owner := w.owners[reign(id, job.RunID(r.Run).Fence())]
			alive := false
			for _, p := range w.live {
				alive = alive || p.name == owner && !p.crashed
			}
			if r.Kind != store.KindRunning || !alive {
				dead = append(dead, r)
			}
		}
		return dead
	}}, o
}

// earlyAnswers answers some batches as applied while they are on their way.
func earlyAnswers(which func(*world, store.ShardID, store.Batch) bool) planter {
	return func(w *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
			if n > 0 || !which(w, id, b) {
				return s.Commit(ctx, id, b, n)
			}
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), o.TTL)
				defer cancel()
				_, _ = s.Commit(ctx, id, b, n)
			}()
			return store.CommitResult{Applied: true}, nil
		}}, o
	}
}

func noDedupe(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
	return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
		ops := append([]store.Op(nil), b.Ops...)
		for n := range ops {
			if ops[n].Kind == store.PutNew {
				ops[n].Kind = store.Put
			}
		}
		b.Ops = ops
		return s.Commit(ctx, id, b, n)
	}}, o
}

func allDuplicates(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
	return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
		res, err := s.Commit(ctx, id, b, n)
		if err == nil && !res.Applied && len(res.Exists) > 0 {
			for _, op := range b.Ops {
				if op.Kind == store.PutNew {
					res.Exists = append(res.Exists, op.Row.Key)
				}
			}
		}
		return res, err
	}}, o
}

// misread takes some rejections for the word that the batch had been applied.
func misread(which func(b store.Batch, shown store.Stamp) bool) planter {
	return func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
			res, err := s.Commit(ctx, id, b, n)
			if err == nil && !res.Applied && res.Stamp != nil && which(b, *res.Stamp) {
				res.Stamp, res.Exists = &b.To.Stamp, nil
			}
			return res, err
		}}, o
	}
}

// insertAtDue puts pending rows where they are due, though that may be behind the
// read mark.
func insertAtDue(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
	return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
		ops := append([]store.Op(nil), b.Ops...)
		for n := range ops {
			if ops[n].Kind == store.Put && ops[n].Row.Kind == store.KindPending {
				ops[n].Row.At = ops[n].Row.Due
			}
		}
		b.Ops = ops
		return s.Commit(ctx, id, b, n)
	}}, o
}

// undated takes a job's own time out of its row.
func undated(body []byte) []byte {
	j, err := job.Decode(body)
	if err != nil {
		return body
	}
	j.Due = time.Time{}
	out, err := j.Encode()
	if err != nil {
		return body
	}
	return out
}

// hasty is an executor that reports a run as interrupted before its handler returned.
type hasty struct{ engine.Executor }

func (h *hasty) Start(ctx context.Context, x engine.Execution, done func(error)) {
	var once sync.Once
	stop := context.AfterFunc(ctx, func() { once.Do(func() { done(job.ErrInterrupted) }) })
	h.Executor.Start(ctx, x, func(err error) {
		stop()
		once.Do(func() { done(err) })
	})
}

// rewrite changes every batch, once for each operation and at least once.
func rewrite(f func(b *store.Batch, op *store.Op)) planter {
	return func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
			b.Ops = append([]store.Op(nil), b.Ops...)
			f(&b, &store.Op{})
			for n := range b.Ops {
				f(&b, &b.Ops[n])
			}
			return s.Commit(ctx, id, b, n)
		}}, o
	}
}

// results is an executor that reports another result than the handler's.
type results struct {
	engine.Executor
	of func(error) error
}

func (r results) Start(ctx context.Context, x engine.Execution, done func(error)) {
	r.Executor.Start(ctx, x, func(err error) { done(r.of(err)) })
}

// miser keeps the slots that were reserved and not used.
type miser struct{ engine.Executor }

func (miser) Release(int) {}

// lied is an observer that is told something else than the batch does.
type lied struct {
	engine.Observer
	keep func(*engine.Change) bool
}

func (l lied) Begin(op engine.Op) engine.Span {
	var told []engine.Change
	for _, c := range op.Changes {
		if l.keep(&c) {
			told = append(told, c)
		}
	}
	op.Changes = told
	return l.Observer.Begin(op)
}

func liar(keep func(*engine.Change) bool) planter {
	return func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		o.Observer = lied{o.Observer, keep}
		return s, o
	}
}

// redrives reports whether a batch takes a job out of the dead letter queue.
func redrives(_ *world, _ store.ShardID, b store.Batch) bool {
	return has(b, func(op store.Op) bool { return op.Kind == store.Delete && op.Row.Kind == store.KindDLQ })
}

// remembered answers every read of a row as the first one was.
func remembered(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
	var mu sync.Mutex
	rows := map[string]*store.Row{}
	return altered{Shards: s, row: func(ctx context.Context, id store.ShardID, k store.Key) (*store.Row, error) {
		name := id.String() + " " + k.String()
		mu.Lock()
		row := rows[name]
		mu.Unlock()
		if row != nil {
			return row, nil
		}
		row, err := s.Row(ctx, id, k)
		if err == nil && row != nil {
			mu.Lock()
			rows[name] = row
			mu.Unlock()
		}
		return row, err
	}}, o
}

// spoiler takes the success of a run that was told to end for a failure.
type spoiler struct{ engine.Executor }

func (s spoiler) Start(ctx context.Context, x engine.Execution, done func(error)) {
	s.Executor.Start(ctx, x, func(err error) {
		if err == nil && errors.Is(context.Cause(ctx), job.ErrCancelled) {
			err = job.ErrCancelled
		}
		done(err)
	})
}

// hastened are the jobs that a batch brings forward, by the note that it leaves.
func hastened(b store.Batch) map[string]bool {
	ids := map[string]bool{}
	for _, op := range b.Ops {
		if op.Kind == store.Put && op.Row.Kind == store.KindJob && op.Row.State == string(job.Pending) && op.Row.Note == "brought forward" {
			ids[op.Row.ID] = true
		}
	}
	return ids
}

func hastens(_ *world, _ store.ShardID, b store.Batch) bool { return len(hastened(b)) > 0 }

// eachOf changes the operations of a batch on some jobs.
func eachOf(b store.Batch, ids map[string]bool, f func(*store.Op)) store.Batch {
	b.Ops = append([]store.Op(nil), b.Ops...)
	for n := range b.Ops {
		if ids[b.Ops[n].Row.ID] {
			f(&b.Ops[n])
		}
	}
	return b
}

// keepsItsTime leaves jobs that are brought forward the time that they had.
func keepsItsTime(w *world, p *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
	return rewrite(func(_ *store.Batch, op *store.Op) {
		if j := w.byID[job.ID(op.Row.ID)]; j != nil && op.Row.Body != nil {
			op.Row.Body, _ = j.job.Encode()
		}
	})(w, p, s, o)
}
