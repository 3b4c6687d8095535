package engine

import (
	"slices"
	"testing"
)

// TestAFloodStarvesNothing: with more enqueues than can be taken and more due jobs than
// can run, jobs are taken, run and end, none of them at the others' cost.
func TestAFloodStarvesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *machineConfig) { c.maxOps = 24 })
	const batches = 120
	taken, begun, ended, asked := 0, 0, 0, 0
	for range batches {
		for ; r.m.queue.len() < 200; asked++ {
			r.enqueue(asked, 0)
		}
		r.tick(r.m.cfg.maxRunning - r.m.running)
		for _, e := range r.m.take() {
			switch {
			case e.kind == effAck:
				taken++
			case e.kind == effStart:
				begun++
				r.m.finished(e.run.Job.ID, e.run.ID, nil, r.now, 0)
			case e.kind == effDone && e.i.kind == doFinish:
				ended++
			}
		}
	}
	if taken < batches || begun < batches || ended < batches {
		t.Errorf("in %d batches %d jobs were taken, %d began, %d ended", batches, taken, begun, ended)
	}
}

// TestWhatIsTooLargeHasItsTurn: a change that takes a batch of its own goes, whatever else
// waits.
func TestWhatIsTooLargeHasItsTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *machineConfig) { c.maxOps, c.maxBytes = 24, 3000 })
	for n := range 200 {
		r.enqueue(n, 0)
	}
	for r.m.queue.len() > 0 {
		r.tick(0)
	}
	run := func() (acked []*waiter) {
		r.tick(r.m.cfg.maxRunning - r.m.running)
		for _, e := range r.m.take() {
			switch e.kind {
			case effAck:
				acked = append(acked, e.i.wait)
			case effStart:
				r.m.finished(e.run.Job.ID, e.run.ID, nil, r.now, 0)
			}
		}
		return acked
	}
	run()
	large := r.job(1000)
	large.Payload = make([]byte, 6000)
	w := newWaiter()
	r.m.enqueue(large, r.body(large), r.now, w, nil)
	for range 20 { // there is work for more
		if slices.Contains(run(), w) {
			return
		}
	}
	t.Error("it never went")
}
