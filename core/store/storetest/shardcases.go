package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"fencepost/core/store"
)

func queueOnce(r *shardRig) {
	want := store.Queue{Name: r.id.Queue, First: 2, Shards: 2}
	for _, ask := range []int{2, 2, 5} {
		if q, err := r.s.EnsureQueue(r.ctx, r.id.Queue, ask); err != nil || q != want {
			r.t.Errorf("EnsureQueue(%d) = %+v, %v, want %+v", ask, q, err, want)
		}
	}
	for n := range 2 {
		r.id.Shard = n
		r.header(store.Header{})
	}
	stamp := r.apply(r.start())
	if _, err := r.s.EnsureQueue(r.ctx, r.id.Queue, 2); err != nil {
		r.t.Errorf("EnsureQueue again: %v", err)
	}
	if got := r.start(); got != stamp {
		r.t.Errorf("creating the queue again changed the header from %s to %s", stamp, got)
	}
}

func queueRaised(r *shardRig) {
	if q, err := r.s.RaiseQueue(r.ctx, r.id.Queue, 3); !errors.Is(err, store.ErrNoQueue) || store.OutcomeOf(err) != store.Fail {
		r.t.Errorf("RaiseQueue of one that does not exist = %+v, %v", q, err)
	}
	if !r.create() {
		return
	}
	stamp := r.apply(r.start())
	for _, c := range []struct{ ask, shards int }{{1, 2}, {2, 2}, {3, 3}, {2, 3}, {5, 5}, {5, 5}} {
		want := store.Queue{Name: r.id.Queue, First: 2, Shards: c.shards}
		if q, err := r.s.RaiseQueue(r.ctx, r.id.Queue, c.ask); err != nil || q != want {
			r.t.Errorf("RaiseQueue(%d) = %+v, %v, want %+v", c.ask, q, err, want)
		}
		if q, err := r.s.EnsureQueue(r.ctx, r.id.Queue, 4); err != nil || q != want {
			r.t.Errorf("EnsureQueue after RaiseQueue(%d) = %+v, %v, want %+v", c.ask, q, err, want)
		}
		all, err := r.s.Queues(r.ctx)
		if err != nil || !slices.Contains(all, want) || !slices.IsSortedFunc(all, func(a, b store.Queue) int { return cmp.Compare(a.Name, b.Name) }) {
			r.t.Errorf("Queues after RaiseQueue(%d) = %+v, %v, want %+v among them, by name", c.ask, all, err, want)
		}
	}
	if got := r.start(); got != stamp {
		r.t.Errorf("raising changed a header from %s to %s", stamp, got)
	}
	for r.id.Shard = 2; r.id.Shard < 5; r.id.Shard++ {
		r.header(store.Header{})
	}
	if h, err := r.s.Look(r.ctx, r.id, true); err != nil || h != nil {
		r.t.Errorf("shard %s: %v, %v, want no header", r.id, h, err)
	}
}

func noHeader(r *shardRig) {
	for _, serial := range []bool{true, false} {
		if h, err := r.s.Look(r.ctx, r.id, serial); err != nil || h != nil {
			r.t.Errorf("Look(serial %v) = %v, %v, want nothing", serial, h, err)
		}
	}
	if res := r.commit(store.Stamp{}, after(store.Stamp{}), putRow(store.KindPending, 1, "j")); res.Applied || res.Stamp != nil {
		r.t.Errorf("a batch without a header gave %v, %v", res.Applied, res.Stamp)
	}
	r.keys(store.KindPending)
}

func wholeBatch(r *shardRig) {
	if !r.create() {
		return
	}
	pending, running := putRow(store.KindPending, 10, "a"), putRow(store.KindRunning, 11, "b")
	s := r.apply(r.start(), newRow("a"), pending, running)
	r.row(pending.Row.Key, &pending.Row)
	r.row(running.Row.Key, &running.Row)
	inserted := newRow("a").Row
	r.row(inserted.Key, &inserted)
	r.row(key(store.KindJob, 0, "b"), nil)
	next := after(s)
	next.Fence, next.Owner, next.Addr = s.Fence+1, "", ""
	if res := r.commit(s, next); !res.Applied {
		r.t.Errorf("an empty batch was rejected with %v", res.Stamp)
	}
	r.header(next)
}

func wholeStamp(r *shardRig) {
	if !r.create() {
		return
	}
	s := r.apply(r.start())
	for name, change := range map[string]func(*store.Stamp){
		"fence": func(s *store.Stamp) { s.Fence++ },
		"tick":  func(s *store.Stamp) { s.Tick-- },
		"nonce": func(s *store.Stamp) { s.Nonce = uuid.NewString() },
	} {
		from := s
		change(&from)
		r.t.Logf("named with another %s", name)
		r.rejected(r.commit(from, after(s), putRow(store.KindPending, 10, "x")), s)
	}
	r.keys(store.KindPending)
	r.apply(s)
}

