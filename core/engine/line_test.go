package engine

import (
	"testing"

	"fencepost/core/store"
)

// TestAPlanLooksAtWhatItTakes: behind a long line a plan and the leaving of a caller cost no
// more than without one. Both are counted, not timed: a plan leaves what it has no room for
// untouched, and those who go are taken out many at a time.
func TestAPlanLooksAtWhatItTakes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 5000
	for i := range n {
		row := store.InboxRow{ID: string(r.job(i).ID)}
		r.m.enqueue(r.job(i), nil, r.now, nil, &row)
	}
	last := &r.m.queue.rest.next[n-1]
	p := r.tick(0)
	if l := r.m.queue.rest; len(l.next) != n-len(p.intents) || &l.next[len(l.next)-1] != last || len(l.stalled) > 0 {
		t.Errorf("a plan of %d moved %d that wait", len(p.intents), l.len())
	}
	var callers []*intent
	for i := range n {
		w := newWaiter()
		j := r.job(n + i)
		r.m.enqueue(j, nil, r.now, w, nil)
		callers = append(callers, r.m.queue.rest.next[len(r.m.queue.rest.next)-1])
	}
	swept, before := 0, r.m.queue.rest.len()
	for _, i := range callers {
		if !i.wait.goes() {
			t.Fatal("a caller cannot go whose job nobody has taken")
		}
		r.m.left(i)
		if now := r.m.queue.rest.len(); now != before {
			swept, before = swept+1, now
		}
	}
	if swept > 2 || r.m.queue.rest.len() >= 2*n {
		t.Errorf("%d callers were taken out in %d goes, %d are left", n, swept, r.m.queue.rest.len())
	}
	for r.m.queue.rest.len() > 0 {
		for _, i := range r.tick(0).intents {
			if i.wait != nil {
				t.Fatal("a job was enqueued whose caller had gone")
			}
		}
	}
}

// TestACallerOfABatchCannotGo: until that is settled, or rejected.
func TestACallerOfABatchCannotGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.enqueue(1, 0)
	p := r.next(0)
	if w.goes() {
		t.Error("it went, and a batch has its job")
	}
	r.m.undo(p, p.intents)
	if !w.goes() {
		t.Error("it cannot go, and nothing was done")
	}
	if p := r.next(0); p != nil {
		t.Errorf("planned for nobody: %+v", p.batch.Ops)
	}
}
