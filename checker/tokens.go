package checker

import (
	"context"
	"slices"
	"sort"

	"fencepost/harness/record/history"
)

// checkTokens is P1: in the order of the row's chain and in the order of real
// time each grant has a higher token than the one before, and the token handed
// out is the one that the row carries.
func checkTokens(ctx context.Context, a *analysis, p *Property) {
	tokensSoFar(ctx, a, p)
	a.jobs.report("P1", p)
	p.Detail = "by the row's chain of versions and by real time"
}

// tokensSoFar is what of P1 needs no seal: an acknowledged write is in the chain for
// good, with all that came before it.
func tokensSoFar(_ context.Context, a *analysis, p *Property) {
	for _, l := range a.rows {
		p.Checked += len(l.grants)
		l.checkFences(p)
		l.checkHandedOut(p)
		l.checkTokenTimes(p)
	}
}

// checkFences: the fence rises with every grant of the chain and never falls.
func (l *rowLog) checkFences(p *Property) {
	var last *write
	for _, w := range l.chain {
		c := w.main()
		if last != nil {
			switch granting := isGrant(c.kind()) || c.kind() == history.OpSeal; {
			case granting && w.to.Fence <= last.to.Fence:
				p.add(l.name, both(&last.main().op, &c.op), "%s by %s took fence %d after fence %d had been used: tokens must rise strictly", c.kind(), c.inv.Proc, w.to.Fence, last.to.Fence)
			case w.to.Fence < last.to.Fence:
				p.add(l.name, both(&last.main().op, &c.op), "%s by %s set the fence back from %d to %d", c.kind(), c.inv.Proc, last.to.Fence, w.to.Fence)
			}
		}
		if last == nil || w.to.Fence > last.to.Fence {
			last = w
		}
	}
}

// checkHandedOut: tokens are the row's fences, in the chain's order.
func (l *rowLog) checkHandedOut(p *Property) {
	for _, g := range l.grants {
		if g.token != g.fence {
			p.add(l.name, both(&g.acq.op, g.call), "token %d was handed out to %s for a grant whose fence in the row is %d", g.token, g.acq.inv.Proc, g.fence)
		}
	}
	var chained []*grant
	for _, g := range l.grants {
		if g.acq.w.pos >= 0 && g.acq.w.main() == g.acq {
			chained = append(chained, g)
		}
	}
	sort.Slice(chained, func(i, j int) bool { return chained[i].acq.w.pos < chained[j].acq.w.pos })
	var top *grant
	for _, g := range chained {
		if top != nil && g.token <= top.token && (g.token != g.fence || top.token != top.fence) {
			p.add(l.name, both(top.call, g.call, &top.acq.op, &g.acq.op), "token %d was handed out to %s after token %d to %s: tokens must rise strictly", g.token, g.acq.inv.Proc, top.token, top.acq.inv.Proc)
		}
		if top == nil || g.token > top.token {
			top = g
		}
	}
}

// handout is a token that a client was told.
type handout struct {
	token       int64
	proc        string
	asked, from int64 // when it was asked for, and when its client knew
	ops         []*op
}

// handouts are the grants of which clients were told, and the lock calls that handed out a
// token without an acquire, in the order in which they were asked for.
func (l *rowLog) handouts() []handout {
	var out []handout
	for _, g := range l.grants {
		if g.call != nil || g.acq.outcome == history.OK {
			out = append(out, handout{g.token, g.acq.inv.Proc, g.acq.inv.TS, g.from(), []*op{&g.acq.op, g.call}})
		}
	}
	for _, c := range l.orphans {
		out = append(out, handout{c.end.Token, c.inv.Proc, c.inv.TS, c.end.TS, []*op{c}})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].asked < out[j].asked })
	return out
}

// checkTokenTimes judges without the chain: equal tokens, and a grant that was
// over before another was asked for but has the higher token.
func (l *rowLog) checkTokenTimes(p *Property) {
	told := l.handouts()
	byEnd := slices.Clone(told)
	sort.SliceStable(byEnd, func(i, j int) bool { return byEnd[i].from < byEnd[j].from })
	first := map[int64]handout{}
	var top handout
	next := 0
	for _, g := range told {
		for next < len(byEnd) && byEnd[next].from < g.asked {
			if byEnd[next].token > top.token {
				top = byEnd[next]
			}
			next++
		}
		if twin, known := first[g.token]; known {
			p.add(l.name, both(slices.Concat(twin.ops, g.ops)...), "token %d was granted twice: to %s and to %s", g.token, twin.proc, g.proc)
			continue
		}
		first[g.token] = g
		if top.token > g.token {
			p.add(l.name, both(slices.Concat(top.ops, g.ops)...), "token %d was granted to %s, which asked for it %s after %s had been granted token %d", g.token, g.proc, ms(g.asked-top.from), top.proc, top.token)
		}
	}
}
