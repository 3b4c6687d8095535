package past

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// Jobs is what the history says about jobs: what clients asked for, what the
// batches of the shards did, what workers ran, and the rows that were left.
type Jobs struct {
	at    map[JobRef]*Job
	List  []*Job          // by shard and id, when all is read
	rows  map[string]int  // by shard: row notes of its partition
	Ends  map[string]bool // by shard, "" of jobs with a lock each: its rows were read to the end
	Found map[string][]Finding
	// Schedules by shard and key.
	Schedules map[JobRef]*Schedule
	Commands  Commands
	// Ordered counts the batches whose claims were judged by priority, as a job of another one waited,
	// and Overtaken are those that were wrong. prioritized: some job has one that is not 0.
	Ordered     int
	Overtaken   []Overtaken
	prioritized bool
	// Astray are the failures after which a sequence did not do what its job asks for.
	Astray []Astray
	// Unread are the shards with jobs whose rows were not noted.
	Unread []string
	Counts JobCounts
	// Locked counts the jobs that have a lock each, lockedRows the notes of their rows.
	Locked, lockedRows int
}

// Astray is the end of a job after which its sequence continues and should not, or the reverse.
type Astray struct {
	Job   *Job // that has ended
	State string
	Next  *Job // that follows it; nil: none does
	Write *Write
}

type JobRef struct{ Shard, ID string }

// Job is everything about one job.
type Job struct {
	JobRef         // shard is its lock, if it has one of its own; see Locked
	Calls    []*Op // enqueues
	Updates  []*Op // of a job with a lock of its own
	Commands []*Op
	Spec     *history.Job // as asked for by the first call that may have been carried out; nil if nobody asked
	Schedule *Schedule    // the schedule that enqueued it, or nil
	// After is the job that it follows in a sequence, next the one that follows it.
	After, next *Job
	Starts      []*history.Event
	Finishes    map[int64]*history.Event // by run
	Rows        []*history.Event
	// By the replay: what was done to it, in order, and where that led.
	Steps   []JobStep
	Now     JobState
	sure    int    // the stretch of the shard's chain in which now is known
	EndedAs string // the state in which it ended, also when it is swept since
}

// JobState is a job's place at one point of its shard's chain.
type JobState struct {
	Name    string // "": not in the shard
	Attempt int
	Run     int64
	Due     int64
	// Since is when the change that made it so was asked for.
	Since int64
	// expedited: it was run at once on request: its scheduled time no longer counts.
	expedited bool
}

// The names of states, as in a job's row.
const (
	StatePending   = "pending"
	StateRunning   = "running"
	StateCompleted = "completed"
	StateDLQ       = "dlq"
	StateCancelled = "cancelled"
	StateAbandoned = "abandoned"
)

func Ended(state string) bool {
	return state != "" && state != StatePending && state != StateRunning
}

// JobStep is one change that took effect.
type JobStep struct {
	Write  *Write
	Change *history.Change
}

// Claim is a claim that took effect.
type Claim struct {
	Job    *Job
	Write  *Write
	Change *history.Change
	Was    JobState // before it
}

// Finding is a violation found by the replay, before its property is checked.
type Finding struct {
	Key, Message string
	Events       []*history.Event
}

func newJobs() Jobs {
	return Jobs{at: map[JobRef]*Job{}, rows: map[string]int{}, Ends: map[string]bool{}, Found: map[string][]Finding{},
		Schedules: map[JobRef]*Schedule{}}
}

func (x *Jobs) of(shard, id string) *Job {
	r := JobRef{shard, id}
	return entry(x.at, r, Job{JobRef: r})
}

// call files an enqueue.
func (x *Jobs) call(o *Op) {
	j := x.of(o.Invoke.Job().Shard, o.Invoke.Key)
	if j.Calls = append(j.Calls, o); o == askedBy(j.Calls) {
		j.Spec = o.Invoke.Job()
	}
}

// askedBy is the call that decides what was asked for: the first that may have been carried out, or
// the first if none may.
func askedBy(calls []*Op) *Op {
	if i := slices.IndexFunc(calls, func(o *Op) bool { return o.Outcome != history.Fail }); i >= 0 {
		return calls[i]
	}
	return calls[0]
}

