package engine

import (
	"time"

	"fencepost/core/job"
	"fencepost/core/schedule"
)

// WithDecide puts another decision in the place of a schedule's.
func (o Options) WithDecide(decide func(s *schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision) Options {
	o.decide = decide
	return o
}

// WithAnchor makes an owner count its trust from another instant than it should,
// to prove that the simulation notices.
func (o Options) WithAnchor(anchor func(firstSend, answered time.Duration) time.Duration) Options {
	o.anchor = anchor
	return o
}

// BytesInMemory is what the bodies of jobs take.
func (e *Engine) BytesInMemory() int64 { return e.bytes.Load() }

// WithOneRoom plants a mistake: commands and enqueues share the number of those who may wait.
func (o Options) WithOneRoom() Options {
	o.oneRoom = true
	return o
}
