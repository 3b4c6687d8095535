package enginetest

import (
	"bytes"
	"slices"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// truth is what the store's own history says, replayed batch by batch.
type truth struct {
	w      *World
	shards map[store.ShardID]*shardTruth
	jobs   map[job.ID]*jobTruth
	claims map[job.RunID]map[store.ShardID]time.Time
	nonces map[string]int // batches applied by the nonce that they set
	told   map[string]*recordedOp
	bodies map[string][]byte // of jobs, as last written
	steps  map[string][]appliedStep
	// followed are the jobs after which another one was to come.
	followed map[job.ID]bool
}

type shardTruth struct {
	pauses []appliedPause
	head   store.Header
	own    map[job.ID]ownJob
	rows   map[store.Key]store.Row
}

// jobTruth is one job's life.
type jobTruth struct {
	inserted int
	states   []job.State
	claims   int // committed
	spared   int // of them, that do not count as attempts
	attempt  int // as the row says
	run      int64
	ended    time.Time
	swept    bool
	sweptAt  time.Time
	// lives are those before this one, completed how many of them were.
	lives, completed int

	insertedAt time.Time
	redriven   int
	hastened   []time.Time

	failure  *failure // after which it waits
	request  []byte   // for which it was inserted
	requests map[job.RunID][]byte
	attempts map[job.RunID]int
}

func (j *jobTruth) state() job.State {
	if j == nil || len(j.states) == 0 {
		return ""
	}
	return j.states[len(j.states)-1]
}

func (w *World) replay() *truth {
	t := &truth{w: w, shards: map[store.ShardID]*shardTruth{}, jobs: map[job.ID]*jobTruth{},
		claims: map[job.RunID]map[store.ShardID]time.Time{}, nonces: map[string]int{}, told: map[string]*recordedOp{},
		bodies: map[string][]byte{}, steps: map[string][]appliedStep{}, followed: map[job.ID]bool{}}
	for _, r := range w.ops {
		t.told[r.op.To.Nonce] = r
	}
	for _, c := range w.store.ShardChanges() {
		s := t.shards[c.Shard]
		if s == nil {
			s = &shardTruth{rows: map[store.Key]store.Row{}}
			t.shards[c.Shard] = s
		}
		t.nonces[c.To.Nonce]++
		t.header(s, c)
		t.changes(s, c)
		t.priorities(s, c)
		t.pause(s, c)
		t.recurrences(s, c)
		t.apply(s, c)
		t.consistent(s, c)
		s.head = c.To
	}
	return t
}

// header checks the chain of headers.
func (t *truth) header(s *shardTruth, c sim.ShardChange) {
	v := t.w.violate
	if s.head.Stamp != c.From {
		v("chain", "%s: %s was applied on %s", c.Shard, c.To.Stamp, s.head.Stamp)
	}
	takeover := c.To.Fence == s.head.Fence+1
	if c.To.Tick != s.head.Tick+1 || c.To.Fence != s.head.Fence && !takeover {
		v("chain", "%s: %s after %s", c.Shard, c.To.Stamp, s.head.Stamp)
	}
	if c.To.Read < s.head.Read || c.To.LowPending < s.head.LowPending || c.To.LowRunning < s.head.LowRunning ||
		c.To.LowEnded < s.head.LowEnded {
		v("marks", "%s: a mark fell: %+v after %+v", c.Shard, c.To, s.head)
	}
	if c.To.Owner != "" {
		return
	}
	for k := range s.rows {
		// Runs of earlier owners may be left for the next one to rescue: their
		// trust ended before this one could take the shard over.
		if k.Kind == store.KindRunning && job.RunID(k.At).Fence() == c.To.Fence {
			v("handover", "%s: handed over while run %d was at work", c.Shard, k.At)
		}
	}
	for _, j := range t.w.jobs {
		for _, r := range j.runs {
			if r.run.Fence() == c.To.Fence && t.w.shardOf(j.job.ID) == c.Shard && r.begun.Before(c.At) && (r.returned.IsZero() ||
				r.returned.After(c.At)) {
				v("handover", "%s: handed over before the handler of run %s returned", c.Shard, r.run)
			}
		}
	}
}

func (t *truth) apply(s *shardTruth, c sim.ShardChange) {
	for _, op := range c.Ops {
		switch op.Kind {
		case store.Put, store.PutNew:
			for _, row := range op.Row.Each() {
				t.put(s, c, row)
				s.rows[row.Key] = row
			}
		case store.Delete:
			if op.Row.Key.Kind == store.KindJob {
				t.sweep(s, c, op.Row.Key)
			}
			for _, row := range s.rows[op.Row.Key].Each() {
				delete(s.rows, row.Key)
			}
		case store.DeleteUpTo, store.DeleteBetween, store.DeleteWithin:
			t.w.counts[map[store.OpKind]string{store.DeleteUpTo: "trimmed", store.DeleteBetween: "leveled",
				store.DeleteWithin: "emptied"}[op.Kind]]++
			for k := range s.rows {
				if op.Takes(k) {
					t.w.violate("trim", "%s: the range deletion up to %d, or after %s, removed %s", c.Shard, op.Row.At, op.Row.Key, k)
					delete(s.rows, k)
				}
			}
		}
	}
}

func (t *truth) of(id string) *jobTruth {
	j := t.jobs[job.ID(id)]
	if j == nil {
		j = &jobTruth{attempts: map[job.RunID]int{}, requests: map[job.RunID][]byte{}}
		t.jobs[job.ID(id)] = j
	}
	return j
}

func (t *truth) put(s *shardTruth, c sim.ShardChange, row store.Row) {
	v, j := t.w.violate, t.of(row.ID)
	low := map[store.Kind]int64{store.KindPending: max(s.head.LowPending, s.head.Read), store.KindRunning: s.head.LowRunning,
		store.KindEnded: s.head.LowEnded}
	if mark, ok := low[row.Kind]; ok && row.At <= mark {
		v("behind", "%s: %s is inserted at or behind the mark %d", c.Shard, row.Key, mark)
	}
	if asked := t.w.byID[job.ID(row.ID)]; asked != nil && c.Shard != t.w.shardOf(asked.job.ID) {
		v("place", "%s: %s is in %s", row.ID, row.Key, c.Shard)
	}
	switch row.Kind {
	case store.KindPending:
		t.waits(j, c, row)
	case store.KindRunning:
		id := job.RunID(row.Run)
		if was, runs := s.runs(row); runs && !inserts(c, row.ID) {
			if row.At <= was.Place || job.RunID(row.At).Fence() != c.To.Fence {
				v("tokens", "job %s: the row of run %s is moved from %d to %d", row.ID, id, was.Place, row.At)
			}
			return
		}
		j.claims++
		if t.claims[id] == nil {
			t.claims[id] = map[store.ShardID]time.Time{}
		}
		t.claims[id][c.Shard] = c.At
		if row.Run <= j.run || id.Fence() != c.To.Fence || row.At != row.Run {
			v("tokens", "job %s: run %s under fence %d after run %d", row.ID, id, c.To.Fence, j.run)
		}
		j.run = row.Run
		if row.Attempt != j.claims {
			v("attempts", "job %s: claim %d is called attempt %d", row.ID, j.claims, row.Attempt)
		}
		j.attempt = row.Attempt
		j.attempts[id], j.requests[id] = row.Attempt, j.request
		t.claimedAgain(j, c, row)
	case store.KindJob:
		if asked := t.w.byID[job.ID(row.ID)]; asked != nil && !asked.askedFor(row.Body, j.request) {
			v("request", "job %s: its %s row has request %q, it was asked for by %q", row.ID, row.State, row.Body, asked.job.Request)
		}
		next := job.State(row.State)
		before, there := s.rows[row.Key]
		if there && moved(before, row) {
			t.w.counts["moved-"+row.State]++
			return
		}
		switch {
		case !there:
			j.inserted++
			j.request = row.Body
			if j.insertedAt.IsZero() {
				j.insertedAt = c.At
			}
			if j.inserted > 1 && !t.relived(j, c, job.ID(row.ID)) {
				v("twice", "job %s is inserted again, as %s; it was %v", row.ID, next, j.states)
			}
		case j.state() == job.Pending && next == job.Pending:
			j.hastened, j.failure = append(j.hastened, c.At), nil
			t.w.counts[map[bool]string{true: "hastened-retry", false: "hastened-dated"}[row.Attempt > 0]]++
			return
		case !j.state().Next(next):
			v("twice", "job %s goes from %s to %s", row.ID, j.state(), next)
		}
		if j.state() == job.DLQ && next == job.Pending {
			j.redriven++
			j.claims, j.attempt, j.spared = 0, 0, 0
		}
		if j.state() == job.Running && next == job.Pending {
			spared := t.w.spares(job.ID(row.ID), job.RunID(row.Run), c.To.Fence)
			if spared {
				j.spared++
				t.w.counts["spared"]++
			}
			t.failed(j, job.ID(row.ID), job.RunID(row.Run), spared)
		}
		j.states = append(j.states, next)
		if next.Ended() {
			// By the owner's clock, when it planned the tick.
			j.ended = time.UnixMilli(row.Place)
		}
	}
}

// inserts says whether a batch inserts a job.
func inserts(c sim.ShardChange, id string) bool {
	return slices.ContainsFunc(c.Ops, func(op store.Op) bool {
		return op.Kind == store.PutNew && op.Row.Kind == store.KindJob && op.Row.ID == id
	})
}

// runs says whether the run of a running row is at work already: the row is moved then,
// and nothing is claimed.
func (s *shardTruth) runs(row store.Row) (was store.Row, yes bool) {
	was = s.rows[store.Key{Kind: store.KindJob, ID: row.ID}]
	return was, was.State == string(job.Running) && was.Run == row.Run
}

// spares: the run has not failed by itself: its owner lost the shard, it was interrupted,
// or its handler was never called.
func (w *World) spares(id job.ID, run job.RunID, fence int64) bool {
	if run.Fence() < fence {
		return true
	}
	j := w.byID[id]
	if j == nil {
		return false
	}
	at := slices.IndexFunc(j.runs, func(r *simRun) bool { return r.run == run })
	return at < 0 || j.runs[at].spared
}

// moved: a job's row is written again, and says nothing new but the place of its other
// row.
func moved(before, row store.Row) bool {
	return before.Place != row.Place && before.State == row.State && before.Attempt == row.Attempt && before.Run == row.Run &&
		before.Due == row.Due && before.Note == row.Note && bytes.Equal(before.Body, row.Body)
}

func (t *truth) sweep(s *shardTruth, c sim.ShardChange, k store.Key) {
	j := t.of(k.ID)
	j.swept, j.sweptAt, j.request = true, c.At, nil
	if !j.state().Ended() || c.At.Sub(j.ended) < t.w.cfg.dedupe-t.w.spread() {
		t.w.violate("sweep", "%s: %s is swept %s after its end, as %s", c.Shard, k.ID, c.At.Sub(j.ended), j.state())
	}
}

// consistent checks the jobs that a batch touched: each has exactly the rows that
// its state asks for.
func (t *truth) consistent(s *shardTruth, c sim.ShardChange) {
	seen := map[string]bool{}
	for _, op := range c.Ops {
		id := op.Row.ID
		if id == "" || seen[id] {
			continue
		}
		seen[id] = true
		n := map[store.Kind]int{}
		for k := range s.rows {
			if k.ID == id {
				n[k.Kind]++
			}
		}
		state := job.State(s.rows[store.Key{Kind: store.KindJob, ID: id}].State)
		want := map[job.State]map[store.Kind]int{
			"":            {},
			job.Pending:   {store.KindPending: 1},
			job.Running:   {store.KindRunning: 1},
			job.DLQ:       {store.KindDLQ: 1},
			job.Completed: {store.KindEnded: 1}, job.Cancelled: {store.KindEnded: 1}, job.Abandoned: {store.KindEnded: 1},
		}[state]
		for _, k := range []store.Kind{store.KindPending, store.KindRunning, store.KindEnded, store.KindDLQ} {
			if n[k] != want[k] {
				t.w.violate("state", "%s at %s: job %s is %q and has %d rows of kind %d", c.Shard, c.To.Stamp, id, state, n[k], k)
			}
		}
	}
}