// note files a start, a finish or a row.
func (x *Jobs) note(e *history.Event) {
	j := x.of(e.Issuer, e.Key)
	switch e.Op {
	case history.NoteStart:
		j.Starts = append(j.Starts, e)
	case history.NoteFinish:
		if j.Finishes == nil {
			j.Finishes = map[int64]*history.Event{}
		}
		if j.Finishes[e.Token] == nil {
			j.Finishes[e.Token] = e
		}
	case history.NoteRow:
		if e.JobRow() == nil {
			return
		}
		j.Rows = append(j.Rows, e)
		switch {
		case j.Locked():
			x.lockedRows++
		case e.JobRow().Kind != history.RowInbox:
			x.rows[e.Issuer]++
		}
	}
}

// sorted is all jobs in order.
func (x *Jobs) sorted() []*Job {
	return slices.SortedFunc(maps.Values(x.at), func(i, j *Job) int {
		return cmp.Or(cmp.Compare(i.Shard, j.Shard), cmp.Compare(i.ID, j.ID))
	})
}

func (x *Jobs) add(property, key string, events []*history.Event, format string, args ...any) {
	x.Found[property] = append(x.Found[property], Finding{key, fmt.Sprintf(format, args...), events})
}

// Any says whether the run is about jobs.
func (x *Jobs) Any() bool { return len(x.at)+x.Counts.Shards > 0 }

// Last is the operation that made the job what it is, or nil.
func (j *Job) Last() *Op {
	if n := len(j.Steps); n > 0 {
		return &j.Steps[n-1].Write.Main().Op
	}
	if n := len(j.Updates); n > 0 {
		return j.Updates[n-1]
	}
	return nil
}

// Row is the note of a kind of row, or nil.
func (j *Job) Row(kind string) *history.Event {
	if rows := j.rowsOf(kind); len(rows) > 0 {
		return rows[0]
	}
	return nil
}

