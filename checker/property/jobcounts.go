package property

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// tellJobs says what became of the jobs; "" without any.
func tellJobs(c *Counts) string {
	n := c.Jobs
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s, %d starts for %d accepted effects", n.Text(), n.Starts, c.Effects)
}

func blindToJobs(c *Counts, name func(bool, string)) {
	if n := c.Jobs; n != nil {
		name(n.Rescued+n.Abandoned == 0, "rescues: no run was cut short")
		name(n.Retried+n.DLQ == 0, "failed runs: none failed")
	}
}

// Points of the life of jobs that the checker derives; see history.Expect.
const (
	PointRedrive  = "redrive"
	PointHasten   = "hasten"
	PointPause    = "pause"
	PointRetry    = "retry"
	PointRescue   = "rescue"
	PointDLQ      = "dlq"
	PointCancel   = "cancel"
	PointAbandon  = "abandon"
	PointSweep    = "sweep"
	PointHandOver = "hand-over"
	PointInbox    = "inbox"
	pointFire     = "fire"
	pointMissed   = "missed"
	pointFollow   = "follow"
	pointStop     = "stop"
	PointOverlap  = "overlap"
)

// countJobs completes what the replay has counted.
func (a *Judgement) countJobs(c *Counts) {
	if !a.Jobs.Any() {
		return
	}
	n := a.Jobs.Counts
	n.Open, n.Lateness = a.open, a.lateness
	inbox := 0
	for _, j := range a.Jobs.List {
		n.Starts += len(j.Starts)
		n.Overlaps += a.overlaps(j)
		for _, o := range j.Calls {
			switch {
			case o.Outcome == history.Unknown && j.Locked():
				c.Unknowns++
				if a.RowsRead(j) {
					c.UnknownSettled++
				}
			case o.Outcome == history.Unknown:
				c.Unknowns++
				if l := a.RowOf[j.Shard]; len(j.Steps) > 0 || l != nil && l.Whole && a.RowsRead(j) {
					c.UnknownSettled++
				}
			case o.Outcome == history.OK && o.End.Result == past.ResultDuplicate:
				n.Duplicates++
			case o.Outcome == history.OK && o.End.Result == past.ResultInbox:
				inbox++
			}
		}
	}
	for _, j := range a.Jobs.List {
		for _, o := range j.Updates {
			if o.Outcome == history.Unknown {
				c.Unknowns++
			}
		}
	}
	c.Duplicates += n.Duplicates
	handed := 0
	for _, l := range a.Rows {
		for _, w := range l.Chain {
			if w.Main().Kind() == history.OpHandOver {
				handed++
			}
		}
	}
	for point, hits := range map[string]int{
		PointRetry: n.Retried, PointRescue: n.Rescued, PointDLQ: n.DLQ, PointCancel: n.Cancelled, PointAbandon: n.Abandoned,
		PointRedrive: n.Redriven, PointHasten: n.Hastened, PointPause: n.Pauses, PointSweep: n.Swept, PointHandOver: handed, PointInbox: inbox, PointOverlap: n.Overlaps, pointFire: n.Fired, pointMissed: n.Missed, pointFollow: n.Followed, pointStop: n.Stopped,
	} {
		if hits > 0 {
			c.Points[point] += hits
		}
	}
	c.Jobs = &n
}

// overlaps counts the starts of a job while another run of it had not finished.
func (a *Judgement) overlaps(j *past.Job) int {
	n, until := 0, int64(math.MinInt64)
	starts := slices.Clone(j.Starts)
	sort.SliceStable(starts, func(i, k int) bool { return starts[i].TS < starts[k].TS })
	for _, e := range starts {
		if e.TS < until {
			n++
		}
		end := a.Died(history.Life(e.Proc))
		if f := j.Finishes[e.Token]; f != nil {
			end = f.TS
		}
		until = max(until, end)
	}
	return n
}

// WorkOf is work of a result.
func WorkOf(c Counts) string {
	if c.Jobs != nil {
		return "completed job"
	}
	return "release"
}
