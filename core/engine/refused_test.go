package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"fencepost/core/job"
	"fencepost/core/store"
)

// TestARetryThatTheStoreRefuses ends in the dead letter queue, without the body: it or the note
// is what the store does not take.
func TestARetryThatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.m.ranBefore(nil, false, r.now)
	r.enqueue(1, 0)
	r.tick(1)
	r.tick(1)
	id := r.job(1).ID
	r.m.finished(id, r.m.jobs[id].run, errors.New("x"), r.now, 0)
	for n := range 40 {
		p := r.m.next(tickInput{now: r.now, owner: "w", nonce: fmt.Sprint("x", n), beat: true})
		if p.jobs[id] && jobRow(t, p, id).State == string(job.Pending) {
			r.m.refused(p, errors.New("too large"))
			continue
		}
		r.m.settled(p)
		if !p.jobs[id] {
			continue
		}
		if row := jobRow(t, p, id); row.State != string(job.DLQ) || !strings.Contains(row.Note, "too large") {
			t.Errorf("%+v", row)
		}
		for _, op := range p.batch.Ops {
			if op.Row.Kind == store.KindDLQ && op.Row.Body != nil {
				t.Errorf("its body is there: %+v", op.Row)
			}
		}
		return
	}
	t.Error("its retry is tried again and again")
}

// TestSlotsOfChangesThatGoAlone: of the changes of a refused batch a claim asks for the one slot
// that it takes, and is tried in its turn. What needs none asks for none: others may have it.
func TestSlotsOfChangesThatGoAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.enqueue(1, 0)
	r.enqueue(2, 0)
	r.tick(0)
	r.enqueue(3, 0)
	all := r.next(5)
	if len(all.intents) != 3 || all.slots != 2 {
		t.Fatalf("%d changes, %d of them claims", len(all.intents), all.slots)
	}
	r.m.refused(all, errors.New("unavailable"))
	r.tickBeat()
	for n, i := range all.intents {
		want := 0
		if i.kind == doClaim {
			want = 1
		}
		asks := r.m.wanted(r.now)
		if p := r.tick(asks); asks != want || len(p.intents) != 1 || p.intents[0] != i || p.slots != want {
			t.Errorf("change %d asks for %d slots, want %d; planned is %+v", n, asks, want, p.intents)
		}
	}
}
