package property

import (
	"sort"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// checkTries is the part of P2 about calls that do not wait: one is refused because another holds
// the lock at some instant of the call, or because its own process has it or waits for it.
func (a *Judgement) checkTries(l *past.Row, p *Property) {
	for _, c := range l.Calls {
		if c.End == nil || c.End.Result != history.ResultHeld {
			continue
		}
		p.Checked++
		if !c.Invoke.Try() {
			p.add(l.Name, past.Events(c), "%s was refused %s because another holds it, though it may wait", c.Invoke.Proc, l.Name)
			continue
		}
		if since, ok := a.wronglyRefused(l, c); ok {
			p.add(l.Name, append(past.Events(c), since...), "%s was refused %s because another holds it, but the lock was free from before "+
				"it asked until it was answered", c.Invoke.Proc, l.Name)
		}
	}
}

// wronglyRefused says whether the lock was free for all of a call, and nobody of its process had
// to do with it. It returns what shows that it was free from then on.
func (a *Judgement) wronglyRefused(l *past.Row, c *past.Op) (since []*history.Event, ok bool) {
	if !l.Complete {
		return nil, false
	}
	from, to := c.Invoke.TS, c.End.TS
	next := sort.Search(len(l.Chain), func(i int) bool { return l.Chain[i].Latest > from })
	if next < len(l.Chain) && l.Chain[next].Earliest() < to {
		return nil, false
	}
	if next > 0 {
		w := l.Chain[next-1]
		if w.Held() {
			return nil, false
		}
		since = past.Events(&w.Main().Op)
	}
	return since, !a.busyWith(l, c)
}

// settling is for how long a process may take a lock for its own whose lease it has lost, or whose
// release it no longer waits for.
const settling = int64(5e9)

// busyWith says whether another client of the same process held or wanted the lock meanwhile.
func (a *Judgement) busyWith(l *past.Row, c *past.Op) bool {
	life := history.Life(c.Invoke.Proc)
	for _, o := range l.Calls {
		if o != c && history.Life(o.Invoke.Proc) == life && o.Invoke.TS <= c.End.TS && (o.End == nil || o.End.TS >= c.Invoke.TS) {
			return true
		}
	}
	for _, g := range l.Grants {
		if history.Life(g.Acquire.Invoke.Proc) == life && g.Acquire.Invoke.TS <= c.End.TS && a.itsOwnUntil(g) >= c.Invoke.TS {
			return true
		}
	}
	return false
}

// itsOwnUntil is when a process has certainly let go of a lease of its own: when the client has
// returned from the release, as its next call shows.
func (a *Judgement) itsOwnUntil(g *past.Grant) int64 {
	var end int64
	slow := g.Lost != nil
	switch {
	case g.Release != nil && g.Release.End != nil:
		end = g.Release.End.TS
		slow = slow || end-g.Release.Invoke.TS > g.Acquire.TTL()/2
	case g.Release == nil && g.Lost != nil: // it was taken over: there is nothing to give back
		end = g.Lost.TS
	default:
		return history.Forever
	}
	until := a.nextCall(g.Acquire.Invoke.Proc, end)
	if slow {
		until = max(until, end+settling)
	}
	return until
}

// nextCall is when a client asked for a lock for the first time after an instant.
func (a *Judgement) nextCall(proc string, after int64) int64 {
	if a.lockCalls == nil {
		a.lockCalls = map[string][]int64{}
		for o := range past.Each(a.Ops) { // by invocation
			if o.Invoke.Op == history.OpLock {
				a.lockCalls[o.Invoke.Proc] = append(a.lockCalls[o.Invoke.Proc], o.Invoke.TS)
			}
		}
	}
	calls := a.lockCalls[proc]
	if i := sort.Search(len(calls), func(i int) bool { return calls[i] > after }); i < len(calls) {
		return calls[i]
	}
	return history.Forever
}

// falseRefusals: tries that were refused a free lock. What their process did instead of looking
// shows by how long they took.
func (x *Inquiry) falseRefusals() {
	for _, l := range x.Rows {
		for _, c := range l.Calls {
			if c.End == nil || c.End.Result != history.ResultHeld {
				continue
			}
			since, ok := x.wronglyRefused(l, c)
			if c.Invoke.Try() && !ok {
				continue
			}
			s := x.found("try-answered-from-memory", shown, "%s was refused %s, which was free, after %s",
				c.Invoke.Proc, l.Name, phrase.MS(c.End.TS-c.Invoke.TS))
			var chain []Step
			if len(since) > 1 && since[1] != nil {
				chain = append(chain, x.before(since[1], "%s frees %s", since[1].Proc, l.Name))
			}
			s.showAt(l.Name, c.End, append(chain, x.mistake(c.End, "%s is refused %s: %s", c.Invoke.Proc, l.Name, phrase.OrNone(c.End.Error)))...)
		}
	}
}
