package jobs

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"fencepost/bench"
	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/harness/target/system/lockperjob"
)

// book follows every job of a queue from the instant at which it is asked for to its
// end. A job's id carries its number, so that nothing is looked up by name and a
// million jobs take some tens of megabytes without a pointer.
type book struct {
	queue  string
	tag    uint32 // in the ids: no two books have the same ones
	shards int
	begin  time.Time
	// shared: other processes have books of the same queue. own are then the shards that
	// this one had at the start, to which its jobs belong; else all.
	shared bool
	own    []int
	// others are the books of other processes, when all are judged together.
	others []*book

	mu      sync.Mutex
	entries []entry
	waiting map[int]chan struct{}
	// ended counts completed jobs, lost ownerships that ended without a hand-over:
	// after one a job may rightly run a second time.
	ended, lost int
	// unfinished counts jobs that were acknowledged and wait, by their rows, for an
	// owner to go on with them: nothing is wrong with that.
	unfinished int
	// strangers are ids that are nobody's.
	strangers []job.ID
	// foreign are jobs of other processes' books that this one ran or completed.
	foreign map[job.ID]*entry
}

// entry is a job. Instants are since the book's begin; 0: not yet.
type entry struct {
	asked, started, finished, ended time.Duration
	runs, failures, ends            uint8
	reply                           reply
	seen                            bool // its row was found at the end
}

// reply is what became of an enqueue.
type reply uint8

const (
	none    reply = iota // no answer: it may or may not be there
	acked                // acknowledged
	refused              // certainly not done
)

func newBook(queue string, tag uint32, shards int) *book {
	return &book{queue: queue, tag: tag, shards: shards, begin: time.Now(), waiting: map[int]chan struct{}{}, foreign: map[job.ID]*entry{}}
}

// ask opens the entry of the next job. at is when it is meant to be asked for.
func (b *book) ask(at time.Time) (n int, j job.Job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = len(b.entries)
	b.entries = append(b.entries, entry{asked: at.Sub(b.begin)})
	return n, job.Job{ID: b.id(n), Queue: b.queue, Kind: Kind}
}

// await returns what is closed when the job is completed. It is called before the job
// is submitted.
func (b *book) await(n int) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch := make(chan struct{})
	b.waiting[n] = ch
	return ch
}

// replied notes what the enqueue of a job was answered.
func (b *book) replied(n int, r reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries[n].reply = r
}

// start, finish and end are reported by the scheduler: the handler was called, it
// returned, the job is completed for good.
func (b *book) start(id job.ID) {
	b.update(id, func(_ int, e *entry, now time.Duration) {
		e.started = now
		e.runs++
	})
}

func (b *book) finish(id job.ID, err error) {
	b.update(id, func(_ int, e *entry, now time.Duration) {
		e.finished = now
		if err != nil {
			e.failures++
		}
	})
}

func (b *book) end(id job.ID) {
	b.update(id, func(n int, e *entry, now time.Duration) {
		e.ended = now
		e.ends++
		b.ended++
		if ch := b.waiting[n]; ch != nil {
			delete(b.waiting, n)
			close(ch)
		}
	})
}

func (b *book) update(id job.ID, f func(n int, e *entry, now time.Duration)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Never 0, which is "not yet".
	now := max(time.Since(b.begin), 1)
	n, ok := b.number(id)
	switch {
	case ok:
		f(n, &b.entries[n], now)
	case b.shared:
		if b.foreign[id] == nil {
			b.foreign[id] = &entry{}
		}
		f(-1, b.foreign[id], now)
	default:
		b.strangers = append(b.strangers, id)
	}
}

// lose notes that a shard was lost.
func (b *book) lose() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost++
}

// counts returns how many jobs were asked for and how many are completed.
func (b *book) counts() (asked, ended int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.entries), b.ended
}

// parts are the latencies of which a completed job's consists, as partNames names them.
func (b *book) parts(n int) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[n]
	return []time.Duration{e.started - e.asked, e.finished - e.started, e.ended - e.finished}
}

// id is the id of a job: its number, so that ids sort by when jobs were asked for, like those that a
// scheduler makes; 4 bytes that spread the jobs over the shards; the book's tag, and the number.
func (b *book) id(n int) job.ID {
	low := uint64(b.tag)<<32 | uint64(n)
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[8:], low)
	for high := mix(low); ; high = mix(high) {
		binary.BigEndian.PutUint64(raw[:8], uint64(n)<<32|high>>32)
		id := job.UniqueID(raw, b.shards)
		if shard, _ := id.Shard(); b.own == nil || slices.Contains(b.own, shard) {
			return id
		}
	}
}

// tagOf is the tag of the book to which an id belongs, 0 for none.
func tagOf(id job.ID) uint32 {
	raw := rawOf(id)
	if raw == nil {
		return 0
	}
	return binary.BigEndian.Uint32(raw[8:])
}

func rawOf(id job.ID) []byte {
	_, digits, _ := strings.Cut(string(id), "-")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != 16 {
		return nil
	}
	return raw
}

// number is the inverse of id, for ids of this book. The caller has the mutex.
func (b *book) number(id job.ID) (int, bool) {
	raw := rawOf(id)
	if raw == nil {
		return 0, false
	}
	n := int(binary.BigEndian.Uint32(raw[12:]))
	if n >= len(b.entries) || b.id(n) != id {
		return 0, false
	}
	return n, true
}

// mix is the finalizer of splitmix64: every bit of n moves every bit.
func mix(n uint64) uint64 {
	n += 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// maxFound bounds the violations of a queue that are named one by one.
const maxFound = 5

// findings collects violations.
type findings struct {
	queue string
	list  []string
	more  int
}

func (f *findings) add(format string, args ...any) {
	if len(f.list) == maxFound {
		f.more++
		return
	}
	f.list = append(f.list, f.queue+": "+fmt.Sprintf(format, args...))
}

func (f *findings) all() []string {
	if f.more == 0 {
		return f.list
	}
	return append(f.list, fmt.Sprintf("%s: %d more", f.queue, f.more))
}

// judge compares what was acknowledged with what was done, when nothing is on its way
// any more. Whether what is not done is lost, the rows tell.
func (b *book) judge(f *findings) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.strangers {
		f.add("job %s was run or completed, and nobody enqueued it", id)
	}
	for _, of := range b.all() {
		for n, e := range of.entries {
			switch {
			case e.ends > 1:
				f.add("job %s was completed %d times", of.id(n), e.ends)
			case e.reply == refused && e.runs+e.ends > 0:
				f.add("job %s was refused for certain, and yet ran", of.id(n))
			case e.ends > 0 && e.runs == 0:
				f.add("job %s was completed and never run", of.id(n))
			case e.runs > e.failures+1 && b.lost == 0:
				f.add("job %s ran %d times, of which %d failed, and no shard changed hands", of.id(n), e.runs, e.failures)
			}
		}
	}
}

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
