package store

import (
	"context"
	"time"
)

// RunsDay names a partition of run rows: those of one shard's jobs whose runs ended
// on one day.
type RunsDay struct {
	Shard ShardID
	Day   int // since 1970-01-01, in UTC
}

// DayOf is the day of an instant.
func DayOf(t time.Time) int {
	const day = 24 * 60 * 60
	s := t.Unix()
	if s < 0 {
		s -= day - 1
	}
	return int(s / day)
}

// RunRow tells people of a run of a job that has ended. Nothing rests on it: it may
// be missing, and what it says is what one process knew.
type RunRow struct {
	Job     string
	Run     int64
	Attempt int
	// Outcome is what became of it, Error why, if it failed.
	Outcome, Error string
	// Worker is the process that ran it; "" if the row is of another one that only
	// knows its outcome: then Started, Ended and Error are not known and not written.
	Worker string
	// Started and Ended are in whole ms, by the worker's wall clock; a zero Started
	// means that it never was.
	Started, Ended time.Time
}

// Runs is the store of run rows. They are written plainly, each whole, and forgotten
// some weeks later. Implementations are safe for concurrent use. Every error is
// classified by OutcomeOf; a write may be repeated.
type Runs interface {
	// PutRuns writes rows of one day in one request, at most MaxOps of them. A row of
	// the same job and run is overwritten, but for what is not known.
	PutRuns(ctx context.Context, d RunsDay, rows []RunRow) error
	// RunsOf returns a job's rows of a day, by run.
	RunsOf(ctx context.Context, d RunsDay, job string) ([]RunRow, error)
	// RunsOn returns rows of a day after those of a job's run, by job and run, at
	// most limit of them.
	RunsOn(ctx context.Context, d RunsDay, afterJob string, afterRun int64, limit int) ([]RunRow, error)
}
