package engine

import (
	"math"
	"sync/atomic"
	"time"

	"fencepost/core/store"
)

// Depth counts a queue's jobs in the shards that this process owns.
type Depth struct {
	Queue string `json:"queue"`
	// Shards is how many these are.
	Shards  int   `json:"shards"`
	Pending Count `json:"pending"`
	Running Count `json:"running"`
	DLQ     Count `json:"dlq"`
}

// Count is a number of jobs.
type Count struct {
	Jobs int `json:"jobs"`
	// More: there may be more.
	More bool `json:"more,omitempty"`
}

// Add sums two counts up.
func (c Count) Add(d Count) Count { return Count{c.Jobs + d.Jobs, c.More || d.More} }

// MaxCounted is how many jobs of a state in one shard an owner counts in the store.
const MaxCounted = 1000

// Depths counts the jobs of each queue in the shards that this process owns and trusts.
// It reads nothing and waits for nothing: owners keep count of what they change. What a
// shard held before is counted in the store once in an ownership, after the first call;
// until then, and if there are more than MaxCounted, there may be more.
func (e *Engine) Depths() []Depth {
	out := make([]Depth, len(e.o.Queues))
	place := map[string]int{}
	for n, q := range e.o.Queues {
		out[n].Queue, place[q.Name] = q.Name, n
	}
	for _, s := range e.order {
		o := s.current()
		if o == nil || !o.valid() {
			continue
		}
		counts := o.census.known.Load()
		if counts == nil {
			continue // it has only just been taken over
		}
		d := &out[place[s.id.Queue]]
		d.Shards++
		d.Pending, d.Running, d.DLQ = d.Pending.Add(counts.pending), d.Running.Add(counts.running), d.DLQ.Add(counts.dlq)
		if (counts.pending.More || counts.dlq.More) && o.census.wanted.CompareAndSwap(false, true) {
			o.wake()
		}
	}
	return out
}

// counts is what an owner knows of its shard.
type counts struct{ pending, running, dlq Count }

// counted keeps count of the rows that a settled batch inserts and deletes. A count that
// began below the truth stays there.
func (m *machine) counted(p *plan) {
	for _, op := range p.batch.Ops {
		n := 0
		switch op.Kind {
		case store.Put, store.PutNew:
			n = 1
		case store.Delete:
			n = -1
		}
		c := &m.rows[op.Row.Kind]
		c.Jobs = max(c.Jobs+n, 0)
	}
}

func (m *machine) counts() counts {
	pending := m.rows[store.KindPending]
	return counts{pending, Count{m.running, !m.window.rescued}, m.rows[store.KindDLQ]}
}

// census counts the rows that a shard had before it was taken over.
type census struct {
	known  atomic.Pointer[counts] // for everybody
	wanted atomic.Bool            // by somebody
	// loading is how often the store is being asked; moved are the kinds of rows that
	// batches which were sent since change.
	loading int
	moved   [kinds]bool
	// next is when to ask again at the earliest, and pause for how long not to then.
	next, pause time.Duration
}

// Pauses between the counts of a shard that changes while it is counted.
const censusPause, maxCensusPause = 5 * time.Second, 5 * time.Minute

// publish shows what the owner knows.
func (o *owner) publish() {
	now := o.m.counts()
	if known := o.census.known.Load(); known == nil || *known != now {
		o.census.known.Store(&now)
	}
}

// takeCensus has the store count what there may be more of, if somebody wants to know.
// No batch is on its way: what is counted is what there is, unless one is sent meanwhile.
func (o *owner) takeCensus() {
	c := &o.census
	if c.loading > 0 || o.stopping || !c.wanted.Load() || o.now() < c.next {
		return
	}
	c.wanted.Store(false)
	c.moved = [kinds]bool{}
	c.pause = min(max(2*c.pause, censusPause), maxCensusPause)
	for _, k := range []struct {
		kind store.Kind
		low  int64
	}{{store.KindPending, o.m.head.LowPending}, {store.KindDLQ, o.m.dead.low}} {
		if o.m.rows[k.kind].More {
			o.countRows(store.Range{Kind: k.kind, AfterAt: k.low, AfterID: afterAll, UpTo: math.MaxInt64, Limit: MaxCounted})
		}
	}
}

func (o *owner) countRows(r store.Range) {
	c := &o.census
	c.loading++
	o.e.wg.Go(func() {
		ctx, stop := o.e.timeout(o.ctx, o.e.o.RequestTimeout)
		defer stop()
		n, err := o.e.store.Count(ctx, o.id, r)
		o.post(func() {
			c.loading--
			c.next = o.now() + c.pause
			if err == nil && !c.moved[r.Kind] {
				o.m.rows[r.Kind] = Count{n, n == r.Limit}
			}
		})
	})
}

// sends takes note of a batch that is sent while the store counts.
func (c *census) sends(b store.Batch) {
	for _, op := range b.Ops {
		c.moved[op.Row.Kind] = true
	}
}
