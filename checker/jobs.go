package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

// jobs is what the history says about jobs: what clients asked for, what the
// batches of the shards did, what workers ran, and the rows that were left.
type jobs struct {
	at    map[jobRef]*jobLog
	list  []*jobLog       // by shard and id, when all is read
	rows  map[string]int  // by shard: row notes of its partition
	ends  map[string]bool // by shard, "" of jobs with a lock each: its rows were read to the end
	found map[string][]finding
	// schedules by shard and key.
	schedules map[jobRef]*scheduleLog
	// unread are the shards with jobs whose rows were not noted.
	unread []string
	n      JobCounts
	// locked counts the jobs that have a lock each, lockedRows the notes of their rows.
	locked, lockedRows int
}

type jobRef struct{ shard, id string }

// jobLog is everything about one job.
type jobLog struct {
	jobRef               // shard is its lock, if it has one of its own; see lockedjobs.go
	calls   []*op        // enqueues
	updates []*op        // of a job with a lock of its own
	spec    *history.Job // as first asked for; nil if nobody did
	of      *scheduleLog // the schedule that enqueued it, or nil
	// after is the job that it follows in a sequence, next the one that follows it.
	after, next *jobLog
	starts      []*history.Event
	finishes    map[int64]*history.Event // by run
	rows        []*history.Event
	// By the replay: what was done to it, in order, and where that led.
	steps []jobStep
	now   jobState
	sure  int    // the stretch of the shard's chain in which now is known
	end   string // the state in which it ended, also when it is swept since
}

// jobState is a job's place at one point of its shard's chain.
type jobState struct {
	name    string // "": not in the shard
	attempt int
	run     int64
	due     int64
	// since is when the change that made it so was asked for.
	since int64
	// hastened: it was brought forward, and has no time of its own any more.
	hastened bool
}

// The names of states, as in a job's row.
const (
	statePending   = "pending"
	stateRunning   = "running"
	stateCompleted = "completed"
	stateDLQ       = "dlq"
	stateCancelled = "cancelled"
	stateAbandoned = "abandoned"
)

func ended(state string) bool {
	return state != "" && state != statePending && state != stateRunning
}

// jobStep is one change that took effect.
type jobStep struct {
	w *write
	c *history.Change
}

// claim is a claim that took effect.
type claim struct {
	j  *jobLog
	w  *write
	c  *history.Change
	at jobState // before it
}

// finding is a violation found by the replay, before its property is checked.
type finding struct {
	key, message string
	events       []*history.Event
}

func newJobs() jobs {
	return jobs{at: map[jobRef]*jobLog{}, rows: map[string]int{}, ends: map[string]bool{}, found: map[string][]finding{}, schedules: map[jobRef]*scheduleLog{}}
}

func (x *jobs) of(shard, id string) *jobLog {
	r := jobRef{shard, id}
	j := x.at[r]
	if j == nil {
		j = &jobLog{jobRef: r}
		x.at[r] = j
	}
	return j
}

// call files an enqueue.
func (x *jobs) call(o *op) {
	j := x.of(o.inv.Job().Shard, o.inv.Key)
	j.calls = append(j.calls, o)
	if j.spec == nil {
		j.spec = o.inv.Job()
	}
}

// note files a start, a finish or a row.
func (x *jobs) note(e *history.Event) {
	j := x.of(e.Issuer, e.Key)
	switch e.Op {
	case history.NoteStart:
		j.starts = append(j.starts, e)
	case history.NoteFinish:
		if j.finishes == nil {
			j.finishes = map[int64]*history.Event{}
		}
		if j.finishes[e.Token] == nil {
			j.finishes[e.Token] = e
		}
	case history.NoteRow:
		if e.JobRow() == nil {
			return
		}
		j.rows = append(j.rows, e)
		switch {
		case j.locked():
			x.lockedRows++
		case e.JobRow().Kind != history.RowInbox:
			x.rows[e.Issuer]++
		}
	}
}

// sorted is all jobs in order.
func (x *jobs) sorted() []*jobLog {
	return slices.SortedFunc(maps.Values(x.at), func(i, j *jobLog) int {
		return cmp.Or(cmp.Compare(i.shard, j.shard), cmp.Compare(i.id, j.id))
	})
}

func (x *jobs) add(property, key string, events []*history.Event, format string, args ...any) {
	x.found[property] = append(x.found[property], finding{key, fmt.Sprintf(format, args...), events})
}

// report gives a property what the replay found for it.
func (x *jobs) report(property string, p *Property) {
	for _, f := range x.found[property] {
		p.add(f.key, f.events, "%s", f.message)
	}
}

// any says whether the run is about jobs.
func (x *jobs) any() bool { return len(x.at)+x.n.Shards > 0 }

// last is the operation that made the job what it is, or nil.
func (j *jobLog) last() *op {
	if n := len(j.steps); n > 0 {
		return &j.steps[n-1].w.main().op
	}
	if n := len(j.updates); n > 0 {
		return j.updates[n-1]
	}
	return nil
}

// row is the note of a kind of row, or nil.
func (j *jobLog) row(kind string) *history.Event {
	if rows := j.rowsOf(kind); len(rows) > 0 {
		return rows[0]
	}
	return nil
}

func (j *jobLog) rowsOf(kind string) (out []*history.Event) {
	for _, e := range j.rows {
		if e.JobRow().Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// claimOf is the claim of a run, or nil.
func (l *rowLog) claimOf(run int64) *claim {
	if l == nil || l.replayed == nil {
		return nil
	}
	return l.replayed.claims[run]
}
