package checker

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// orphan is a run in which w1.1 takes the lock at 30 and is killed, and w2.1 waits
// from the instant wait on and takes the lock over at taken. It must by ttl + ttl/8 +
// 500 = 1625 after it began to wait.
type orphan struct {
	wait, taken int64
	change      func(*tiny)
}

func (o orphan) history() *history.History {
	y := newTiny("w1.1", "w2.1", "w3.1")
	y.expect(history.Expect{RecoveryBoundMS: 500})
	y.lock(10, 30, "w1.1/c1", history.OK, 1)
	y.cas(12, 28, "w1.1/c1", history.OpAcquire, history.OK)
	y.note(40, "w1.1", history.Event{Op: history.NoteCrash})
	if o.change != nil {
		o.change(y)
	}
	y.lock(o.wait, o.taken+5, "w2.1/c1", history.OK, y.row.Fence+1)
	y.cas(o.taken, o.taken+4, "w2.1/c1", history.OpAcquire, history.OK)
	y.cas(o.taken+10, o.taken+14, "w2.1/c1", history.OpRelease, history.OK)
	return y.end(9000)
}

func TestOrphans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    orphan
		fail bool
		why  string // it is not judged
	}{
		"in time":        {orphan{wait: 100, taken: 1200}, false, ""},
		"just in time":   {orphan{wait: 100, taken: 1725}, false, ""},
		"too late":       {orphan{wait: 100, taken: 1726}, true, ""},
		"much too late":  {orphan{wait: 100, taken: 6000}, true, ""},
		"waited late":    {orphan{wait: 3000, taken: 4500}, false, ""},
		"waited too":     {orphan{wait: 3000, taken: 4700}, true, ""},
		"wait came last": {orphan{wait: 4000, taken: 4100}, false, ""},
		"the waiting worker was paused": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "pause-worker", 1000, 2500, "w2")
		}}, false, ""},
		"another worker was paused": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "pause-worker", 1000, 2500, "w3")
		}}, true, ""},
		"paused, and then too late": {orphan{wait: 100, taken: 4200, change: func(y *tiny) {
			y.fault("f1", "pause-worker", 1000, 2500, "w2")
		}}, true, ""},
		"a link of the waiting worker": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "slow-link", 1000, 2500, "w2->n1")
		}}, false, ""},
		"a long job of the waiting worker": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "slow-job", 1000, 2500, "w2")
		}}, true, ""},
		"the quorum was away": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "partition", 1000, 2500, "n1", "n2")
		}}, false, ""},
		"the quorum was away before": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "partition", 60, 90, "n1", "n2")
		}}, true, ""},
		"a minority was away": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "partition", 1000, 2500, "n1")
		}}, true, ""},
		"a minority was away, and it was in time": {orphan{wait: 100, taken: 1725, change: func(y *tiny) {
			y.fault("f1", "partition", 1000, 2500, "n1")
		}}, false, ""},
		"two nodes were away, one after the other": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "kill-node", 1000, 1700, "n1")
			y.fault("f2", "kill-node", 1701, 2500, "n2")
		}}, true, ""},
		"two nodes were away at once": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "kill-node", 900, 2500, "n1")
			y.fault("f2", "pause-node", 1000, 2600, "n2")
		}}, false, ""},
		"one node of five was away": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.expect(history.Expect{Nodes: 5})
			y.fault("f1", "kill-node", 1000, 2500, "n5")
		}}, true, ""},
		"the only node was away": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.expect(history.Expect{Nodes: 1})
			y.fault("f1", "kill-node", 1000, 2500, "n1")
		}}, false, ""},
		"a bridge leaves a quorum to everybody": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "partition-bridge", 1000, 2500, "n1")
		}}, true, ""},
		"a bridge and a node": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "partition-bridge", 1000, 2500, "n1")
			y.fault("f2", "kill-node", 1000, 2500, "n1")
		}}, false, ""},
		"a ring leaves a quorum to everybody": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "partition-ring", 1000, 2500, "w1", "w2", "w3")
		}}, true, ""},
		"cut off from the sink, not from the locks": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "sink-outage", 1000, 2500, "w2")
		}}, true, ""},
		"answers that come too late": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.delay("f1", "latency", 1000, 2500, 84, "w2")
		}}, false, ""},
		"answers that come in time": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.delay("f1", "latency", 1000, 2500, 83, "w2")
		}}, true, ""},
		"answers that come too late, one way": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.delay("f1", "latency-oneway", 1000, 2500, 167, "w2")
		}}, false, ""},
		"answers that come in time, one way": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.delay("f1", "latency-oneway", 1000, 2500, 166, "w2")
		}}, true, ""},
		"taken over within a fault": {orphan{wait: 100, taken: 2000, change: func(y *tiny) {
			y.fault("f1", "partition", 50, 2500, "n1", "n2")
		}}, false, property.WhyFault},
		"two faults that meet": {orphan{wait: 100, taken: 5000, change: func(y *tiny) {
			y.fault("f1", "partition", 1000, 2500, "n1", "n3")
			y.fault("f2", "partition-client", 2400, 4000, "w2")
		}}, false, ""},
		"a clock's offset is no excuse": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "clock-offset", 1000, 2500, "w2")
			y.note(999, "w2.1", history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{OffsetMS: 60_000}}})
		}}, true, ""},
		"a clock that is much too slow": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.fault("f1", "clock-rate", 1000, 2500, "w2")
			y.note(999, "w2.1", history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{RatePPM: -500_000}}})
			y.note(2500, "w2.1", history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{}}})
		}}, false, ""},
		"a machine that slept": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.note(999, "w2.1", history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{Suspended: true}}})
			y.note(2500, "w2.1", history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{}}})
		}}, false, ""},
		"renewed later": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.cas(2000, 2020, "w1.1/c1", history.OpRenew, history.OK)
		}}, true, ""}, // from 30 to 2000 nobody took it, though w2 waited
		"renewed": {orphan{wait: 100, taken: 2500, change: func(y *tiny) {
			y.cas(1000, 1020, "w1.1/c1", history.OpRenew, history.OK)
		}}, false, ""},
		"an unknown renewal": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.cas(35, 0, "w1.1/c1", history.OpRenew, "")
		}}, false, property.WhyAmbiguous},
		"an unknown renewal that somebody saw": {orphan{wait: 100, taken: 3000, change: func(y *tiny) {
			y.cas(35, 0, "w1.1/c1", history.OpRenew, "")
			row := y.row
			y.op(200, 220, "w3.1/c1", history.OK, history.Event{Op: history.OpRead, Key: "a"}, history.Event{Row: &row})
		}}, true, ""},
		"only its own process waits": {orphan{wait: 4000, taken: 4100, change: func(y *tiny) {
			y.lock(20, 0, "w1.1/c2", "", 0)
		}}, false, ""},
		"a waiter that was killed": {orphan{wait: 4000, taken: 4100, change: func(y *tiny) {
			y.lock(100, 0, "w3.1/c1", "", 0)
			y.note(1500, "w3.1", history.Event{Op: history.NoteCrash})
		}}, false, ""},
		"a waiter that gave up": {orphan{wait: 4000, taken: 4100, change: func(y *tiny) {
			y.lock(100, 1500, "w3.1/c1", history.Fail, 0)
		}}, false, ""},
		"a waiter that gave up in vain": {orphan{wait: 4000, taken: 4100, change: func(y *tiny) {
			y.lock(100, 1800, "w3.1/c1", history.Fail, 0)
		}}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := c.o.history()
			if !c.fail {
				r := tinyCheck(t, h, "")
				want := map[string]int{}
				if c.why != "" {
					want[c.why] = 1
				}
				if len(r.Recovery.NotJudged) != len(want) || r.Recovery.NotJudged[c.why] != want[c.why] || r.Recovery.Judged != 1-len(want) {
					t.Errorf("%+v, want not judged %v", r.Recovery, want)
				}
				return
			}
			tinyCheck(t, h, "waited and nothing kept it from taking over", "P11")
		})
	}
}

