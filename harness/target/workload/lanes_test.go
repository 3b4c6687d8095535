package workload

import "testing"

// TestLanes: run ids of two shards are the same number, a lane is given to one run
// at a time, and a free one is used again.
func TestLanes(t *testing.T) {
	t.Parallel()
	l := newLanes("w1.1")
	a, b := runKey{"shard/q/0", 1 << 32}, runKey{"shard/q/1", 1 << 32}
	la, lb := l.begin(a), l.begin(b)
	if la == lb || la.proc == lb.proc || l.of(a) != la || l.of(b) != lb {
		t.Fatalf("two shards' runs share a lane: %+v, %+v", la, lb)
	}
	la.started = true
	l.end(a)
	l.end(a)
	if l.of(a) != nil {
		t.Error("a run that ended has a lane")
	}
	c := runKey{"shard/q/0", 1<<32 | 1}
	if lc := l.begin(c); lc.proc != la.proc || lc.started {
		t.Errorf("the free lane is not used, or not new: %+v", lc)
	}
	lent := runKey{"lock/q/j", 7}
	if e := l.enter(lent, "w1.1/x"); e.proc != "w1.1/x" || l.of(lent) != e {
		t.Errorf("a lane that the scheduler names: %+v", e)
	}
	l.end(lent)
	if d := l.begin(a); d.proc == la.proc || d.proc == lb.proc || d.proc == "w1.1/x" {
		t.Errorf("a lane was free twice: %+v", d)
	}
}