func putNew(r *shardRig) {
	if !r.create() {
		return
	}
	s := r.apply(r.start(), newRow("a"))
	r.rejected(r.commit(s, after(s), newRow("b"), newRow("a"), putRow(store.KindPending, 10, "b")), s, newRow("a").Row.Key)
	r.row(newRow("b").Row.Key, nil)
	r.keys(store.KindPending)
	s = r.apply(s, newRow("b"))
	res := r.commit(s, after(s), newRow("a"), newRow("c"), newRow("b"))
	if len(res.Exists) == 2 && res.Exists[1].Less(res.Exists[0]) {
		res.Exists[0], res.Exists[1] = res.Exists[1], res.Exists[0]
	}
	r.rejected(res, s, newRow("a").Row.Key, newRow("b").Row.Key)
	// What is deleted may be inserted again by a later batch.
	s = r.apply(s, deletion(store.Delete, newRow("a").Row.Key))
	r.apply(s, newRow("a"))
}

func putAndDelete(r *shardRig) {
	if !r.create() {
		return
	}
	op := putRow(store.KindJob, 0, "a")
	s := r.apply(r.start(), op, deletion(store.Delete, key(store.KindPending, 1, "none")))
	op.Row.State, op.Row.Attempt, op.Row.Note, op.Row.Body = "running", 2, "", nil
	s = r.apply(s, op)
	r.row(op.Row.Key, &op.Row)
	s = r.apply(s, deletion(store.Delete, op.Row.Key))
	r.row(op.Row.Key, nil)
	r.apply(s, op)
	r.row(op.Row.Key, &op.Row)
}

func deleteUpTo(r *shardRig) {
	if !r.create() {
		return
	}
	s := r.start()
	for _, kind := range []store.Kind{store.KindPending, store.KindRunning} {
		for at := int64(1); at <= 4; at++ {
			s = r.apply(s, putRow(kind, at, "a"), putRow(kind, at, "b"))
		}
	}
	s = r.apply(s, deletion(store.DeleteUpTo, key(store.KindPending, 3, "")))
	r.keys(store.KindPending, key(1, 4, "a"), key(1, 4, "b"))
	r.apply(s, deletion(store.DeleteUpTo, key(store.KindRunning, 4, "")))
	r.keys(store.KindRunning)
	r.keys(store.KindPending, key(1, 4, "a"), key(1, 4, "b"))
}

func deleteWithin(r *shardRig) {
	if !r.create() {
		return
	}
	s := r.start()
	for at := int64(1); at <= 5; at++ {
		s = r.apply(s, putRow(store.KindDLQ, at, "a"), putRow(store.KindPending, at, "a"))
	}
	within := store.Op{Kind: store.DeleteWithin, Row: store.Row{Key: key(store.KindDLQ, 2, "")}, Below: 5}
	r.apply(s, within, putRow(store.KindDLQ, 6, "a"), deletion(store.Delete, key(store.KindDLQ, 3, "a")))
	r.keys(store.KindDLQ, key(5, 1, "a"), key(5, 2, "a"), key(5, 5, "a"), key(5, 6, "a"))
	r.keys(store.KindPending, key(1, 1, "a"), key(1, 2, "a"), key(1, 3, "a"), key(1, 4, "a"), key(1, 5, "a"))
}

func deleteBetween(r *shardRig) {
	if !r.create() {
		return
	}
	s := r.start()
	for at := int64(0); at <= 1; at++ {
		for _, id := range []string{"a", "b", "c", "d"} {
			s = r.apply(s, putRow(store.KindSchedule, at, id))
		}
	}
	between := func(at int64, after, before string) store.Op {
		return store.Op{Kind: store.DeleteBetween, Row: store.Row{Key: key(store.KindSchedule, at, after)}, Before: before}
	}
	s = r.apply(s, between(0, "a", "d"))
	r.keys(store.KindSchedule, key(6, 0, "a"), key(6, 0, "d"), key(6, 1, "a"), key(6, 1, "b"), key(6, 1, "c"), key(6, 1, "d"))
	s = r.apply(s, between(1, "", "c"), putRow(store.KindSchedule, 0, "b"))
	r.keys(store.KindSchedule, key(6, 0, "a"), key(6, 0, "b"), key(6, 0, "d"), key(6, 1, "c"), key(6, 1, "d"))
	r.apply(s, between(1, "c", "\x7f"), deletion(store.Delete, key(store.KindSchedule, 1, "c")))
	r.keys(store.KindSchedule, key(6, 0, "a"), key(6, 0, "b"), key(6, 0, "d"))
}

