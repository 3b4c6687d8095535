package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"fencepost/core/store"
)

// ShardCase is one rule of the suite of store.Shards.
type ShardCase struct {
	Name string
	Run  func(s *shardRig)
}

// ShardCases returns the suite. Each case uses a queue of its own.
func ShardCases() []ShardCase {
	return []ShardCase{
		{"a queue keeps its number of shards, and has a header for each", queueOnce},
		{"a queue gets more shards, never fewer, and its first number stays known", queueRaised},
		{"a shard that was never created has no header", noHeader},
		{"a batch sets the whole header and all rows", wholeBatch},
		{"a batch applies on the whole stamp only", wholeStamp},
		{"a row that must not exist rejects the whole batch, and is named", putNew},
		{"put overwrites, delete removes, and both may hit nothing", putAndDelete},
		{"a range deletion takes its kind up to its end", deleteUpTo},
		{"a range deletion takes the ids of one place between two, and leaves these", deleteBetween},
		{"a range deletion takes what lies within two places, and leaves these", deleteWithin},
		{"fields keep their values at the edges", rowEdges},
		{"scans are in order, bounded and of one kind", scans},
		{"copies of one batch apply once, by whatever node", batchCopies},
		{"of many batches at once one applies", oneBatch},
		{"a batch of a hundred operations applies", bigBatch},
		{"what is too large is refused with certainty", tooLarge},
		{"shards and queues are apart", apart},
		{"an inbox takes a job once, and gives it back by its nonce only", inboxOnce},
		{"an inbox is read in order", inboxScans},
		{"a context that is over means not sent, for shards", shardNotSent},
	}
}

// RunShards runs every case on s, with queues whose names begin with prefix.
func RunShards(t T, s store.Shards, prefix string, run func(name string, f func(t T))) {
	t.Helper()
	for i, c := range ShardCases() {
		run(c.Name, func(t T) {
			ctx, cancel := context.WithTimeout(context.Background(), Timeout)
			defer cancel()
			c.Run(&shardRig{ctx: ctx, t: t, s: s, id: store.ShardID{Queue: fmt.Sprintf("%s-%d", prefix, i)}})
		})
	}
}

// shardRig is a case at work on one shard.
type shardRig struct {
	ctx context.Context
	t   T
	s   store.Shards
	id  store.ShardID
}

func (r *shardRig) create() bool {
	if _, err := r.s.EnsureQueue(r.ctx, r.id.Queue, 2); err != nil {
		r.t.Errorf("EnsureQueue: %v", err)
		return false
	}
	return true
}

// after is a header one tick later.
func after(h store.Stamp) store.Header {
	return store.Header{Stamp: store.Stamp{Fence: h.Fence, Tick: h.Tick + 1, Nonce: uuid.NewString()}, Owner: "w1", Addr: "host:1", TTL: 6 * time.Second, Read: 7, LowPending: 1, LowRunning: 2, LowEnded: 3, Wall: 4,
		Pause: store.Pause{On: h.Tick%2 == 0, Since: 5, Lasted: 6}}
}

func (r *shardRig) commit(from store.Stamp, to store.Header, ops ...store.Op) store.CommitResult {
	r.t.Helper()
	res, err := r.s.Commit(r.ctx, r.id, store.Batch{From: from, To: to, Ops: ops}, 0)
	if err != nil {
		r.t.Errorf("Commit from %s to %s: %v", from, to.Stamp, err)
	}
	return res
}

// apply commits a batch that must be applied, and returns the new stamp.
func (r *shardRig) apply(from store.Stamp, ops ...store.Op) store.Stamp {
	r.t.Helper()
	to := after(from)
	if res := r.commit(from, to, ops...); !res.Applied {
		r.t.Errorf("Commit from %s: rejected, the stamp is %v, existing %v", from, res.Stamp, res.Exists)
		return from
	}
	r.header(to)
	return to.Stamp
}

func (r *shardRig) header(want store.Header) {
	r.t.Helper()
	for _, serial := range []bool{true, false} {
		h, err := r.s.Look(r.ctx, r.id, serial)
		if err != nil || h == nil || *h != want {
			r.t.Errorf("Look(serial %v) = %+v, %v, want %+v", serial, h, err, want)
		}
	}
}

func (r *shardRig) start() store.Stamp {
	r.t.Helper()
	h, err := r.s.Look(r.ctx, r.id, true)
	if err != nil || h == nil {
		r.t.Errorf("Look: %v, %v", h, err)
		return store.Stamp{}
	}
	return h.Stamp
}

