package run

import (
	"fencepost/harness/env/host"
	"fencepost/harness/record/history"
)

// noteHost records how busy the machine was in the phase that ends.
func (r *runner) noteHost() {
	if r.meter == nil {
		r.meter = host.Start()
		return
	}
	h := r.meter.Take()
	h.Phase, h.Cold = r.current, r.current == history.PhaseWarmup && r.cold
	r.note(history.Event{Op: history.NoteHost, Details: &history.Details{Host: &h}})
	if h.LagP99MS > history.MaxLagMS {
		r.progress.problem("host too busy in phase %s: the harness's own timer was late by %.0f ms (p99), %.0f %% of the processors' time was stolen", h.Phase, h.LagP99MS, 100*h.Steal)
	}
}
