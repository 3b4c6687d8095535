package property

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// The reach points that the checker derives itself; see history.Expect.
const (
	PointTakeover  = "takeover"
	PointStale     = "stale-refused"
	PointSettled   = "unknown-settled"
	PointLost      = "lease-lost"
	PointResend    = "resend"
	PointDuplicate = "duplicate"
	pointForget    = "forget"      // of keys of a resource of the sink
	pointLate      = "late-answer" // a grant or renewal confirmed after its deadline: what must not revive a lease
)

// count sums up what the run exercised. It is computed once.
func (a *Judgement) count() Counts {
	if a.counts != nil {
		return *a.counts
	}
	c := Counts{
		Events: len(a.History.Events), Operations: len(a.Ops), Torn: a.History.Torn,
		PhaseCycles: map[string]int{}, FaultNames: map[string]int{}, Points: maps.Clone(a.Points),
	}
	for _, l := range a.Lives {
		if l.Recording {
			c.Procs++
		}
	}
	for _, l := range a.Rows {
		if len(l.CAS) > 0 && !l.Shard {
			c.Locks++
		}
		if a.Chained() {
			countChain(l, &c)
		} else {
			countTold(l, &c)
		}
		countRow(l, &c)
	}
	for _, s := range a.Successes {
		c.Cycles += s.Count
	}
	for _, k := range All {
		if k.count != nil {
			k.count(a, &c)
		}
	}
	for _, s := range a.Sinks {
		countSink(s, &c)
	}
	for _, f := range a.Faults {
		c.Faults++
		c.FaultNames[f.Fault.Name]++
		if f.Proven {
			c.FaultsProven++
		}
	}
	for o := range past.Each(a.Ops) {
		if o.End != nil && len(o.End.Sends) > 1 {
			c.Resends += len(o.End.Sends) - 1
		}
	}
	for _, l := range a.Rows {
		for _, x := range l.CAS {
			if x.End != nil && x.End.ServerTimeout {
				c.ServerTimeouts++
			}
		}
	}
	a.countPhases(&c)
	c.reach(map[string]int{
		PointTakeover: c.Takeovers, PointStale: c.StaleRefused, PointSettled: c.UnknownSettled,
		PointLost: c.LeasesLost, PointResend: c.Resends, PointDuplicate: c.Duplicates,
		pointLate: a.lateAnswers(), pointForget: a.forgets(),
	})
	a.counts = &c
	return c
}

// reach adds to the points that were hit.
func (c *Counts) reach(hits map[string]int) {
	for point, n := range hits {
		if n > 0 {
			c.Points[point] += n
		}
	}
}

// countChain counts what the chain of a row's versions shows.
func countChain(l *past.Row, c *Counts) {
	for _, x := range l.CAS {
		if x.Outcome == history.Unknown && l.Fate(x.Write) != past.Open {
			c.UnknownSettled++
		}
	}
	for _, w := range l.Chain {
		if past.IsGrant(w.Main().Kind()) {
			c.Grants++
		}
		if l.Takeover(w) {
			c.Takeovers++
		}
	}
}

// countTold counts the grants whose answers reached a client. One is a takeover if its acquire says so,
// or if the client of the grant before had not begun to give the lock back.
func countTold(l *past.Row, c *Counts) {
	told := slices.DeleteFunc(slices.Clone(l.CAS), func(x *past.CAS) bool { return !past.IsGrant(x.Kind()) || x.Outcome != history.OK })
	slices.SortStableFunc(told, func(x, y *past.CAS) int { return cmp.Compare(x.End.TS, y.End.TS) })
	for i, x := range told {
		c.Grants++
		kept := i > 0 && told[i-1].Invoke.Proc != x.Invoke.Proc && !givenBack(l, told[i-1], x.End.TS)
		if x.Invoke.Takeover || kept {
			c.Takeovers++
		}
	}
}

// givenBack says whether the client of a grant began to release the lock by then.
func givenBack(l *past.Row, g *past.CAS, by int64) bool {
	return slices.ContainsFunc(l.CAS, func(x *past.CAS) bool {
		return past.IsRelease(x.Kind()) && x.Invoke.Proc == g.Invoke.Proc && x.Invoke.TS >= g.End.TS && x.Invoke.TS <= by
	})
}

func countRow(l *past.Row, c *Counts) {
	for _, x := range l.CAS {
		if x.Outcome == history.Unknown {
			c.Unknowns++
		}
	}
	for _, e := range l.Marks {
		if e.Op == history.NoteLeaseLost {
			c.LeasesLost++
		}
	}
	for _, g := range l.Grants {
		c.LateSends += g.LateSends
	}
}

