package checker

import (
	"math"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
	"fencepost/internal/race"
)

// measured is a run of one client that waits for the lock n times in each of the
// phases before and fault: for 1, 2, 3 … n ms, in the fault phase times as long. The
// fault is healed at 50_000, the next release is at 50_100.
func measured(n, times int64, th history.Threshold, change func(*tiny)) *history.History {
	y := newTiny("w1.1", "w2.1")
	y.expect(history.Expect{Thresholds: []history.Threshold{th}})
	fence := int64(0)
	wait := func(at, ms int64) {
		fence++
		y.lock(at, at+ms, "w1.1/c1", history.OK, fence)
		y.cas(at, at+ms, "w1.1/c1", history.OpAcquire, history.OK)
		y.cas(at+ms, at+ms, "w1.1/c1", history.OpRelease, history.OK)
	}
	at := int64(100)
	for i, phase := range []string{history.PhaseBefore, history.PhaseFault} {
		y.note(at, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: phase}})
		factor := int64(1)
		if i == 1 {
			factor = times
			y.fault("f1", "pause-worker", at+1, 50_000, "w9")
		}
		at += 10
		for k := range n {
			wait(at, (k+1)*factor)
			at += (k+1)*factor + 1
		}
	}
	y.note(50_000, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: "recover"}})
	wait(50_090, 10)
	if change != nil {
		change(y)
	}
	y.note(50_400, history.Harness, history.Event{Op: history.NotePhase, Details: &history.Details{Phase: past.PhaseSettle}})
	return y.end(50_500)
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	lock := func(q, phase string, most int64) history.Threshold {
		return history.Threshold{Latency: "lock", Quantile: q, Phase: phase, MaxMS: most}
	}
	recovery := func(of string, most int64) history.Threshold {
		return history.Threshold{Recovery: of, MaxMS: most}
	}
	// unanswered are lock calls of the fault phase that get no lock.
	unanswered := func(n int64, outcome history.Type) func(*tiny) {
		return func(y *tiny) {
			for i := range n {
				y.lock(30_000+10*i, 30_001+10*i, "w1.1/c2", outcome, 0)
			}
		}
	}
	other := func(y *tiny) { // a second lock, used before the fault and never again
		held, free := history.Version{Fence: 1, Attempt: "x", Holder: "w1.1/c3", TTLMS: tinyTTL}, history.Version{Fence: 1, Beat: 1, Attempt: "y"}
		y.op(101, 102, "w1.1/c3", history.OK, history.Event{Op: history.OpAcquire, Key: "b", From: &history.Version{Absent: true}, To: &held}, history.Event{Sends: []int64{101e6 + 1e9}})
		y.op(103, 104, "w1.1/c3", history.OK, history.Event{Op: history.OpRelease, Key: "b", From: &held, To: &free}, history.Event{})
		y.op(50_510, 50_520, history.Harness, history.OK, history.Event{Op: history.OpSeal, Key: "b", From: &free, To: &history.Version{Fence: 2, Attempt: "z"}}, history.Event{})
	}
	across := func(y *tiny) { // the same, and its last call goes on for a moment after the heal
		other(y)
		y.op(49_900, 50_010, "w1.1/c3", history.Fail, history.Event{Op: history.OpLock, Key: "b"}, history.Event{})
		y.lock(50_020, 50_030, "w1.1/c3", history.Fail, 0)
	}
	for name, c := range map[string]struct {
		n, times int64
		th       history.Threshold
		change   func(*tiny)
		status   Status
		says     string
	}{
		"p99 within":            {100, 2, lock("p99", "before", 99), nil, StatusPass, "99.0 ms, of 100 operations; at most 99.0 ms"},
		"p99 beyond":            {100, 2, lock("p99", "before", 98), nil, StatusFail, "p99 of lock in phase before: 99.0 ms"},
		"p99 of another phase":  {100, 2, lock("p99", "fault", 197), nil, StatusFail, "198.0 ms"},
		"p99 of few":            {99, 2, lock("p99", "fault", 9000), nil, StatusInvalid, "could not be measured: 99 operations of lock in phase fault, the p99 needs 100"},
		"max of few":            {3, 2, lock("max", "fault", 6), nil, StatusPass, "6.0 ms"},
		"p50":                   {10, 2, lock("p50", "before", 4), nil, StatusFail, "5.0 ms"},
		"no such phase":         {100, 2, lock("max", "drain", 9000), nil, StatusInvalid, "0 operations of lock in phase drain"},
		"ratio within":          {100, 3, history.Threshold{Latency: "lock", Quantile: "p95", Phase: "fault", TimesBefore: 3}, nil, StatusPass, "at most 285.0 ms (3 times that of phase before)"},
		"ratio beyond":          {100, 3, history.Threshold{Latency: "lock", Quantile: "p95", Phase: "fault", TimesBefore: 2.9}, nil, StatusFail, "285.0 ms, of 100 operations"},
		"answers that are lost": {100, 1, lock("p99", "fault", 9000), unanswered(2, history.Unknown), StatusFail, "longer than anybody waited, of 102 operations, 2 without success"},
		"calls given up":        {100, 1, lock("p99", "fault", 9000), unanswered(2, history.Fail), StatusFail, "2 without success"},
		"one given up of many":  {100, 1, lock("p99", "fault", 100), unanswered(1, history.Fail), StatusPass, "100.0 ms, of 101 operations, 1 without success"},
		"what never ended": {100, 1, lock("max", "fault", 100), func(y *tiny) {
			y.lock(30_000, 0, "w2.1/c1", "", 0)
			y.note(30_001, "w2.1", history.Event{Op: history.NoteCrash})
		}, StatusPass, "of 100 operations"},
		"given up at the end": {3, 1, lock("max", "recover", 10), func(y *tiny) {
			y.lock(50_300, 50_401, "w1.1/c2", history.Fail, 0)
		}, StatusPass, "of 1 operation;"},
		"first in time":                           {3, 1, recovery("first", 100), nil, StatusPass, "100.0 ms, the longest of 1 heal"},
		"first too late":                          {3, 1, recovery("first", 99), nil, StatusFail, "100.0 ms"},
		"slowest in time":                         {3, 1, recovery("slowest", 100), nil, StatusPass, "100.0 ms"},
		"slowest never came":                      {3, 1, recovery("slowest", 300), other, StatusFail, "longer than anybody waited"},
		"slowest, no time":                        {3, 1, recovery("slowest", 5000), other, StatusInvalid, "none followed of b after f1 (pause-worker) was healed 400.0 ms before the end"},
		"slowest, asked across the heal":          {3, 1, recovery("slowest", 300), across, StatusFail, "longer than anybody waited"},
		"slowest, asked across the heal, no time": {3, 1, recovery("slowest", 5000), across, StatusInvalid, "none followed of b after f1 (pause-worker) was healed 400.0 ms before the end"},
		"first, two heals": {3, 1, recovery("first", 209), func(y *tiny) {
			y.fault("f2", "pause-worker", 50_105, 50_110, "w9")
			cycle(y, 50_300, 50_320, "w1.1/c1", y.row.Fence+1)
		}, StatusFail, "210.0 ms, the longest of 2 heals"},
		"first, other lock":  {3, 1, recovery("first", 100), other, StatusPass, "100.0 ms"},
		"lateness of nobody": {3, 1, history.Threshold{Lateness: "p99", MaxMS: 5}, nil, StatusInvalid, "0 starts outside of faults, the p99 needs 100"},
		"nonsense":           {3, 1, history.Threshold{Latency: "lunch", Quantile: "p99", Phase: "fault", MaxMS: 5}, nil, StatusInvalid, `latency of "lunch"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []string{"P15"}
			if c.status == StatusPass {
				want = nil
			}
			message := c.says
			if c.status == StatusPass {
				message = ""
			}
			r := tinyCheck(t, measured(c.n, c.times, c.th, c.change), message, want...)
			p := propertyOf(r, "P15")
			if p.Status != c.status || !strings.Contains(p.Detail, c.says) || len(r.Thresholds) != 1 || r.Thresholds[0].Status != c.status {
				t.Errorf("%s: %q, %+v", p.Status, p.Detail, r.Thresholds)
			}
			if v := map[Status]Verdict{StatusPass: Pass, StatusFail: Fail, StatusInvalid: Invalid}[c.status]; r.Verdict != v {
				t.Errorf("%s, want %s: %s", r.Verdict, v, r.Summary)
			}
			if b := r.Thresholds[0]; math.IsInf(b.MS, 0) || c.status != StatusInvalid && b.MostMS == 0 {
				t.Errorf("not for JSON: %+v", b)
			}
		})
	}
}

// One that is exceeded outweighs one that could not be measured; without any the
// property is n/a, and no blind spot of the run.
func TestThresholdsTogether(t *testing.T) {
	t.Parallel()
	h := measured(3, 1, history.Threshold{Latency: "lock", Quantile: "max", Phase: "before", MaxMS: 1}, func(y *tiny) {
		y.expect(history.Expect{Thresholds: []history.Threshold{{Lateness: "max", MaxMS: 1}}})
	})
	r := tinyCheck(t, h, "could not be measured", "P15")
	if r.Verdict != Fail || propertyOf(r, "P15").Count != 2 {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
	none := measured(3, 1, history.Threshold{}, nil)
	for i := range none.Events {
		if x := none.Events[i].Expect(); x != nil {
			x.Thresholds = nil
		}
	}
	r = tinyCheck(t, none, "")
	if p := propertyOf(r, "P15"); p.Status != StatusNA || strings.Contains(r.Summary, "P15") || !strings.Contains(r.Summary, "P12") {
		t.Errorf("%s: %s", p.Status, r.Summary)
	}
}

// Lateness is what P12 measured, and the waits for jobs are measured too.
func TestThresholdsOfJobs(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	judge := func(th ...history.Threshold) Property {
		e := newEdit(simulate(smallJobs(3)))
		x := *e.notes(history.NoteExpect)[0].Expect()
		x.Thresholds = th
		e.notes(history.NoteExpect)[0].OwnDetails().Expect = &x
		return propertyOf(Check(t.Context(), e.h, Options{}), "P15")
	}
	all := []history.Threshold{
		{Lateness: "p99", MaxMS: 3_600_000}, {Latency: "start", Quantile: "p95", Phase: "recover", MaxMS: 3_600_000},
		{Latency: "run", Quantile: "p50", Phase: "before", MaxMS: 3_600_000}, {Latency: "tick", Quantile: "p95", Phase: "fault", TimesBefore: 1e9},
		{Recovery: "first", MaxMS: 3_600_000},
	}
	if p := judge(all...); p.Status != StatusPass || p.Checked != len(all) {
		t.Fatalf("%s: %s", p.Status, p.Detail)
	}
	for _, th := range all {
		if th.MaxMS = min(th.MaxMS, 1); th.TimesBefore > 0 {
			th.TimesBefore = 1e-9
		}
		if p := judge(th); p.Status != StatusFail {
			t.Errorf("%s: %s: %s", th, p.Status, p.Detail)
		}
	}
}
