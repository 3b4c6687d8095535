package checker

import (
	"slices"
	"testing"

	"fencepost/harness/record/history"
)

// windows is a run of two workers with one fault from 1000 to 2000: w1 releases
// before it, w2 within it; more in change.
func windows(s history.Success, targets []string, change func(*tiny)) *history.History {
	y := newTiny("w1.1", "w2.1")
	y.expect(history.Expect{Success: []history.Success{s}})
	y.note(1, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: "before"}})
	y.note(990, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: "fault"}})
	y.note(2010, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: "recover"}})
	cycle(y, 100, 200, "w1.1/c1", 1)
	y.fault("f1", "partition-client", 1000, 2000, targets...)
	cycle(y, 1100, 1200, "w2.1/c1", 2)
	if change != nil {
		change(y)
	}
	return y.end(9000)
}

// cycle takes the lock at from; its release lasts from until to-10.
func cycle(y *tiny, from, to int64, proc string, token int64) {
	y.lock(from, from+9, proc, history.OK, token)
	y.cas(from+1, from+8, proc, history.OpAcquire, history.OK)
	y.cas(to-10, to, proc, history.OpRelease, history.OK)
}

func TestSuccess(t *testing.T) {
	t.Parallel()
	w1 := []string{"w1"}
	for name, c := range map[string]struct {
		s       history.Success
		targets []string
		change  func(*tiny)
		message string // "": as expected
	}{
		"fault, targets, none":     {history.Success{Fault: "partition-client", Group: "targets", Want: "none"}, w1, nil, ""},
		"fault by id":              {history.Success{Fault: "f1", Group: "targets", Want: "none"}, w1, nil, ""},
		"fault, others, some":      {history.Success{Fault: "f1", Group: "others", Want: "some"}, w1, nil, ""},
		"fault, targets by a link": {history.Success{Fault: "f1", Group: "others", Want: "some"}, []string{"w1->n3"}, nil, ""},
		"fault, targets that went on": {history.Success{Fault: "f1", Group: "targets", Want: "none"}, w1, func(y *tiny) {
			cycle(y, 1300, 1400, "w1.1/c1", 3)
		}, "1 release of the workers that it is aimed at succeeded, the scenario demands none"},
		"fault, released as it was healed": {history.Success{Fault: "f1", Group: "targets", Want: "none"}, w1, func(y *tiny) {
			cycle(y, 1300, 2000, "w1.1/c1", 3)
		}, ""},
		"fault, others that stood still": {history.Success{Fault: "f1", Group: "others", Want: "some"}, []string{"w2"}, nil, "no release of the other workers succeeded, the scenario demands some"},
		"fault, all":                     {history.Success{Fault: "f1", Want: "some"}, w1, nil, ""},
		"fault, named workers":           {history.Success{Fault: "f1", Workers: w1, Want: "none"}, w1, nil, ""},
		"fault, named workers, some":     {history.Success{Fault: "f1", Workers: w1, Want: "some"}, w1, nil, "no release of w1 succeeded"},
		"phase, targets":                 {history.Success{Phase: "fault", Group: "targets", Want: "none"}, w1, nil, ""},
		"phase, others":                  {history.Success{Phase: "fault", Group: "others", Want: "none"}, w1, nil, "1 release of the other workers succeeded"},
		"any":                            {history.Success{Phase: "fault", Group: "others", Want: "any"}, w1, nil, ""},
		"unknown fault":                  {history.Success{Fault: "flood", Want: "some"}, w1, nil, "fault flood, which was not injected"},
		"unknown phase":                  {history.Success{Phase: "lunch", Want: "some"}, w1, nil, "phase lunch, which the run did not have"},
		"unknown group":                  {history.Success{Fault: "f1", Group: "all", Want: "some"}, w1, nil, `the group "all"; known are targets and others`},
		"unknown worker":                 {history.Success{Fault: "f1", Workers: []string{"w7"}, Want: "some"}, w1, nil, "worker w7, which recorded nothing"},
		"unknown want":                   {history.Success{Fault: "f1", Want: "much"}, w1, nil, `wants "much"`},
		"neither phase nor fault":        {history.Success{Want: "some"}, w1, nil, "it must name one of them"},
		"phase and fault":                {history.Success{Phase: "fault", Fault: "f1", Want: "some"}, w1, nil, "it must name one of them"},
		"group and workers":              {history.Success{Fault: "f1", Group: "targets", Workers: w1, Want: "none"}, w1, nil, "only one of them may be named"},
		"targets of a node's fault":      {history.Success{Fault: "f1", Group: "targets", Want: "none"}, []string{"n1"}, nil, "aimed at n1: at no worker"},
		"phase, targets of a node":       {history.Success{Phase: "fault", Group: "targets", Want: "none"}, []string{"n1"}, nil, "no fault was aimed at a worker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if c.message != "" {
				want = []string{"P14"}
			}
			tinyCheck(t, windows(c.s, c.targets, c.change), c.message, want...)
		})
	}
}

// TestReleaseUnderWay: a release that was sent before the fault is not its.
func TestReleaseUnderWay(t *testing.T) {
	t.Parallel()
	y := newTiny("w1.1", "w2.1")
	y.expect(history.Expect{Success: []history.Success{{Fault: "f1", Group: "targets", Want: "none"}}})
	cycle(y, 100, 1005, "w1.1/c1", 1) // released from 995 to 1005
	y.fault("f1", "partition-client", 1000, 2000, "w1")
	cycle(y, 1100, 1200, "w2.1/c1", 2)
	tinyCheck(t, y.end(9000), "")
}

func TestMissingSometimes(t *testing.T) {
	t.Parallel()
	runs := []Result{{Counts: Counts{Points: map[string]int{"resend": 2}}}, {Counts: Counts{Points: map[string]int{"late-answer": 1}}}, {}}
	for _, c := range []struct {
		expect, want []string
		runs         []Result
	}{
		{[]string{"resend", "late-answer"}, nil, runs},
		{[]string{"takeover", "resend", "duplicate"}, []string{"takeover", "duplicate"}, runs},
		{[]string{"resend"}, []string{"resend"}, nil},
		{nil, nil, runs},
	} {
		if got := MissingSometimes(c.expect, c.runs); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.expect, got, c.want)
		}
	}
}

// TestSometimesNeedNotBeReached: one run that misses such a point is valid.
func TestSometimesNeedNotBeReached(t *testing.T) {
	t.Parallel()
	run := func(x history.Expect) *history.History {
		y := newTiny("w1.1")
		y.expect(x)
		cycle(y, 100, 200, "w1.1/c1", 1)
		return y.end(300)
	}
	tinyCheck(t, run(history.Expect{Sometimes: []string{"takeover"}}), "")
	tinyCheck(t, run(history.Expect{Must: []string{"takeover"}}), `must reach "takeover"`, "P14")
}
