package checker

import (
	"context"
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
		second       [2]int64 // w3's cut
		taken        int64    // by w4; 0: w3 gives it back at 5000
		uncut, given bool     // w2 is not cut off; w2 gives it back and is not told
		unsure, back bool     // w3 is not told that it has the lock; that it has given it back
		renews       int64    // w3 renews its lease then
	}
	record := func(r run) *history.History {
		y := newTiny("w1.1", "w2.1", "w3.1", "w4.1")
		y.expect(history.Expect{Progress: []history.Progress{{Fault: "partition-client", LongestGapMS: 2200}}})
		turn := func(at int64, proc string, token int64, outcome history.Type) {
			if outcome == history.OK {
				y.lock(at, at+20, proc, outcome, token)
			}
			y.cas(at+5, at+15, proc, history.OpAcquire, outcome)
		}
		turn(1000, "w1.1/c1", 1, history.OK)
		y.cas(1050, 1100, "w1.1/c1", history.OpRelease, history.OK)
		y.lock(1110, 5000, "w1.1/c1", history.Fail, 0)
		turn(1200, "w2.1/c1", 2, history.OK)
		if r.given {
			y.cas(1260, 1290, "w2.1/c1", history.OpRelease, history.Unknown)
		}
		if !r.uncut {
			y.fault("f1", "partition-client", 1250, 7000, "w2")
		}
		if r.unsure {
			turn(2600, "w3.1/c1", 3, history.Unknown)
		} else {
			turn(2600, "w3.1/c1", 3, history.OK)
		}
		if r.renews > 0 {
			y.cas(r.renews, r.renews+10, "w3.1/c1", history.OpRenew, history.OK)
		}
		y.fault("f2", "partition-client", r.second[0], r.second[1], "w3")
		if r.back {
			y.cas(2700, 2790, "w3.1/c1", history.OpRelease, history.Unknown)
		}
		last, at := "w4.1/c1", r.taken
		if at > 0 {
			turn(at, last, 4, history.OK)
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
		"the last of them late":             {run{second: [2]int64{2650, 7000}, taken: 4790}, late + " 2225.0 ms"},
		"the second was cut off before":     {run{second: [2]int64{2000, 2500}, taken: 4000}, late + " 2940.0 ms"},
		"and until it had its answer":       {run{second: [2]int64{2000, 2614}, taken: 4000}, late + " 2940.0 ms"},
		"and it did not have it":            {run{second: [2]int64{2000, 2614}, taken: 4000, unsure: true}, ""},
		"the second was being cut off":      {run{second: [2]int64{2500, 7000}, taken: 4000}, ""},
		"the second was not told":           {run{second: [2]int64{2602, 7000}, taken: 4000, unsure: true}, ""},
		"the second went on":                {run{second: [2]int64{2650, 2700}, taken: 4100, renews: 2800}, late + " 3040.0 ms"},
		"the second's lease was over":       {run{second: [2]int64{3610, 7000}, taken: 4000}, late + " 2940.0 ms"},
		"the second's lease was not over":   {run{second: [2]int64{3600, 7000}, taken: 4000}, ""},
		"the second kept it":                {run{second: [2]int64{2650, 3000}}, late + " 3900.0 ms"},
		"the second was cut off afterwards": {run{second: [2]int64{4100, 7000}, taken: 4000}, late + " 2940.0 ms"},
		"the first had given it back":       {run{second: [2]int64{2650, 7000}, taken: 4000, given: true}, late + " 2940.0 ms"},
		"the second gave it back":           {run{second: [2]int64{2710, 7000}, taken: 4000, back: true}, late + " 2940.0 ms"},
		"the first lost it to nothing":      {run{second: [2]int64{2650, 7000}, taken: 4000, uncut: true}, late + " 2940.0 ms"},
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

// TestTwoLossesOfAShard: work that the second owner did comes late, if it does, whatever a fault does
// to that owner afterwards.
func TestTwoLossesOfAShard(t *testing.T) {
	t.Parallel()
	record := func(worked bool) *history.History {
		y := newBackoff()
		y.expect(history.Expect{Progress: []history.Progress{{Fault: "partition-client", LongestGapMS: 2200}}})
		for _, id := range []string{"0-a", "0-b", "0-c"} {
			job := history.Job{Queue: "jobs", Shard: storyShard, Kind: "k", Resource: "job/jobs/" + id, MaxAttempts: 1}
			y.op(10, 30, "w2.1/e"+id[2:], history.OK, history.Event{Op: history.OpEnqueue, Key: id, Details: &history.Details{Job: &job}}, history.Event{Result: past.ResultApplied})
		}
		work := func(at int64, proc, id string, run int64) {
			y.batch(at, proc, history.OpTick, claimed(id, run))
			y.batch(at+40, proc, history.OpTick, completed(id, run))
		}
		y.batch(1, "w1.1", history.OpTake)
		y.batch(20, "w1.1", history.OpTick, enqueued("0-a", "", 20), enqueued("0-b", "", 20), enqueued("0-c", "", 20))
		work(60, "w1.1", "0-a", sequenceRun(1, 1))
		y.fault("f1", "partition-client", 110, 2900, "w1")
		y.batch(1600, "w2.1", history.OpTake)
		lost := int64(1700)
		if worked {
			work(2460, "w2.1", "0-b", sequenceRun(2, 1))
			lost = 2600
		}
		y.fault("f2", "partition-client", lost, 9000, "w2")
		y.batch(lost+1400, "w1.1", history.OpTake)
		work(lost+1410, "w1.1", "0-c", sequenceRun(3, 1))
		if !worked {
			work(lost+1500, "w1.1", "0-b", sequenceRun(3, 2))
		}
		y.by = "w1.1"
		y.finish(5600, history.JobRow{State: past.StateCompleted, Run: sequenceRun(1, 1), Attempt: 1})
		return y.h
	}
	for worked, want := range map[bool]Status{false: StatusPass, true: StatusFail} {
		if p := propertyOf(Check(context.Background(), record(worked), Options{}), "P11"); p.Status != want {
			t.Errorf("worked %v: P11 is %s, want %s: %s %+v", worked, p.Status, want, p.Detail, p.Violations)
		}
	}
}
