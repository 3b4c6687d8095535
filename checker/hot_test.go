package checker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"fencepost/checker/linear"
	"fencepost/checker/past"
	"fencepost/harness/record/history"
	"fencepost/internal/race"
)

// A hot lock's cycles and contenders: 65,002 operations on its row.
const (
	hotCycles     = 6500
	hotContenders = 8
)

// hotLock is a legal run of contenders that all want one lock, without a pause, for so
// many cycles: an acquire, a renewal and a release that are applied, and a rejection for
// each of the others. At no instant is nothing in flight. Times are in ms.
func hotLock(cycles int) *history.History {
	var lives []string
	for i := range hotContenders {
		lives = append(lives, fmt.Sprintf("w%d.1", i+1))
	}
	y := newTiny(lives...)
	for i := range y.h.Headers {
		y.h.Headers[i].Promises = []string{"P1", "P2", "P8", "P9"} // there is no work under the lock
	}
	y.expect(history.Expect{Workers: hotContenders})
	at := int64(0)
	for cycle := range cycles {
		at += 10
		life := lives[cycle%hotContenders]
		winner, free := life+"/c1", y.row
		y.lock(at, at+3, winner, history.OK, y.row.Fence+1)
		y.cas(at+1, at+2, winner, history.OpAcquire, history.OK)
		held := y.row
		for i, other := range lives {
			if other != life { // it has asked when the lock was free, and is answered in the next cycle
				tried := history.Version{Fence: free.Fence + 1, Attempt: fmt.Sprintf("t%d-%d", cycle, i), Holder: other + "/c2", TTLMS: tinyTTL}
				y.op(at+1, at+11, other+"/c2", history.Fail, history.Event{Op: history.OpAcquire, Key: "a", From: &free, To: &tried}, history.Event{Row: &held})
			}
		}
		y.cas(at+4, at+5, winner, history.OpRenew, history.OK)
		y.cas(at+6, at+7, winner, history.OpRelease, history.OK)
	}
	return y.end(at + 20)
}

// TestHotLock: a lock that is never left alone is decided, and a defect of it is found by
// each opinion: an answer in the middle that shows a row which had been left.
func TestHotLock(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	h := hotLock(hotCycles)
	r := Check(context.Background(), h, Options{})
	p := propertyOf(r, "P2")
	if r.Verdict != Pass || p.Encodings["open"] != "Ok" || p.Checked != 65_002 {
		t.Fatalf("%s: %s: %d checked, %v", r.Verdict, r.Summary, p.Checked, p.Encodings)
	}
	e := newEdit(h)
	rejected := e.all(history.OpAcquire, history.Fail)
	bad := rejected[len(rejected)/2]
	bad.end.Row = rejected[len(rejected)/2-20].end.Row
	p = propertyOf(Check(context.Background(), e.h, Options{}), "P2")
	if p.Status != StatusFail || p.Count != 1 || !strings.Contains(p.Violations[0].Message, "stale rejection") ||
		!slices.ContainsFunc(p.Violations[0].Events, func(ref EventRef) bool { return ref.Event.Proc == bad.inv.Proc && ref.Event.ID == bad.inv.ID }) {
		t.Errorf("%s: %+v", p.Status, p.Violations)
	}
	if got := aloneAll(e.h, linear.SegmentOps); got != porcupine.Illegal {
		t.Errorf("Porcupine alone: %s", got)
	}
}

// TestSecondOpinionUnfinished: what the linear-time checks have decided does not become
// unknown for lack of a second opinion, and the detail says so. What only Porcupine can
// judge does: the sink, rows that are not sealed, and the bounded encoding.
func TestSecondOpinionUnfinished(t *testing.T) {
	t.Parallel()
	none := Options{Search: 1}
	p := propertyOf(Check(context.Background(), hotLock(20), none), "P2")
	if p.Status != StatusPass || p.Encodings["open"] != "Unknown" || !strings.Contains(p.Detail, "the second opinion, was not finished on 1 row (a)") {
		t.Errorf("decided: %s (%s) %v", p.Status, p.Detail, p.Encodings)
	}
	s := resurrected(true, 35, 60)
	if p := propertyOf(Check(context.Background(), newEdit(&s.h).h, none), "P2"); p.Status != StatusUnknown {
		t.Errorf("bounded: %s (%s)", p.Status, p.Detail)
	}
	s = newScript()
	s.cas("w1.1/c1", history.OpAcquire, past.NoRow, heldA, 10, 20, history.OK, false)
	if p := propertyOf(Check(context.Background(), newEdit(&s.h).h, none), "P2"); p.Status != StatusUnknown {
		t.Errorf("not sealed: %s (%s)", p.Status, p.Detail)
	}
	h := simulate(simConfig{seed: 3, workers: 2, clients: 1, locks: 1, ttl: 600e6, length: 20e9})
	if r := Check(context.Background(), h, none); propertyOf(r, "P4").Status != StatusUnknown || r.Verdict != Unknown {
		t.Errorf("sink: %s: %s", r.Verdict, r.Summary)
	}
}