func key(kind store.Kind, at int64, id string) store.Key {
	return store.Key{Kind: kind, At: at, ID: id}
}

func putRow(kind store.Kind, at int64, id string) store.Op {
	return store.Op{Kind: store.Put, Row: store.Row{Key: key(kind, at, id), State: "pending", Attempt: 1, Run: 2, Due: 3, Wait: 5, Place: 4, Note: "note", Body: []byte("body")}}
}

func newRow(id string) store.Op {
	return store.Op{Kind: store.PutNew, Row: store.Row{Key: key(store.KindJob, 0, id), State: "pending"}}
}

func deletion(kind store.OpKind, k store.Key) store.Op {
	return store.Op{Kind: kind, Row: store.Row{Key: k}}
}

func sameRow(a, b store.Row) bool {
	if !bytes.Equal(a.Body, b.Body) {
		return false
	}
	return a.Key == b.Key && a.State == b.State && a.Attempt == b.Attempt && a.Run == b.Run && a.Due == b.Due && a.Wait == b.Wait && a.Place == b.Place && a.Note == b.Note
}

func (r *shardRig) row(k store.Key, want *store.Row) {
	r.t.Helper()
	got, err := r.s.Row(r.ctx, r.id, k)
	if err != nil || (got == nil) != (want == nil) || got != nil && !sameRow(*got, *want) {
		r.t.Errorf("Row(%s) = %+v, %v, want %+v", k, got, err, want)
	}
}

// keys scans a kind from its beginning.
func (r *shardRig) keys(kind store.Kind, want ...store.Key) {
	r.t.Helper()
	r.scan(store.Range{Kind: kind, AfterAt: -1, UpTo: 1 << 62, Limit: 1000}, want...)
}

func (r *shardRig) scan(rg store.Range, want ...store.Key) {
	r.t.Helper()
	rows, err := r.s.Scan(r.ctx, r.id, rg)
	var got []store.Key
	for _, row := range rows {
		got = append(got, row.Key)
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("Scan(%+v) = %v, %v, want %v", rg, got, err, want)
	}
	if n, err := r.s.Count(r.ctx, r.id, rg); err != nil || n != len(want) {
		r.t.Errorf("Count(%+v) = %d, %v, want %d", rg, n, err, len(want))
	}
}

func (r *shardRig) rejected(res store.CommitResult, stamp store.Stamp, exists ...store.Key) {
	r.t.Helper()
	if res.Applied || res.Stamp == nil || *res.Stamp != stamp || fmt.Sprint(res.Exists) != fmt.Sprint(exists) {
		r.t.Errorf("the batch gave %v, stamp %v, existing %v; want a rejection with %s, existing %v", res.Applied, res.Stamp, res.Exists, stamp, exists)
	}
}

// settled sends copies of one batch until it is answered, and reports whether it
// was applied, by its nonce if an earlier copy was lost.
func (r *shardRig) settled(b store.Batch) bool {
	r.t.Helper()
	for n := 0; ; n++ {
		ctx, cancel := context.WithTimeout(r.ctx, 5*time.Second)
		res, err := r.s.Commit(ctx, r.id, b, n)
		cancel()
		switch {
		case r.ctx.Err() != nil:
			r.t.Errorf("the batch to %s was not settled: %v", b.To.Stamp, err)
			return false
		case err == nil:
			return res.Applied || res.Stamp != nil && *res.Stamp == b.To.Stamp
		}
	}
}

const batchCrowd = 12

func oneBatch(r *shardRig) {
	if !r.create() {
		return
	}
	from := r.start()
	var wins atomic.Int64
	var wg sync.WaitGroup
	for n := range batchCrowd {
		wg.Go(func() {
			if r.settled(store.Batch{From: from, To: after(from), Ops: []store.Op{putRow(store.KindPending, 10, fmt.Sprint("j", n))}}) {
				wins.Add(1)
			}
		})
	}
	wg.Wait()
	rows, err := r.s.Scan(r.ctx, r.id, store.Range{Kind: store.KindPending, AfterAt: -1, UpTo: 1 << 62, Limit: 1000})
	if err != nil || wins.Load() != 1 || len(rows) != 1 {
		r.t.Errorf("%d of %d were applied and left %d rows (%v)", wins.Load(), batchCrowd, len(rows), err)
	}
}
