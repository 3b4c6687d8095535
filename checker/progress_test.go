package checker

import (
	"context"
	"slices"
	"testing"
	"time"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
	"fencepost/internal/race"
)

// going is a run of w1 and w2, of a client each, that have the lock by turns, a cycle
// every 200 ms from 100 to 8000, and a fault from 2000 to 6000. From stop to again no
// cycle ends: both wait, or w2 holds the lock.
type going struct {
	progress    history.Progress
	stop, again int64
	held        bool
	fault       string
	targets     []string
	change      func(*tiny)
	// quits is when w1 has asked for the last time; 0: it does not stop.
	quits int64
}

func (g going) history() *history.History {
	y := newTiny("w1.1", "w2.1")
	if g.progress.Fault == "" {
		g.progress.Fault = g.fault
	}
	y.expect(history.Expect{Progress: []history.Progress{g.progress}})
	y.note(1, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: "before"}})
	y.note(1990, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: "fault"}})
	y.fault("f1", g.fault, 2000, 6000, g.targets...)
	asked := map[string]int64{} // in the hole, by those who have not got it yet
	one := func(at int64, proc string) {
		from, token := at, y.row.Fence+1
		if asked[proc] > 0 {
			from = asked[proc]
			delete(asked, proc)
		}
		got := at
		if g.held && from < at && proc[1] == '2' {
			got = from
			y.note(got+10, proc, history.Event{Op: history.NoteStart, Key: "a", Token: token, DecidedAt: (got+9)*1e6 + 1e9})
			y.note(at+80, proc, history.Event{Op: history.NoteFinish, Key: "a", Token: token})
		}
		y.lock(from, got+9, proc, history.OK, token)
		y.cas(got+1, got+8, proc, history.OpAcquire, history.OK)
		for t := got + 300; t < at; t += 300 {
			y.cas(t, t+5, proc, history.OpRenew, history.OK)
		}
		y.cas(at+90, at+100, proc, history.OpRelease, history.OK)
	}
	for at := int64(100); at < 8000; at += 200 {
		proc := "w2.1/c1"
		switch first := at%400 == 100 && (g.quits == 0 || at < g.quits); {
		case at+100 > g.stop && at+100 < g.again:
			asked["w2.1/c1"] = g.stop
			if g.quits == 0 {
				asked["w1.1/c1"] = g.stop
			}
			continue
		case first && len(asked) < 2:
			proc = "w1.1/c1"
		}
		one(at, proc)
	}
	y.note(8100, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: past.PhaseSettle}})
	if g.change != nil {
		g.change(y)
	}
	return y.end(9000)
}

