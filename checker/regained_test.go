package checker

import (
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// TestTwoLossesInSuccession: a lock that one fault after the other takes from its holders. The
// bound of a gap has room for one lost lease, and each loss is held against it by itself.
func TestTwoLossesInSuccession(t *testing.T) {
	t.Parallel()
	// w1 has the lock first. Then w2 has it and is cut off, w3 takes it over and is cut off, and w4
	// takes it over, or w3 itself goes on.
	type run struct {
		second      [2]int64 // w3's cut
		taken       int64    // by w4; 0: w3 gives it back at 5000
		given       bool     // w2 gives it back, and is not told
		uncut, back bool     // w2 is not cut off; w3's answer is lost as it gives the lock back
	}
	record := func(r run) *history.History {
		y := newTiny("w1.1", "w2.1", "w3.1", "w4.1")
		y.expect(history.Expect{Progress: []history.Progress{{Fault: "partition-client", LongestGapMS: 2200}}})
		turn := func(at int64, proc string, token int64) {
			y.lock(at, at+20, proc, history.OK, token)
			y.cas(at+5, at+15, proc, history.OpAcquire, history.OK)
		}
		turn(1000, "w1.1/c1", 1)
		y.cas(1050, 1100, "w1.1/c1", history.OpRelease, history.OK)
		y.lock(1110, 5000, "w1.1/c1", history.Fail, 0)
		turn(1200, "w2.1/c1", 2)
		if r.given {
			y.cas(1260, 1290, "w2.1/c1", history.OpRelease, history.Unknown)
		}
		if !r.uncut {
			y.fault("f1", "partition-client", 1250, 7000, "w2")
		}
		turn(2600, "w3.1/c1", 3)
		y.fault("f2", "partition-client", r.second[0], r.second[1], "w3")
		if r.back {
			y.cas(2700, 2790, "w3.1/c1", history.OpRelease, history.Unknown)
		}
		last, at := "w4.1/c1", r.taken
		if at > 0 {
			turn(at, last, 4)
		} else {
			last, at = "w3.1/c1", 4960
		}
		y.cas(at+30, at+40, last, history.OpRelease, history.OK)
		y.note(5100, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: past.PhaseSettle}})
		return y.end(9000)
	}
	const late = "no release of a succeeded for"
	for name, c := range map[string]struct {
		r       run
		message string // "": as it must be
	}{
		"each is taken over in time":        {run{second: [2]int64{2650, 7000}, taken: 4000}, ""},
		"the last of them late":             {run{second: [2]int64{2650, 7000}, taken: 4810}, late + " 2235.0 ms"},
		"the second was not cut off":        {run{second: [2]int64{1300, 2500}, taken: 4000}, late + " 2940.0 ms"},
		"the second kept it":                {run{second: [2]int64{2650, 3000}}, late + " 3900.0 ms"},
		"the second was cut off afterwards": {run{second: [2]int64{4100, 7000}, taken: 4000}, late + " 2940.0 ms"},
		"the first had given it back":       {run{second: [2]int64{2650, 7000}, taken: 4000, given: true}, late + " 2940.0 ms"},
		"the second gave it back":           {run{second: [2]int64{2710, 7000}, taken: 4000, back: true}, late + " 2940.0 ms"},
		"the first lost it to nothing":      {run{second: [2]int64{2650, 7000}, taken: 4000, uncut: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.message == "" {
				tinyCheck(t, record(c.r), "")
				return
			}
			tinyCheck(t, record(c.r), c.message, "P11")
		})
	}
}