// TestOrphanNeverTaken: the seal finds the lock still held by the dead.
func TestOrphanNeverTaken(t *testing.T) {
	t.Parallel()
	run := func(until int64) *history.History {
		y := newTiny("w1.1", "w2.1")
		y.expect(history.Expect{RecoveryBoundMS: 500})
		y.lock(1, 4, "w2.1/c1", history.OK, 1)
		y.cas(2, 3, "w2.1/c1", history.OpAcquire, history.OK)
		y.cas(5, 6, "w2.1/c1", history.OpRelease, history.OK)
		y.lock(10, 30, "w1.1/c1", history.OK, 2)
		y.cas(12, 28, "w1.1/c1", history.OpAcquire, history.OK)
		y.note(40, "w1.1", history.Event{Op: history.NoteCrash})
		y.lock(100, until, "w2.1/c1", history.Fail, 0)
		return y.end(5000)
	}
	tinyCheck(t, run(4000), "stood still", "P11")
	r := tinyCheck(t, run(1500), "")
	if p := propertyOf(r, "P11"); r.Recovery.NotJudged[property.WhyNobody] != 1 || p.Status != StatusNA {
		t.Errorf("%+v, %s", r.Recovery, p.Status)
	}
}

// TestProgressAfterHeal: a free lock that nobody takes, though somebody waits.
func TestProgressAfterHeal(t *testing.T) {
	t.Parallel()
	run := func(heal, taken int64) *history.History {
		y := newTiny("w1.1", "w2.1")
		y.expect(history.Expect{RecoveryBoundMS: 500})
		y.lock(10, 30, "w1.1/c1", history.OK, 1)
		y.cas(12, 28, "w1.1/c1", history.OpAcquire, history.OK)
		y.cas(31, 33, "w1.1/c1", history.OpRelease, history.OK)
		y.fault("f1", "partition", 40, heal, "n1", "n2")
		y.lock(100, taken+5, "w2.1/c1", history.OK, 2)
		y.cas(taken, taken+4, "w2.1/c1", history.OpAcquire, history.OK)
		y.cas(taken+10, taken+14, "w2.1/c1", history.OpRelease, history.OK)
		return y.end(9000)
	}
	tinyCheck(t, run(500, 2200), "was free and nobody took it", "P11")
	r := tinyCheck(t, run(500, 2100), "")
	if p := propertyOf(r, "P11"); p.Status != StatusPass || p.Checked != 1 {
		t.Errorf("%+v", p)
	}
	tinyCheck(t, run(4000, 5000), "")
	if f := r.Recovery.Faults; len(f) != 1 || f[0].ID != "f1" || f[0].FirstMS != 1614 || f[0].SlowestMS != 1614 || f[0].SlowestLock != "a" || f[0].Locks != 1 {
		t.Errorf("%+v", f)
	}
}

func TestRecoveryNumbers(t *testing.T) {
	t.Parallel()
	r := tinyCheck(t, orphan{wait: 100, taken: 1200, change: func(y *tiny) { y.fault("f1", "kill-worker", 39, 1100, "w1") }}.history(), "")
	// From the answer of the grant at 28 to that of the takeover at 1204.
	if got := r.Recovery; got.Orphans != 1 || got.Judged != 1 || math.Abs(got.MaxTTL-1.176) > 1e-9 || got.P50TTL != got.MaxTTL {
		t.Errorf("%+v", got)
	}
	var out bytes.Buffer
	Print(&out, r)
	want := "recovery: 1 orphaned lease, 1 judged; taken over after 1.18 ttl (p50), 1.18 ttl at most; first release within 114 ms of a heal (f1 kill-worker), of every lock that had one within 114 ms (f1, a)\n"
	if !strings.Contains(out.String(), want) {
		t.Errorf("%s\nlacks %s", &out, want)
	}
}
