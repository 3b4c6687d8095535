package measure

import "fencepost/harness/record/history"

// Spans of a job's life that are measured like operations.
const (
	OpStart = history.SpanStart
	OpRun   = history.SpanRun
)