func rowEdges(r *shardRig) {
	if !r.create() {
		return
	}
	big := make([]byte, 100_000)
	for n := range big {
		big[n] = byte(n * n)
	}
	rows := []store.Row{
		{Key: key(store.KindPending, 0, "0-ü 'quoted' \"x\""), Note: "wörds \n\t\x00", Body: []byte{0, 255}},
		{Key: key(store.KindRunning, 1<<62, "1"), Attempt: 1 << 30, Run: 1<<63 - 1, Due: -1, Wait: 1 << 61, Place: 1 << 62, Body: big},
		{Key: key(store.KindDLQ, 5, "2")},
	}
	s := r.start()
	for _, row := range rows {
		s = r.apply(s, store.Op{Kind: store.Put, Row: row})
	}
	for _, row := range rows {
		r.row(row.Key, &row)
	}
}

func scans(r *shardRig) {
	if !r.create() {
		return
	}
	r.apply(r.start(), putRow(1, 20, "b"), putRow(1, 10, "a"), putRow(1, 20, "a"), putRow(1, 30, "a"), putRow(2, 15, "z"), putRow(3, 0, "a"))
	a10, a20, b20, a30 := key(1, 10, "a"), key(1, 20, "a"), key(1, 20, "b"), key(1, 30, "a")
	r.keys(store.KindPending, a10, a20, b20, a30)
	r.scan(store.Range{Kind: 1, AfterAt: 10, AfterID: "a", UpTo: 20, Limit: 9}, a20, b20)
	r.scan(store.Range{Kind: 1, AfterAt: 10, AfterID: "\x7f", UpTo: 30, Limit: 2}, a20, b20)
	r.scan(store.Range{Kind: 1, AfterAt: 20, AfterID: "a", UpTo: 30, Limit: 2}, b20, a30)
	r.scan(store.Range{Kind: 1, AfterAt: 30, AfterID: "a", UpTo: 1 << 62, Limit: 2})
	r.scan(store.Range{Kind: 2, AfterAt: 0, UpTo: 1 << 62, Limit: 2}, key(2, 15, "z"))
	r.scan(store.Range{Kind: 4, AfterAt: 0, UpTo: 1 << 62, Limit: 2})
}

func batchCopies(r *shardRig) {
	if !r.create() {
		return
	}
	from := r.start()
	b := store.Batch{From: from, To: after(from), Ops: []store.Op{newRow("a"), putRow(1, 10, "a")}}
	applied := 0
	for n := range 5 {
		res, err := r.s.Commit(r.ctx, r.id, b, n)
		switch {
		case err != nil:
			r.t.Errorf("copy %d: %v", n, err)
		case res.Applied:
			applied++
		case res.Stamp == nil || *res.Stamp != b.To.Stamp:
			r.t.Errorf("copy %d was rejected with %v, want %s", n, res.Stamp, b.To.Stamp)
		}
	}
	if applied != 1 {
		r.t.Errorf("5 copies of one batch were applied %d times", applied)
	}
}

func bigBatch(r *shardRig) {
	if !r.create() {
		return
	}
	var ops []store.Op
	var want []store.Key
	for n := range 50 {
		id := fmt.Sprintf("%03d", n)
		ops = append(ops, newRow(id), putRow(1, 10, id))
		want = append(want, key(1, 10, id))
	}
	r.apply(r.start(), ops...)
	r.keys(store.KindPending, want...)
}

func tooLarge(r *shardRig) {
	if !r.create() {
		return
	}
	from := r.start()
	half := putRow(store.KindPending, 10, "a")
	half.Row.Body = make([]byte, store.MaxBytes/2)
	other := half
	other.Row.ID = "b"
	_, err := r.s.Commit(r.ctx, r.id, store.Batch{From: from, To: after(from), Ops: []store.Op{half, other}}, 0)
	if store.OutcomeOf(err) != store.Fail {
		r.t.Errorf("a batch of more than %d bytes: %v (outcome %s), want fail", store.MaxBytes, err, store.OutcomeOf(err))
	}
	_, _, err = r.s.InboxPut(r.ctx, r.id, store.InboxRow{ID: "a", Nonce: uuid.NewString(), Body: make([]byte, store.MaxBytes)}, 0)
	if store.OutcomeOf(err) != store.Fail {
		r.t.Errorf("an inbox row of more than %d bytes: %v (outcome %s), want fail", store.MaxBytes, err, store.OutcomeOf(err))
	}
	r.keys(store.KindPending)
	r.inbox("", 10)
	s := r.apply(from, half)
	r.apply(s, other)
}

func apart(r *shardRig) {
	if !r.create() {
		return
	}
	r.apply(r.start(), newRow("a"), putRow(1, 10, "a"))
	other := *r
	other.id.Shard = 1
	other.keys(store.KindPending)
	other.header(store.Header{})
	other.apply(other.start(), newRow("a"))
	other.id.Queue += "-other"
	if other.create() {
		other.keys(store.KindPending)
		other.apply(other.start(), newRow("a"))
	}
	r.keys(store.KindPending, key(1, 10, "a"))
}

