package store

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Version is the whole content of a lock row that takes part in decisions. It
// is comparable; two rows are the same version only if all fields agree. A row
// that does not exist is a nil *Version.
type Version struct {
	// Fence is the fencing token of the current or last grant: it rises by one
	// with every grant and never falls, as rows are never deleted.
	Fence int64
	// Beat counts the changes under one fence: renewals and the release.
	Beat int64
	// Attempt is the UUID of the try that made the grant, or of the release.
	Attempt string
	// Holder is the holder's name for people and logs; "" means free.
	Holder string
	// TTL is the grant's time to live, in whole milliseconds.
	TTL time.Duration
}

// Free reports whether nobody holds the row.
func (v *Version) Free() bool { return v == nil || v.Holder == "" }

// Older reports whether v comes before w in the row's life. Fence and beat
// alone order the versions of one row.
func (v *Version) Older(w *Version) bool {
	switch {
	case w == nil:
		return false
	case v == nil:
		return true
	case v.Fence != w.Fence:
		return v.Fence < w.Fence
	}
	return v.Beat < w.Beat
}

func (v *Version) String() string {
	if v == nil {
		return "absent"
	}
	return fmt.Sprintf("(fence %d, beat %d, holder %q, attempt %s, ttl %s)", v.Fence, v.Beat, v.Holder, v.Attempt, v.TTL)
}

// Same reports whether two row pointers stand for the same version.
func Same(a, b *Version) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// CASResult is the answer to a compare-and-set.
type CASResult struct {
	// Applied: the row was the expected version and is now the new one.
	Applied bool
	// Row is the row that was there instead when Applied is false; nil if it
	// does not exist.
	Row *Version
}

// Locks is the store of lock rows. Implementations are safe for concurrent use.
// Every error is classified by OutcomeOf. Requests end when their context does.
type Locks interface {
	// Read returns the row, or nil if it does not exist. A serial read is
	// linearizable with CAS; the other kind may be late but sees everything
	// that was committed before an earlier read of the same kind returned it.
	Read(ctx context.Context, resource string, serial bool) (*Version, error)
	// CAS sends one copy of a compare-and-set of the whole version; from nil
	// means that the row must not exist. Copies of one operation are identical.
	// copyNo 0 is the first; 1, 2, … are resends, each by another node if there
	// is one. With a non-nil error the outcome is OutcomeOf(err).
	CAS(ctx context.Context, resource string, from *Version, to Version, copyNo int) (CASResult, error)
}

// Statement is a CQL statement with its arguments.
type Statement struct {
	CQL  string
	Args []any
	// Partition holds the partition key's values in order (string, []byte,
	// int32 or int64). With it a request is routed to the partition's replicas
	// without asking the server how; without it the driver works it out from
	// the prepared statement.
	Partition []any
}

// Members is the store of heartbeats: plain writes and reads, which advise who
// should own what and decide nothing. Implementations are safe for concurrent use.
type Members interface {
	// Beat writes a heartbeat: a nonce (a UUID) that no other beat has. The row
	// vanishes after keep, in whole seconds, by the store's own clocks.
	Beat(ctx context.Context, cell, name, nonce string, keep time.Duration) error
	// Leave removes the row.
	Leave(ctx context.Context, cell, name string) error
	// Members returns the nonces of the cell's rows by name. It may be late.
	Members(ctx context.Context, cell string) (map[string]string, error)
}

// RunsDay names a partition of run rows: those of one shard's jobs whose runs ended
// on one day.
type RunsDay struct {
	Shard ShardID
	Day   int // since 1970-01-01, in UTC
}

// DayOf is the day of an instant.
func DayOf(t time.Time) int {
	const day = 24 * 60 * 60
	return int(math.Floor(float64(t.Unix()) / day))
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
