package checker

import (
	"strings"
	"testing"

	"fencepost/harness/record/history"
)

// holder is a run in which w1 takes the lock (first send at 100), with a ttl of 1000
// and a margin of 30: its deadline is 1070 by a right clock. It decides to start
// work at decided.
func holder(rate int64, from int64, decided int64) *history.History {
	y := newTiny("w1.1")
	y.expect(history.Expect{})
	if rate != 0 {
		y.note(from, "w1.1", history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{RatePPM: rate}}})
	}
	y.lock(90, 120, "w1.1/c1", history.OK, 1)
	y.cas(100, 110, "w1.1/c1", history.OpAcquire, history.OK)
	y.note(decided, "w1.1/c1", history.Event{Op: history.NoteStart, Key: "a", Token: 1, DecidedAt: decided*1e6 + 1e9})
	y.cas(1500, 1510, "w1.1/c1", history.OpRelease, history.OK)
	return y.end(2000)
}

func TestDeadlineByAWrongClock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rate, from, decided int64
		want                []string
		beyond              bool
	}{
		"right, in time":                 {0, 0, 1070, nil, false},
		"right, too late":                {0, 0, 1071, []string{"P7"}, false},
		"slow within the bound":          {-10_000, 1, 1079, nil, false}, // 970 / 0.99 = 979.8
		"slow within, too late":          {-10_000, 1, 1080, []string{"P7"}, false},
		"slow from half-way":             {-10_000, 500, 1079, nil, false},
		"slow only afterwards":           {-10_000, 1071, 1079, []string{"P7"}, false},
		"fast within the bound":          {10_000, 1, 1070, nil, false},
		"fast within, too late":          {10_000, 1, 1071, []string{"P7"}, false},
		"slow beyond the bound":          {-200_000, 1, 1400, nil, true},
		"fast beyond the bound":          {200_000, 1, 1400, nil, true},
		"beyond the bound only later on": {-200_000, 1200, 1400, []string{"P7"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tinyCheck(t, holder(c.rate, c.from, c.decided), "", c.want...)
			for _, id := range []string{"P7", "P8"} {
				if said := strings.Contains(propertyOf(r, id).Detail, "clock rate beyond the declared bound"); said != c.beyond {
					t.Errorf("%s: %s", id, propertyOf(r, id).Detail)
				}
			}
		})
	}
}

// TestDecidedBeforeTheGrant: a holder may decide as soon as an answer has told it that it
// holds the lock, whichever came first, and no sooner.
func TestDecidedBeforeTheGrant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		acquire history.Type // how the acquire ended, at 110; unknown: a read settled it at 115
		decided int64
		want    []string
	}{
		"with the answer":      {history.OK, 110, nil},
		"before the answer":    {history.OK, 109, []string{"P7"}},
		"with the read":        {history.Unknown, 115, nil},
		"before the read":      {history.Unknown, 114, []string{"P7"}},
		"before it was asked":  {history.OK, 80, []string{"P7"}},
		"long after it all":    {history.OK, 1000, nil},
		"as the call returned": {history.Unknown, 120, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newTiny("w1.1")
			y.expect(history.Expect{})
			y.lock(90, 120, "w1.1/c1", history.OK, 1)
			y.cas(100, 110, "w1.1/c1", history.OpAcquire, c.acquire)
			if row := y.row; c.acquire == history.Unknown {
				y.op(111, 115, "w1.1/c1", history.OK, history.Event{Op: history.OpRead, Key: "a"}, history.Event{Row: &row})
			}
			y.note(1001, "w1.1/c1", history.Event{Op: history.NoteStart, Key: "a", Token: 1, DecidedAt: c.decided*1e6 + 1e9})
			y.cas(1500, 1510, "w1.1/c1", history.OpRelease, history.OK)
			tinyCheck(t, y.end(2000), "", c.want...)
		})
	}
}

// TestOtherClockFaultsExcuseNothing: only the rate counts.
func TestOtherClockFaultsExcuseNothing(t *testing.T) {
	t.Parallel()
	h := holder(0, 0, 1400)
	for i := range h.Events {
		if h.Events[i].TS > 1e9 && h.Events[i].Op == history.OpLock {
			ev := history.Event{TS: h.Events[i].TS - 1, Proc: "w1.1", Type: history.Note, Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{OffsetMS: -60_000, Suspended: true}}, File: "tiny.jsonl", Line: 99}
			h.Events = append(h.Events[:i], append([]history.Event{ev}, h.Events[i:]...)...)
			break
		}
	}
	tinyCheck(t, h, "after the holder's own deadline", "P7")
}

// TestExclusionByAWrongClock: w2 takes over from w1 while that is entitled. A clock
// beyond the bound explains it, whether the taker's or the holder's; any other
// does not.
func TestExclusionByAWrongClock(t *testing.T) {
	t.Parallel()
	run := func(life string, rate, from, to int64) *history.History {
		y := newTiny("w1.1", "w2.1", "w3.1")
		y.expect(history.Expect{})
		if life != "" {
			y.note(from, life, history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{RatePPM: rate}}})
			y.note(to, life, history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{}}})
		}
		y.lock(90, 120, "w1.1/c1", history.OK, 1)
		y.cas(100, 110, "w1.1/c1", history.OpAcquire, history.OK)
		y.lock(115, 820, "w2.1/c1", history.OK, 2)
		y.cas(800, 810, "w2.1/c1", history.OpAcquire, history.OK)
		y.cas(830, 840, "w2.1/c1", history.OpRelease, history.OK)
		// w3 comes after w2's release, while w1 is still entitled.
		y.lock(850, 870, "w3.1/c1", history.OK, 3)
		y.cas(855, 865, "w3.1/c1", history.OpAcquire, history.OK)
		y.cas(875, 880, "w3.1/c1", history.OpRelease, history.OK)
		return y.end(3000)
	}
	tinyCheck(t, run("", 0, 0, 0), "was entitled until", "P8")
	tinyCheck(t, run("w2.1", 400_000, 10, 900), "")
	tinyCheck(t, run("w2.1", 400_000, 120, 700), "") // only while it watched
	tinyCheck(t, run("w2.1", 10_000, 10, 900), "was entitled until", "P8")
	tinyCheck(t, run("w2.1", 400_000, 2000, 2100), "was entitled until", "P8")
	tinyCheck(t, run("w1.1", 400_000, 10, 900), "")
	tinyCheck(t, run("w3.1", 400_000, 10, 900), "was entitled until", "P8")
}

// TestLateAnswer: a renewal that is confirmed after the deadline is counted.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	run := func(answered int64) int {
		y := newTiny("w1.1")
		y.expect(history.Expect{})
		y.lock(90, 120, "w1.1/c1", history.OK, 1)
		y.cas(100, 110, "w1.1/c1", history.OpAcquire, history.OK)
		y.cas(900, answered, "w1.1/c1", history.OpRenew, history.OK)
		y.cas(1500, 1510, "w1.1/c1", history.OpRelease, history.OK)
		return tinyCheck(t, y.end(2000), "").Counts.Points["late-answer"]
	}
	if a, b := run(1060), run(1080); a != 0 || b != 1 {
		t.Errorf("%d and %d late answers, want 0 and 1", a, b)
	}
}