func TestProgress(t *testing.T) {
	t.Parallel()
	n1, gap := []string{"n1"}, func(ms int64) history.Progress { return history.Progress{LongestGapMS: ms} }
	busy := func(p99 float64) func(*tiny) {
		return func(y *tiny) {
			y.note(6001, history.Harness, history.Event{Op: history.NoteHost, Details: &history.Details{Host: &history.Host{Phase: "fault", LagP50MS: 1, LagP99MS: p99, LagMaxMS: 2000}}})
		}
	}
	slow := func(y *tiny) { y.fault("f2", "slow-job", 2400, 4800, "w2") }
	for name, c := range map[string]struct {
		g       going
		message string // "": as it must be
		want    string // the property
	}{
		"work goes on":                           {going{progress: gap(1000), fault: "partition", targets: n1}, "", ""},
		"a ttl and what is beside it":            {going{progress: gap(2000), stop: 2410, again: 4400, fault: "partition", targets: n1}, "", ""},
		"a little longer":                        {going{progress: gap(1999), stop: 2410, again: 4400, fault: "partition", targets: n1}, "no release of a succeeded for 2000.0 ms although it was asked for", "P11"},
		"all of the fault":                       {going{progress: gap(3000), stop: 2010, again: 6000, fault: "kill-node", targets: n1}, "with kill-node in force meanwhile: at most 3000.0 ms", "P11"},
		"it begins before the fault":             {going{progress: gap(1900), stop: 1010, again: 3200, fault: "pause-node", targets: n1}, "no release of a succeeded", "P11"},
		"it goes on after the heal":              {going{progress: gap(1500), stop: 5850, again: 7600, fault: "pause-node", targets: n1}, "no release of a succeeded", "P11"},
		"it was over by then":                    {going{progress: gap(900), stop: 410, again: 1600, fault: "pause-node", targets: n1}, "", ""},
		"no quorum was there":                    {going{progress: history.Progress{Fault: history.AnyFault, LongestGapMS: 900}, stop: 2010, again: 5990, fault: "pause-node", targets: []string{"n1", "n2"}}, "", ""},
		"a bridge is one":                        {going{progress: gap(2000), stop: 2010, again: 6000, fault: "partition-bridge", targets: n1}, "no release of a succeeded", "P11"},
		"only who is cut off waits":              {going{progress: history.Progress{Fault: history.AnyFault, LongestGapMS: 1500}, stop: 2010, again: 5990, fault: "partition-client", targets: []string{"w2"}, quits: 1}, "", ""},
		"it can reach the locks":                 {going{progress: gap(2000), stop: 2010, again: 6000, fault: "sink-outage", targets: []string{"w2"}, quits: 1}, "no release of a succeeded", "P11"},
		"a long job":                             {going{progress: gap(1000), stop: 2410, again: 4400, held: true, fault: "partition", targets: n1, change: slow}, "", ""},
		"a job that nobody made long":            {going{progress: gap(1000), stop: 2410, again: 4400, held: true, fault: "partition", targets: n1}, "no release of a succeeded for", "P11"},
		"a client that stops asking":             {going{progress: gap(2500), fault: "partition", targets: n1, quits: 2300}, "w1.1/c1 asked for nothing for", "P11"},
		"it was asked for before the fault only": {going{progress: gap(3500), fault: "partition", targets: n1, quits: 4700}, "", ""},

		"cycles":         {going{progress: history.Progress{MinCycles: 10, LongestGapMS: 300}, fault: "partition", targets: n1}, "", ""},
		"of the targets": {going{progress: history.Progress{MinCycles: 3, Group: history.GroupTargets, LongestGapMS: 1200}, fault: "latency", targets: []string{"w1"}}, "", ""},
		"none of the others": {going{progress: history.Progress{MinCycles: 1, Group: history.GroupOthers, LongestGapMS: 1200}, fault: "partition-ring", targets: []string{"w1", "w2"}},
			"while partition-ring was in force, for 4000.0 ms in all, 0 lock cycles of the other workers succeeded", "P11"},
		"none of the others, in windows that are too short each": {going{progress: history.Progress{MinCycles: 1, Group: history.GroupOthers, LongestGapMS: 4500}, fault: "partition-ring", targets: []string{"w1", "w2"}, change: func(y *tiny) {
			y.fault("f2", "partition-ring", 6050, 7950, "w1", "w2")
		}}, "while partition-ring was in force 0 lock cycles succeeded, the scenario demands 1", "P14"},
		"none of the others, in windows that are one": {going{progress: history.Progress{MinCycles: 1, Group: history.GroupOthers, LongestGapMS: 4500}, fault: "partition-ring", targets: []string{"w1", "w2"}, change: func(y *tiny) {
			y.fault("f2", "partition-ring", 5900, 7950, "w1", "w2")
		}}, "0 lock cycles of the other workers succeeded although", "P11"},
		"too few, and no time for more": {going{progress: history.Progress{MinCycles: 100, LongestGapMS: 1200}, fault: "partition", targets: n1}, "succeeded, the scenario demands 100", "P14"},

		"a fault that never came":    {going{progress: history.Progress{Fault: "flood", LongestGapMS: 10}, fault: "partition", targets: n1}, "under fault flood, which was not injected", "P14"},
		"a fault that was too short": {going{progress: gap(4000), fault: "partition", targets: n1}, "in force for 4000.0 ms in which anybody could reach a quorum, and a gap may last 4000.0 ms: nothing could have been shown", "P14"},
		"no quorum for most of it": {going{progress: gap(2500), fault: "partition", targets: n1, change: func(y *tiny) {
			y.fault("f2", "kill-node", 3000, 4000, "n2")
		}}, "in force for 2000.0 ms in which anybody", "P14"},
		"everybody was cut off": {going{progress: gap(2500), fault: "partition-client", targets: []string{"w1", "w2"}}, "in force for 0.0 ms in which anybody", "P14"},
		"a malformed demand":    {going{progress: history.Progress{MinCycles: 1}, fault: "partition", targets: n1}, "needs a longest gap above 0", "P14"},

		"a busy machine": {going{progress: gap(1999), stop: 2410, again: 4400, fault: "partition", targets: n1, change: busy(501)}, "host too busy: in phase fault the harness's own timer was late by 501 ms (p99)", "P11"},
		"not so busy":    {going{progress: gap(1999), stop: 2410, again: 4400, fault: "partition", targets: n1, change: busy(500)}, "no release of a succeeded", "P11"},
		"busy and well":  {going{progress: gap(2000), stop: 2410, again: 4400, fault: "partition", targets: n1, change: busy(501)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			tinyCheck(t, c.g.history(), c.message, want...)
		})
	}
}