// lateAnswers counts the answers that came when the lease that they granted or
// renewed had run out.
func (a *Judgement) lateAnswers() int {
	n := 0
	for _, l := range a.Rows {
		for _, g := range l.Grants {
			for _, r := range g.Renews {
				if r.End.TS > g.Deadline {
					n++
				}
			}
			if g.Acquire.Outcome == history.OK && g.Acquire.End.TS > g.Deadline {
				n++
			}
		}
	}
	return n
}

// forgets counts those that dropped something.
func (a *Judgement) forgets() (n int) {
	for _, s := range a.Sinks {
		for _, o := range s.Forgets {
			if o.Outcome == history.OK && o.End.Value != nil && *o.End.Value > 0 {
				n++
			}
		}
	}
	return n
}

func countSink(s *past.Sink, c *Counts) {
	for _, e := range s.Ledger {
		if e.Kind == history.LedgerAccept {
			c.Effects++
		}
	}
	for _, o := range s.Calls() {
		if o.Outcome == history.Unknown {
			c.Unknowns++
			if s.Settled(o) {
				c.UnknownSettled++
			}
		}
		if o.End == nil {
			continue
		}
		switch o.End.Result {
		case past.ResultStale:
			c.StaleRefused++
		case past.ResultDuplicate:
			c.Duplicates++
		}
	}
}

func (a *Judgement) countPhases(c *Counts) {
	phases := a.History.Phases()
	for _, ph := range phases {
		c.PhaseCycles[ph.Name] += 0
	}
	for _, s := range a.Successes {
		for _, ph := range phases {
			if at := s.Op.End.TS; at >= ph.From && at < ph.To {
				c.PhaseCycles[ph.Name] += s.Count
			}
		}
	}
}

// summarizeJobs says what became of the jobs; "" without any.
func summarizeJobs(c *Counts) string {
	n := c.Jobs
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%s, %d starts for %d accepted effects", n.Text(), n.Starts, c.Effects)
}

func unexercisedJobs(c *Counts, name func(bool, string)) {
	if n := c.Jobs; n != nil {
		name(n.Rescued+n.Abandoned == 0, "rescues: no run was cut short")
		name(n.Retried+n.DLQ == 0, "failed runs: none failed")
	}
}

// Points of the life of jobs that the checker derives; see history.Expect.
const (
	PointRedrive   = "redrive"
	PointHasten    = "hasten"
	PointPause     = "pause"
	PointRetry     = "retry"
	PointRescue    = "rescue"
	PointDLQ       = "dlq"
	PointCancel    = "cancel"
	PointAbandon   = "abandon"
	PointSweep     = "sweep"
	PointHandOver  = "hand-over"
	PointMove      = "move"
	PointInbox     = "inbox"
	pointFire      = "fire"
	pointTrigger   = "trigger"
	pointMissed    = "missed"
	pointFollow    = "follow"
	pointStop      = "stop"
	PointOverlap   = "overlap"
	PointInterrupt = "interrupt"
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
		n.Interrupted += j.Interrupted()
		for _, o := range j.Calls {
			switch {
			case o.Outcome == history.Unknown && j.Locked():
				c.Unknowns++
				if a.RowsRead(j) {
					c.UnknownSettled++
				}
			case o.Outcome == history.Unknown:
				c.Unknowns++
				if l := a.RowOf[j.Shard]; len(j.Steps) > 0 || l != nil && l.Complete && a.RowsRead(j) {
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
	handed, moved := 0, 0
	for _, l := range a.Rows {
		for _, w := range l.Chain {
			if w.Main().Kind() == history.OpHandOver {
				handed++
			}
		}
	}
	for _, h := range a.HandOvers() {
		if h.Moves {
			moved++
		}
	}
	c.reach(map[string]int{
		PointRetry: n.Retried, PointRescue: n.Rescued, PointDLQ: n.DLQ, PointCancel: n.Cancelled, PointAbandon: n.Abandoned,
		PointRedrive: n.Redriven, PointHasten: n.Hastened, PointPause: n.Pauses, PointSweep: n.Swept, PointHandOver: handed, PointMove: moved, PointInbox: inbox,
		PointInterrupt: n.Interrupted, PointOverlap: n.Overlaps, pointFire: n.Fired, pointTrigger: n.Triggered, pointMissed: n.Missed, pointFollow: n.Followed, pointStop: n.Stopped,
	})
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

// SuccessNoun is work of a result.
func SuccessNoun(c Counts) string {
	if c.Jobs != nil {
		return "completed job"
	}
	return "release"
}
