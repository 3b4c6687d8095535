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

// TestAClaimThatWentThrough: what the store refused of a job's claim before counts against none of
// its later ones.
func TestAClaimThatWentThrough(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *machineConfig) { c.horizon = 1e9 }) // its retries stay in memory
	id := r.job(1).ID
	r.enqueue(1, 0)
	r.tick(0)
	for attempt := range 3 {
		refused, started := 0, false
		for n := 0; n < 40 && !started; n++ {
			p := r.m.next(tickInput{now: r.now, free: 1, owner: "w", nonce: fmt.Sprint(attempt, n), beat: true})
			if p.jobs[id] && refused < strikesToCondemn { // once with others, and all but once alone
				refused++
				r.m.refused(p, errors.New("no"))
				continue
			}
			r.m.settled(p)
			for _, e := range r.m.take() {
				if started = e.kind == effStart; started {
					r.m.finished(id, e.run.ID, errors.New("once more"), r.now, 0)
					r.tick(0)
				}
			}
		}
		if !started {
			t.Fatalf("attempt %d never began", attempt)
		}
		r.m.take()
		r.pass(1_000_000)
	}
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

// TestAFireThatIsDecidedAgain, as the job of one of its occurrences exists, is another change than
// the one that the store refused before: that does not count against it.
func TestAFireThatIsDecidedAgain(t *testing.T) {
	t.Parallel()
	r := newScheduleRig(t, func(c *machineConfig) { c.maxOps = 40 })
	s := r.put(r.every("s"))
	r.pass(2000)
	refusals := 0
	for n := 0; n < 40 && s.state.Last < r.now.wall; n++ {
		p := r.m.next(tickInput{now: r.now, fires: true, owner: "w", nonce: fmt.Sprint("x", n), beat: true})
		switch {
		case !p.jobs[s.id]:
			r.m.settled(p)
			continue
		case refusals == strikesToCondemn: // once with others, and all but once alone
			first := job.Occurrence{Schedule: "s", Nominal: r.now.wall - 1000}
			if !p.alone || !r.m.rejected(p, exists(first.ID("q", 1))) {
				t.Fatalf("the batch is %s", what(p))
			}
		case refusals <= strikesToCondemn+1:
			r.m.refused(p, errors.New("no"))
		default:
			r.m.settled(p)
		}
		refusals++
	}
	for _, x := range r.m.take() {
		if x.kind == effLate && x.late.Err != nil {
			t.Errorf("it is stopped: %v", x.late.Err)
		}
	}
	if s.state.Last != r.now.wall || s.state.Fired != 1 {
		t.Errorf("%+v after %d batches", s.state, refusals)
	}
}
