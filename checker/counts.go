package checker

import (
	"cmp"
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

// The reach points that the checker derives itself; see history.Expect.
const (
	pointTakeover  = "takeover"
	pointStale     = "stale-refused"
	pointSettled   = "unknown-settled"
	pointLost      = "lease-lost"
	pointResend    = "resend"
	pointDuplicate = "duplicate"
	pointLate      = "late-answer" // a grant or renewal confirmed after its deadline: what must not revive a lease
)

// count sums up what the run exercised. It is computed once.
func (a *analysis) count() Counts {
	if a.counts != nil {
		return *a.counts
	}
	c := Counts{
		Events: len(a.h.Events), Operations: len(a.ops), Torn: a.h.Torn,
		PhaseCycles: map[string]int{}, FaultNames: map[string]int{}, Points: maps.Clone(a.points),
	}
	for _, l := range a.lives {
		if l.recording {
			c.Procs++
		}
	}
	for _, l := range a.rows {
		if len(l.cas) > 0 && !l.shard {
			c.Locks++
		}
		if a.chained() {
			l.countChain(&c)
		} else {
			l.countTold(&c)
		}
		l.countRow(&c)
	}
	for _, s := range a.successes() {
		c.Cycles += s.n
	}
	for _, k := range checks {
		if k.count != nil {
			k.count(a, &c)
		}
	}
	for _, s := range a.sinks {
		countSink(s, &c)
	}
	for _, f := range a.faults() {
		c.Faults++
		c.FaultNames[f.Fault.Name]++
		if f.Proven {
			c.FaultsProven++
		}
	}
	for i := range a.ops {
		if o := &a.ops[i]; o.end != nil && len(o.end.Sends) > 1 {
			c.Resends += len(o.end.Sends) - 1
		}
	}
	for _, l := range a.rows {
		for _, x := range l.cas {
			if x.end != nil && x.end.ServerTimeout {
				c.ServerTimeouts++
			}
		}
	}
	a.countPhases(&c)
	for point, n := range map[string]int{
		pointTakeover: c.Takeovers, pointStale: c.StaleRefused, pointSettled: c.UnknownSettled,
		pointLost: c.LeasesLost, pointResend: c.Resends, pointDuplicate: c.Duplicates,
		pointLate: a.lateAnswers(),
	} {
		if n > 0 {
			c.Points[point] += n
		}
	}
	a.counts = &c
	return c
}

// chained says whether the system promises that its rows are a chain of versions. If not,
// nothing is counted by it.
func (a *analysis) chained() bool { return a.promised("P2") }

// countChain counts what the chain of a row's versions shows.
func (l *rowLog) countChain(c *Counts) {
	for _, x := range l.cas {
		if x.outcome == history.Unknown && l.fate(x.w) != open {
			c.UnknownSettled++
		}
	}
	for _, w := range l.chain {
		if isGrant(w.main().kind()) {
			c.Grants++
		}
		if l.takeover(w) {
			c.Takeovers++
		}
	}
}

// countTold counts the grants that clients were told of. One is a takeover if its acquire
// says so, or if the client that was told before it had not begun to give the lock back.
func (l *rowLog) countTold(c *Counts) {
	var told []*cas
	for _, x := range l.cas {
		if isGrant(x.kind()) && x.outcome == history.OK {
			told = append(told, x)
		}
	}
	slices.SortStableFunc(told, func(x, y *cas) int { return cmp.Compare(x.end.TS, y.end.TS) })
	for i, x := range told {
		c.Grants++
		kept := i > 0 && told[i-1].inv.Proc != x.inv.Proc && !l.givenBack(told[i-1], x.end.TS)
		if x.inv.Takeover || kept {
			c.Takeovers++
		}
	}
}

// givenBack says whether the client of a grant began to release the lock by then.
func (l *rowLog) givenBack(g *cas, by int64) bool {
	return slices.ContainsFunc(l.cas, func(x *cas) bool {
		return isRelease(x.kind()) && x.inv.Proc == g.inv.Proc && x.inv.TS >= g.end.TS && x.inv.TS <= by
	})
}

func (l *rowLog) countRow(c *Counts) {
	for _, x := range l.cas {
		if x.outcome == history.Unknown {
			c.Unknowns++
		}
	}
	for _, e := range l.marks {
		if e.Op == history.NoteLeaseLost {
			c.LeasesLost++
		}
	}
	for _, g := range l.grants {
		c.LateSends += g.lateSends
	}
}

// lateAnswers counts the answers that came when the lease that they granted or
// renewed had run out.
func (a *analysis) lateAnswers() int {
	n := 0
	for _, l := range a.rows {
		for _, g := range l.grants {
			for _, r := range g.renews {
				if r.end.TS > g.deadline {
					n++
				}
			}
			if g.acq.outcome == history.OK && g.acq.end.TS > g.deadline {
				n++
			}
		}
	}
	return n
}

func countSink(s *sinkLog, c *Counts) {
	for _, e := range s.ledger {
		if e.Kind == history.LedgerAccept {
			c.Effects++
		}
	}
	for _, o := range append(append([]*op{}, s.raises...), s.effects...) {
		if o.outcome == history.Unknown {
			c.Unknowns++
			if s.settled(o) {
				c.UnknownSettled++
			}
		}
		if o.end == nil {
			continue
		}
		switch o.end.Result {
		case resultStale:
			c.StaleRefused++
		case resultDuplicate:
			c.Duplicates++
		}
	}
}

func (a *analysis) countPhases(c *Counts) {
	phases := a.h.Phases()
	for _, ph := range phases {
		c.PhaseCycles[ph.Name] += 0
	}
	for _, s := range a.successes() {
		for _, ph := range phases {
			if at := s.op.end.TS; at >= ph.From && at < ph.To {
				c.PhaseCycles[ph.Name] += s.n
			}
		}
	}
}
