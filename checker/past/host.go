package past

import (
	"fmt"

	"fencepost/harness/record/history"
)

// loaded are the phases in which what is judged by time happens.
var loaded = map[string]bool{"before": true, "fault": true, "heal": true, "recover": true, PhaseDrain: true}

// Busy says that the machine was too busy for times to say anything about the system, and
// by which note; "" if it was not, or nobody looked.
func (a *Past) Busy() (string, *history.Event) {
	var worst *history.Event
	for _, e := range a.hosts {
		if loaded[e.Host().Phase] && e.Host().LagP99MS > history.MaxLagMS && (worst == nil || e.Host().LagP99MS > worst.Host().LagP99MS) {
			worst = e
		}
	}
	if worst == nil {
		return "", nil
	}
	h := worst.Host()
	return fmt.Sprintf("host too busy: in phase %s the harness's own timer was late by %.0f ms (p99) and %.0f ms at most; up to %d ms are allowed; %.0f %% of the processors' time was stolen",
		h.Phase, h.LagP99MS, h.LagMaxMS, history.MaxLagMS, 100*h.Steal), worst
}

// Cold says that latencies had not settled when the warmup was over.
func (a *Past) Cold() (string, *history.Event) {
	for _, e := range a.hosts {
		if e.Host().Cold {
			return "not warm: latencies had not settled when the warmup was over", e
		}
	}
	return "", nil
}