// TestProgressOfABusyMachine: what is too slow says nothing then, and the verdict says so.
func TestProgressOfABusyMachine(t *testing.T) {
	t.Parallel()
	g := going{progress: history.Progress{LongestGapMS: 1999}, stop: 2410, again: 4400, fault: "partition", targets: []string{"n1"}}
	h := g.history()
	if r := Check(context.Background(), h, Options{}); r.Verdict != Fail || r.HostBusy != "" {
		t.Errorf("%s, %q", r.Verdict, r.HostBusy)
	}
	g.change = func(y *tiny) {
		y.note(6001, history.Harness, history.Event{Op: history.NoteHost, Details: &history.Details{Host: &history.Host{Phase: "recover", LagP99MS: 700, LagMaxMS: 900}}})
		y.note(6002, "w1.1", history.Event{Op: history.NoteHost, Details: &history.Details{Host: &history.Host{Phase: "fault", LagP99MS: 9000, LagMaxMS: 9000}}})
	}
	r := Check(context.Background(), g.history(), Options{})
	if r.Verdict != Invalid || r.HostBusy == "" || r.Summary != "the run proves nothing: "+r.HostBusy+"; run it again with nothing else at work on this machine" {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
	if e := Explain(g.history(), r, Options{}); !slices.Equal(e.Best(), []string{"host-too-busy"}) {
		t.Errorf("%v", e.Best())
	}
}

// goingOn makes the fault last for 8 s, of which 6 may be without a success: ten ttls, as clients are paused and processes killed without a fault that says so.
func goingOn(c *simConfig) { c.length, c.gap, c.pauses = 40*time.Second, 6*time.Second, false }

// TestLegalProgress: what a legal system comes to under a fault is enough, whatever
// else happens to it.
func TestLegalProgress(t *testing.T) {
	t.Parallel()
	seeds := uint64(10)
	if race.Enabled {
		seeds = 3
	}
	for seed := range seeds {
		for _, world := range []func(uint64) simConfig{small, smallJobs} {
			cfg := world(seed)
			goingOn(&cfg)
			r := Check(context.Background(), simulate(cfg), Options{})
			if r.Verdict != Pass || len(r.Progress) != 1 || r.Progress[0].Cycles == 0 || r.Progress[0].GapMS == 0 {
				t.Errorf("seed %d: %s: %s, %+v", seed, r.Verdict, r.Summary, r.Progress)
			}
		}
	}
}

// hole makes nothing happen for so long at an instant of a history, under a fault of one
// node, and demands that work goes on.
func hole(h *history.History, at, lasts int64, gap time.Duration) *history.History {
	for i := range h.Events {
		e := &h.Events[i]
		if e.TS <= at {
			continue
		}
		e.TS += lasts
		for k := range e.Sends {
			if e.Sends[k] > at {
				e.Sends[k] += lasts
			}
		}
		if e.DecidedAt > at {
			e.DecidedAt += lasts
		}
		if e.WallMS() > 0 {
			e.OwnDetails().WallMS += lasts / 1e6
		}
	}
	e := newEdit(h)
	e.expected(func(x *history.Expect) {
		x.Faults, x.MinCycles = []string{"f9"}, nil
		x.Progress = []history.Progress{{Fault: "f9", LongestGapMS: gap.Milliseconds()}}
	})
	note := func(ts int64, action string) history.Event {
		return history.Event{TS: ts, Proc: history.Harness, Type: history.Note, Op: history.NoteFault, File: "harness.jsonl", Line: 1 << 20, Details: &history.Details{Fault: &history.Fault{
			ID: "f9", Name: "partition", Targets: []string{"n1"}, Action: action, Proven: action == history.ActionEvidence, Text: "cut",
		}}}
	}
	e.insert(note(at+1, history.ActionInject), note(at+lasts-3, history.ActionEvidence), note(at+lasts-2, history.ActionHeal))
	return e.h
}

// TestMinorityFaultThatStopsAll: a fault of one node during which nobody does anything is
// found wherever it falls; one that is a gap long is legal.
func TestMinorityFaultThatStopsAll(t *testing.T) {
	t.Parallel()
	for _, jobs := range []bool{false, true} {
		world := small
		if jobs {
			world = smallJobs
		}
		places, seeds := 0, uint64(4)
		if race.Enabled {
			seeds = 1
		}
		for seed := range seeds {
			probe := simulate(world(seed))
			var from, to int64
			for _, p := range probe.Phases() {
				if p.Name == "before" {
					from, to = p.From, p.To
				}
			}
			for i := 1; i < len(probe.Events); i += 1 + len(probe.Events)/40 {
				at := probe.Events[i-1].TS
				if at < from || at > to || probe.Events[i].TS == at {
					continue
				}
				places++
				h := hole(simulate(world(seed)), at, int64(time.Minute), 30*time.Second)
				if p := propertyOf(Check(context.Background(), h, Options{}), "P11"); p.Status != StatusFail {
					t.Errorf("jobs %v, seed %d, event %d: P11 is %s: %s", jobs, seed, i, p.Status, p.Detail)
				}
			}
		}
		if places < 10 {
			t.Errorf("jobs %v: %d places only", jobs, places)
		}
	}
}

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
