package engine

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"fencepost/core/job"
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
	queues := e.Queues()
	out := make([]Depth, len(queues))
	place := map[string]int{}
	for n, q := range queues {
		out[n].Queue, place[q.Name] = q.Name, n
	}
	for _, s := range e.all() {
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

// deadLetters is what an owner knows of the dead letter queue, none of which is in its
// memory.
type deadLetters struct {
	// low: no row is at or below it, and none is inserted at or below upTo.
	low, upTo int64
	loading   bool
	// from is where the read on its way begins: at low, or, as the first dead letter may stay
	// there for ever, at one that was taken out from behind it.
	from int64
	// below: no row lies within from and it; the range is to be deleted. 0: there is none.
	below int64
}

// deadRange returns the range in which the first dead letter is, or the first one behind
// some that were taken out, if so many were that what they have left should go. No batch
// may be on its way: it could insert one.
func (m *machine) deadRange(now moment) (store.Range, bool) {
	d, p := &m.dead, &m.piles[store.KindDLQ]
	if d.loading || d.below > 0 || len(p.dead) < max(m.cfg.trimEvery, p.look) {
		return store.Range{}, false
	}
	d.loading, d.upTo = true, max(d.upTo, now.wall)
	return store.Range{Kind: store.KindDLQ, AfterAt: d.from, AfterID: afterAll, UpTo: d.upTo, Limit: 1}, true
}

// deadRead takes the first dead letter of the range, if there is one.
func (m *machine) deadRead(rows []store.Row, failed bool) {
	d, p := &m.dead, &m.piles[store.KindDLQ]
	d.loading = false
	if failed {
		return
	}
	end := d.upTo + 1
	if len(rows) > 0 {
		end = rows[0].At
	}
	switch {
	case d.from == d.low:
		d.low = max(d.low, end-1)
	case p.below(end-1)-p.below(d.from) >= m.cfg.trimEvery:
		d.below = end
		return
	default:
		// So few may stay between two dead letters.
		p.dead = slices.DeleteFunc(p.dead, func(at int64) bool { return at > d.low && at <= end })
	}
	m.deadBehind(end)
}

// deadBehind goes on behind a dead letter, or waits for more to be taken out.
func (m *machine) deadBehind(at int64) {
	d, p := &m.dead, &m.piles[store.KindDLQ]
	slices.Sort(p.dead)
	n := p.below(at)
	if len(p.dead)-n > m.cfg.trimEvery {
		d.from, p.look = p.dead[n], 0
		return
	}
	d.from, p.look = d.low, len(p.dead)+m.cfg.trimEvery
}

// emptied: the range is deleted.
func (m *machine) emptied() {
	d, p := &m.dead, &m.piles[store.KindDLQ]
	p.dead = slices.DeleteFunc(p.dead, func(at int64) bool { return at > d.from && at < d.below })
	end := d.below
	d.below = 0
	m.deadBehind(end)
}

// LateJob is a job that was due a while ago by its owner's wall clock, or has waited for a
// while by its monotonic one. The time for which its shard was paused does not count.
type LateJob struct {
	Shard store.ShardID
	Job   job.ID
	Kind  string
	// Key is what its client calls it, or its schedule's occurrence; "" if it has none.
	Key string
	// Attempt is the number of the one that is late, from 1.
	Attempt int
	Due     time.Time
	// By is how late it is, Waiting that it has not been claimed yet: for want of slots,
	// or as nobody owned its shard.
	By      time.Duration
	Waiting bool
}

func lateJob(j job.Job, attempt int, due, by int64, waiting bool) LateJob {
	return LateJob{Job: j.ID, Kind: j.Kind, Key: j.Key, Attempt: attempt, Due: time.UnixMilli(due).UTC(), By: ms(by), Waiting: waiting}
}

// lateWaiting tells of jobs that are due and have waited for too long. They are looked
// at in the order in which they became due, the first one only as long as it is in time:
// it costs next to nothing however many wait. One that was due long before, as its shard
// had no owner, is reported when those that became due before it are late too.
func (m *machine) lateWaiting(now moment) {
	w := &m.waiting
	for w.watched && len(w.ripened) > 0 {
		e, at := w.ripened[0].e, w.ripened[0].at
		if w.waits(w.ripened[0]) {
			by := max(now.wall-e.due-held(m.head.Pause, e.due), now.mono-at) // the wall clock may have been set back
			if by <= m.cfg.lateAfter {
				return
			}
			if !e.toldLate {
				e.toldLate = true
				m.out = append(m.out, effect{kind: effLateJob, lateJob: lateJob(e.job, e.attempt+1, e.due, by, true)})
			}
		}
		w.ripened[0] = ripened{}
		w.ripened = w.ripened[1:]
	}
}

// lateStart reports a run that starts late, unless its job was reported while it waited.
func (o *owner) lateStart(i *intent, run job.Run) {
	e := i.e
	told := e.toldLate
	e.toldLate = false // another attempt may be late again
	by := o.moment().wall - run.Due - held(o.m.head.Pause, run.Due)
	if o.e.o.LateJob == nil || told || by <= millis(o.e.o.LateAfter) {
		return
	}
	l := lateJob(run.Job, run.Attempt, run.Due, by, false)
	l.Shard = o.id
	o.e.o.LateJob(l)
}