func inboxOnce(r *shardRig) {
	if !r.create() {
		return
	}
	first, second := store.InboxRow{ID: "a", Nonce: uuid.NewString(), Body: []byte{1, 0, 2}}, store.InboxRow{ID: "a", Nonce: uuid.NewString()}
	put := func(row store.InboxRow, applied bool, existing string) {
		r.t.Helper()
		if a, e, err := r.s.InboxPut(r.ctx, r.id, row, 0); err != nil || a != applied || e != existing {
			r.t.Errorf("InboxPut = %v, %q, %v, want %v, %q", a, e, err, applied, existing)
		}
	}
	remove := func(nonce string, gone bool) {
		r.t.Helper()
		if g, err := r.s.InboxDelete(r.ctx, r.id, "a", nonce, 0); err != nil || g != gone {
			r.t.Errorf("InboxDelete = %v, %v, want %v", g, err, gone)
		}
	}
	put(first, true, "")
	put(first, false, first.Nonce)
	put(second, false, first.Nonce)
	r.inbox("", 10, first)
	remove(second.Nonce, false)
	r.inbox("", 10, first)
	remove(first.Nonce, true)
	remove(first.Nonce, true)
	r.inbox("", 10)
	r.inboxRow("a", nil)
	put(second, true, "")
	remove(first.Nonce, false)
	r.inbox("", 10, second)
}

func (r *shardRig) inbox(from string, limit int, want ...store.InboxRow) {
	r.t.Helper()
	got, err := r.s.InboxScan(r.ctx, r.id, from, store.AboveAll, limit)
	same := err == nil && len(got) == len(want)
	for n := range want {
		same = same && got[n].ID == want[n].ID && got[n].Nonce == want[n].Nonce && string(got[n].Body) == string(want[n].Body)
	}
	if !same {
		r.t.Errorf("InboxScan(%q, %d) = %v, %v, want %v", from, limit, got, err, want)
	}
	for _, w := range want {
		r.inboxRow(w.ID, &w)
	}
}

func (r *shardRig) inboxRow(id string, want *store.InboxRow) {
	r.t.Helper()
	got, err := r.s.InboxRow(r.ctx, r.id, id)
	if err != nil || (got == nil) != (want == nil) || got != nil && (got.ID != want.ID || got.Nonce != want.Nonce || string(got.Body) != string(want.Body)) {
		r.t.Errorf("InboxRow(%q) = %v, %v, want %v", id, got, err, want)
	}
}

func inboxScans(r *shardRig) {
	if !r.create() {
		return
	}
	var rows []store.InboxRow
	for _, id := range []string{"c", "a", "b"} {
		row := store.InboxRow{ID: id, Nonce: uuid.NewString(), Body: []byte(id)}
		if ok, _, err := r.s.InboxPut(r.ctx, r.id, row, 0); err != nil || !ok {
			r.t.Errorf("InboxPut %s: %v, %v", id, ok, err)
		}
		rows = append(rows, row)
	}
	r.inbox("", 10, rows[1], rows[2], rows[0])
	r.inbox("a", 10, rows[2], rows[0])
	r.inbox("", 2, rows[1], rows[2])
	r.inbox("c", 10)
	if got, err := r.s.InboxScan(r.ctx, r.id, "a", "b", 10); err != nil || len(got) != 1 || got[0].ID != "b" {
		r.t.Errorf("InboxScan from a to b = %v, %v", got, err)
	}
	other := *r
	other.id.Shard = 1
	other.inbox("", 10)
	other.inboxRow("a", nil)
	r.inboxRow("aa", nil)
}

func shardNotSent(r *shardRig) {
	if !r.create() {
		return
	}
	over, cancel := context.WithCancel(r.ctx)
	cancel()
	from := r.start()
	if _, err := r.s.Commit(over, r.id, store.Batch{From: from, To: after(from)}, 0); store.OutcomeOf(err) != store.Fail {
		r.t.Errorf("Commit with a context that is over: %v (outcome %s), want fail", err, store.OutcomeOf(err))
	}
	if _, _, err := r.s.InboxPut(over, r.id, store.InboxRow{ID: "a", Nonce: uuid.NewString()}, 0); store.OutcomeOf(err) != store.Fail {
		r.t.Errorf("InboxPut with a context that is over: %v, want fail", err)
	}
	if _, err := r.s.Scan(over, r.id, store.Range{Kind: 1, UpTo: 1, Limit: 1}); err == nil {
		r.t.Errorf("Scan with a context that is over succeeded")
	}
	if got := r.start(); got != from {
		r.t.Errorf("the header went from %s to %s", from, got)
	}
	r.inbox("", 10)
}