func (j *Job) rowsOf(kind string) (out []*history.Event) {
	for _, e := range j.Rows {
		if e.JobRow().Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// ClaimOf is the claim of a run, or nil.
func (l *Row) ClaimOf(run int64) *Claim {
	if l == nil || l.Replayed == nil {
		return nil
	}
	return l.Replayed.Claims[run]
}

// Entered counts how often the job came into its shard, and gives the first batch.
func (j *Job) Entered() (first *Op, n int) {
	for _, s := range j.Steps {
		if s.Change.Do == history.DoEnqueue || s.Change.Do == history.DoDLQ && s.Change.Run == 0 && s.Change.Attempt == 0 && n == 0 {
			if n++; n == 1 {
				first = &s.Write.Main().Op
			}
		}
	}
	return first, n
}

// enters says whether a step brings the job into its shard, if it was not there.
func (s *JobStep) enters() bool {
	return s.Change.Do == history.DoEnqueue || s.Change.Do == history.DoDLQ && s.Change.Run == 0 && s.Change.Attempt == 0
}

// EnteredWithin says whether the job can have come into its shard within a span.
func (j *Job) EnteredWithin(from, to int64) bool {
	return slices.ContainsFunc(j.Steps, func(s JobStep) bool { return s.enters() && s.Write.Earliest() <= to && s.Write.Latest >= from })
}

// KeptFrom says whether the job can have been in its shard at an instant, or later.
func (j *Job) KeptFrom(ts int64) bool {
	return slices.ContainsFunc(j.stays(), func(s stay) bool { return s.state != "" && s.to >= ts })
}

// AcknowledgedByInbox: a client was told that the job is in the inbox.
func (j *Job) AcknowledgedByInbox() bool {
	return slices.ContainsFunc(j.Calls, func(o *Op) bool { return o.Outcome == history.OK && o.End.Result == ResultInbox })
}

// findTwice finds runs that were started twice: one claim, one start (P6).
func (x *Jobs) findTwice() {
	for _, j := range x.List {
		first := map[int64]*history.Event{}
		for _, e := range j.Starts {
			if twin := first[e.Token]; twin != nil {
				x.add("P6", j.ID, []*history.Event{twin, e}, "run %d of job %s was started twice", e.Token, j.ID)
				continue
			}
			first[e.Token] = e
		}
	}
}

// Completion is the last operation that may have completed the job, and after which run.
func (j *Job) Completion() (last *Op, run int64) {
	for _, s := range j.Steps {
		if s.Change.Do == history.DoComplete {
			last, run = &s.Write.Main().Op, s.Change.Run
		}
	}
	for _, o := range j.Updates {
		if c := o.Invoke.Changes()[0]; o.Outcome != history.Fail && c.Do == history.DoComplete {
			last, run = o, c.Run
		}
	}
	return last, run
}

// JobCounts sum up what became of the jobs, by the batches that took effect.
type JobCounts struct {
	Shards    int `json:"shards"`
	Enqueued  int `json:"enqueued"`
	Claimed   int `json:"claimed"`
	Completed int `json:"completed"`
	Retried   int `json:"retried"` // pending again as their run failed
	// Interrupted are the runs that a clean stop of their worker ended.
	Interrupted int `json:"interrupted,omitempty"`
	Rescued     int `json:"rescued"` // pending again as their run's owner lost the shard
	DLQ         int `json:"dlq"`
	Cancelled   int `json:"cancelled"`
	Abandoned   int `json:"abandoned"`
	Redriven    int `json:"redriven"`           // from the dead letter queue
	Hastened    int `json:"hastened,omitempty"` // brought forward while they were pending
	Swept       int `json:"swept"`
	Pauses      int `json:"pauses,omitempty"`    // of shards
	Fired       int `json:"fired,omitempty"`     // nominal times of schedules that got a job
	Triggered   int `json:"triggered,omitempty"` // manual triggers of schedules that got a job
	Missed      int `json:"missed,omitempty"`    // that were passed over, as they came too late
	Skipped     int `json:"skipped,omitempty"`   // that were passed over, as the occurrence before had not ended
	// Followed are the jobs that followed another, Stopped the sequences that ended with a
	// failure.
	Followed int `json:"followed,omitempty"`
	Stopped  int `json:"stopped,omitempty"`
	Open     int `json:"open"` // not at an end when the run was over
	Starts   int `json:"starts"`
	// Overlaps are the starts of a job while another run of it was at work:
	// allowed where a process was stopped, counted.
	Overlaps int `json:"overlaps"`
	// Duplicates are the enqueues that were told that their job was there.
	Duplicates int `json:"duplicates"`
	// Lateness is by how much runs started later than they were due, by their
	// worker's wall clock and outside of faults, in ms.
	Lateness *Spread `json:"lateness_ms,omitempty"`
}

func (n *JobCounts) Text() string {
	return fmt.Sprintf("%s enqueued, %d completed, %d retried, %d rescued, %d in the dead letter queue",
		phrase.Plural(n.Enqueued, "job"), n.Completed, n.Retried, n.Rescued, n.DLQ)
}

// Spread is a distribution in ms.
type Spread struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// SequenceText says in P5's detail what was seen of sequences, "" without any.
func (n *JobCounts) SequenceText() string {
	if n.Followed+n.Stopped == 0 {
		return ""
	}
	return fmt.Sprintf("; %s that %s another, %s that ended with a failure", phrase.Plural(n.Followed, "job"),
		map[bool]string{true: "follows", false: "follow"}[n.Followed == 1], phrase.Plural(n.Stopped, "sequence"))
}

// A system with one lock per job has no shard whose batches could be replayed. A job's rows are
// written by plain writes, which no batch orders. Its lock is a fenced row like any other, and its
// runs show the lock's tokens. The job's row after the run says how it ended. Earlier updates are
// counted, and shown with violations.

// Locked says whether the job has a lock of its own.
func (j *Job) Locked() bool { return !IsShard(j.Shard) }

// update files a change of a job's row.
func (x *Jobs) update(o *Op) {
	j := x.of(o.Invoke.Key, o.Invoke.Changes()[0].Job)
	j.Updates = append(j.Updates, o)
}

// settle takes the state of a job with a lock of its own from its row.
func (x *Jobs) settle(j *Job) {
	n := &x.Counts
	for _, o := range j.Updates {
		if o.Outcome != history.OK {
			continue
		}
		if kind, known := jobChanges[o.Invoke.Changes()[0].Do]; known {
			*kind.count(n)++
		}
	}
	e := j.Row(history.RowJob)
	if e == nil {
		return
	}
	n.Enqueued++
	j.Now = JobState{Name: e.JobRow().State, Attempt: e.JobRow().Attempt, Run: e.JobRow().Run, Due: e.JobRow().DueMS}
	if Ended(j.Now.Name) {
		j.EndedAs = j.Now.Name
	}
}

// Acknowledged is an enqueue that was, or nil.
func (j *Job) Acknowledged() *Op {
	for _, o := range j.Calls {
		if o.Outcome == history.OK {
			return o
		}
	}
	return nil
}
