package checker

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"fencepost/harness/record/history"
)

// JobCounts sum up what became of the jobs, by the batches that took effect.
type JobCounts struct {
	Shards    int `json:"shards"`
	Enqueued  int `json:"enqueued"`
	Claimed   int `json:"claimed"`
	Completed int `json:"completed"`
	Retried   int `json:"retried"` // pending again as their run failed
	Rescued   int `json:"rescued"` // pending again as their run's owner lost the shard
	DLQ       int `json:"dlq"`
	Cancelled int `json:"cancelled"`
	Abandoned int `json:"abandoned"`
	Redriven  int `json:"redriven"`           // from the dead letter queue
	Hastened  int `json:"hastened,omitempty"` // brought forward while they were pending
	Swept     int `json:"swept"`
	Pauses    int `json:"pauses,omitempty"` // of shards
	Fired     int `json:"fired,omitempty"`  // nominal times of schedules that got a job
	Missed    int `json:"missed,omitempty"` // that were passed over, as they came too late
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

// tellJobs says what became of the jobs; "" without any.
func tellJobs(c *Counts) string {
	n := c.Jobs
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s, %d starts for %d accepted effects", n.text(), n.Starts, c.Effects)
}

func (n *JobCounts) text() string {
	return fmt.Sprintf("%s enqueued, %d completed, %d retried, %d rescued, %d in the dead letter queue",
		plural(n.Enqueued, "job"), n.Completed, n.Retried, n.Rescued, n.DLQ)
}

func blindToJobs(c *Counts, name func(bool, string)) {
	if n := c.Jobs; n != nil {
		name(n.Rescued+n.Abandoned == 0, "rescues: no run was cut short")
		name(n.Retried+n.DLQ == 0, "failed runs: none failed")
	}
}

// Points of the life of jobs that the checker derives; see history.Expect.
const (
	pointRedrive  = "redrive"
	pointHasten   = "hasten"
	pointPause    = "pause"
	pointRetry    = "retry"
	pointRescue   = "rescue"
	pointDLQ      = "dlq"
	pointCancel   = "cancel"
	pointAbandon  = "abandon"
	pointSweep    = "sweep"
	pointHandOver = "hand-over"
	pointInbox    = "inbox"
	pointFire     = "fire"
	pointMissed   = "missed"
	pointFollow   = "follow"
	pointStop     = "stop"
	pointOverlap  = "overlap"
	resultInbox   = "inbox"
)

// countJobs completes what the replay has counted.
func (a *analysis) countJobs(c *Counts) {
	if !a.jobs.any() {
		return
	}
	n := &a.jobs.n
	inbox := 0
	for _, j := range a.jobs.list {
		n.Starts += len(j.starts)
		n.Overlaps += a.overlaps(j)
		for _, o := range j.calls {
			switch {
			case o.outcome == history.Unknown && j.locked():
				c.Unknowns++
				if a.rowsRead(j) {
					c.UnknownSettled++
				}
			case o.outcome == history.Unknown:
				c.Unknowns++
				if l := a.row[j.shard]; len(j.steps) > 0 || l != nil && l.whole && a.rowsRead(j) {
					c.UnknownSettled++
				}
			case o.outcome == history.OK && o.end.Result == resultDuplicate:
				n.Duplicates++
			case o.outcome == history.OK && o.end.Result == resultInbox:
				inbox++
			}
		}
	}
	for _, j := range a.jobs.list {
		for _, o := range j.updates {
			if o.outcome == history.Unknown {
				c.Unknowns++
			}
		}
	}
	c.Duplicates += n.Duplicates
	handed := 0
	for _, l := range a.rows {
		for _, w := range l.chain {
			if w.main().kind() == history.OpHandOver {
				handed++
			}
		}
	}
	for point, hits := range map[string]int{
		pointRetry: n.Retried, pointRescue: n.Rescued, pointDLQ: n.DLQ, pointCancel: n.Cancelled, pointAbandon: n.Abandoned,
		pointRedrive: n.Redriven, pointHasten: n.Hastened, pointPause: n.Pauses, pointSweep: n.Swept, pointHandOver: handed, pointInbox: inbox, pointOverlap: n.Overlaps, pointFire: n.Fired, pointMissed: n.Missed, pointFollow: n.Followed, pointStop: n.Stopped,
	} {
		if hits > 0 {
			c.Points[point] += hits
		}
	}
	c.Jobs = n
}

// overlaps counts the starts of a job while another run of it had not finished.
func (a *analysis) overlaps(j *jobLog) int {
	n, until := 0, int64(math.MinInt64)
	starts := slices.Clone(j.starts)
	sort.SliceStable(starts, func(i, k int) bool { return starts[i].TS < starts[k].TS })
	for _, e := range starts {
		if e.TS < until {
			n++
		}
		end := a.died(history.Life(e.Proc))
		if f := j.finishes[e.Token]; f != nil {
			end = f.TS
		}
		until = max(until, end)
	}
	return n
}

// success is what a run counts as work done: the release of a lock, or, in a run
// with jobs, a batch that completes n of them. It was acknowledged.
type success struct {
	log *rowLog // nil: of a job with a lock of its own
	op  *op
	n   int
}

// successes are the run's, by row.
func (a *analysis) successes() []success {
	if a.done != nil {
		return a.done
	}
	a.done = []success{}
	for _, l := range a.rows {
		for _, c := range l.cas {
			if c.outcome != history.OK {
				continue
			}
			n := 0
			switch {
			case !a.jobs.any() && c.kind() == history.OpRelease:
				n = 1
			case a.jobs.any():
				for i := range c.inv.Changes() {
					if c.inv.Changes()[i].Do == history.DoComplete {
						n++
					}
				}
			}
			if n > 0 {
				a.done = append(a.done, success{l, &c.op, n})
			}
		}
	}
	for _, j := range a.jobs.list {
		for _, o := range j.updates {
			if o.outcome == history.OK && o.inv.Changes()[0].Do == history.DoComplete {
				a.done = append(a.done, success{nil, o, 1})
			}
		}
	}
	return a.done
}

// cycle is what a success is called.
func (a *analysis) cycle() string {
	if a.jobs.any() {
		return "completed job"
	}
	return "lock cycle"
}

// work is the same for groups of workers.
func (a *analysis) work() string {
	if a.jobs.any() {
		return "completed job"
	}
	return "release"
}

// workOf is work of a result.
func workOf(c Counts) string {
	if c.Jobs != nil {
		return "completed job"
	}
	return "release"
}

// takeover says whether w of the chain took the row from somebody who had not left it.
func (l *rowLog) takeover(w *write) bool {
	c := w.main()
	if c.kind() != history.OpTake {
		return c.kind() == history.OpAcquire && c.inv.Takeover
	}
	return w.pos > 0 && l.chain[w.pos-1].held()
}
