package engine

import "testing"

// TestNoMoreRunThanMay: however many slots the executor has, a shard has no more runs than
// MaxRunning, and as many when more are due.
func TestNoMoreRunThanMay(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *machineConfig) { c.maxOps, c.maxRunning = 30, 7 })
	for n := range 40 {
		r.enqueue(n, 0)
	}
	for n := range 20 {
		p := r.next(100)
		if p == nil {
			break
		}
		r.m.settled(p)
		if r.m.running > 7 || r.m.wanted(r.now) > 7-r.m.running {
			t.Fatalf("after %d batches %d run, and %d more are wanted", n+1, r.m.running, r.m.wanted(r.now))
		}
	}
	if r.m.running != 7 {
		t.Errorf("%d run", r.m.running)
	}
}

// TestFiresStayBelowTheLimitOfABatch: of what was missed as many fire at once as fit.
func TestFiresStayBelowTheLimitOfABatch(t *testing.T) {
	t.Parallel()
	const limit = 8 << 10
	r := newScheduleRig(t, func(c *machineConfig) { c.maxBytes, c.maxOps = limit, 1000 })
	s := r.put(r.every("s", all))
	r.pass(60_000)
	for n := 0; s.state.Last < r.now.wall; n++ {
		p := r.fires(0)
		if got := p.batch.Bytes(); got > limit || n > 60 {
			t.Fatalf("batch %d has %d bytes, for %d jobs", n, got, len(p.intents[0].enqueues))
		}
		r.m.settled(p)
	}
	if s.state.Fired != 60 {
		t.Errorf("%d of 60 fired", s.state.Fired)
	}
}
