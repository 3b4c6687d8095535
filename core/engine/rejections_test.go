package engine

import (
	"slices"
	"testing"

	"fencepost/core/job"
	"fencepost/core/store"
)

// TestManyDuplicates: an inbox is full of rows that an earlier owner has copied, and batches are full of other
// work. They are found out by a few batches, and between these others are applied.
func TestManyDuplicates(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *machineConfig) { c.maxOps, c.maxRunning, c.maxLoaded = 100, 1000, 1000 })
	for n := range 500 {
		r.enqueue(n, 0)
	}
	for r.m.queue.len() > 0 {
		r.tick(0)
	}
	r.m.take()
	r.enqueue(1000, 0)
	there := map[job.ID]bool{}
	for n := range 90 {
		j := r.job(2000 + n)
		there[j.ID] = true
		r.m.enqueue(j, r.body(j), r.now, nil, &store.InboxRow{ID: string(j.ID)})
	}
	told, row, most, claims := 0, 0, 0, 0
	for batches := 0; r.m.queue.len() > 0; batches++ {
		if batches == 20 {
			t.Fatalf("%d enqueues wait after %d batches", r.m.queue.len(), batches)
		}
		p := r.next(100)
		if p == nil {
			t.Fatal("nothing to do")
		}
		var dup []job.ID
		for _, op := range p.batch.Ops {
			if id := job.ID(op.Row.ID); op.Kind == store.PutNew && there[id] {
				dup = append(dup, id)
			}
		}
		if row++; len(dup) > 0 {
			if !r.m.rejected(p, exists(dup...)) {
				t.Fatal("the rejection was not understood")
			}
		} else {
			row = 0
			claims += p.slots
			r.m.settled(p)
		}
		most = max(most, row)
		for _, e := range r.m.take() {
			if e.kind == effCopied {
				told++
			}
		}
	}
	if told != 90 || most > 1 || claims < 60 {
		t.Errorf("%d of 90 were found to be there, %d batches in a row were rejected, %d jobs were claimed meanwhile", told, most, claims)
	}
}

// TestOnlyNew: after a rejection no enqueue goes of which nothing is known. With nothing else to do an empty batch
// goes after the second.
func TestOnlyNew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for n := range 12 {
		r.enqueue(n, 0)
	}
	reject := func(p *plan, ids ...job.ID) {
		t.Helper()
		if !r.m.rejected(p, exists(ids...)) {
			t.Fatal("the rejection was not understood")
		}
	}
	p := r.next(0)
	reject(p, p.intents[0].job())
	if q := r.next(0); len(q.intents) != len(p.intents)-1 || slices.ContainsFunc(q.intents, func(i *intent) bool { return !slices.Contains(p.intents, i) }) {
		t.Errorf("%d changes after a rejection of %d", len(q.intents), len(p.intents))
	} else {
		r.m.settled(q)
	}
	p = r.next(0)
	reject(p, p.intents[0].job(), p.intents[1].job(), p.intents[2].job(), p.intents[3].job(), p.intents[4].job())
	if p := r.m.next(tickInput{now: r.now, beat: true, owner: "w", nonce: "beat"}); len(p.intents) != 0 {
		t.Errorf("%d changes by a batch that must not be rejected", len(p.intents))
	}
	if p := r.next(0); p == nil || len(p.intents) != 0 {
		t.Error("after two rejections no empty batch keeps the shard")
	} else if r.m.settled(p); p.crowded {
		t.Error("what is held back counts as what has no room")
	}
	p = r.next(0)
	if len(p.intents) == 0 || p.intents[0].kind != doEnqueue {
		t.Fatal("a second empty batch came")
	}
	reject(p, p.intents[0].job())
	r.m.singles, r.m.queue.rest = append(r.m.singles, &intent{kind: doEnqueue, e: p.intents[0].e}), line{}
	if p := r.next(0); len(p.intents) != 0 {
		t.Error("one that may be there already goes alone after a rejection")
	} else {
		r.m.settled(p)
	}
	if p := r.next(0); !p.alone || len(p.intents) != 1 {
		t.Error("it does not go alone after an empty batch")
	}
}

// TestOneDuplicate: with nothing else to do no empty batch comes after a single rejection.
func TestOneDuplicate(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *machineConfig) { c.maxOps = opsOf })
	r.enqueue(1, 0)
	r.enqueue(2, 0)
	if p := r.next(0); !r.m.rejected(p, exists(r.job(1).ID)) {
		t.Fatal("the rejection was not understood")
	}
	if p := r.tick(0); len(p.intents) != 1 || p.intents[0].job() != r.job(2).ID {
		t.Errorf("%d changes, want the second enqueue", len(p.intents))
	}
}
