package checker

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:    "P1",
		title: "fencing tokens of a lock or shard rise strictly",
		by:    "the row's chain of versions, real time, the tokens handed out; run ids",
		run:   checkTokens,
		soFar: tokensSoFar,
		rules: []rule{
			{needs: "P6", find: (*inquiry).handedOutTokens},
			{needs: "P2", find: (*inquiry).rowsThatChange},
			{needs: "P2", find: (*inquiry).vanishedRows},
		},
		mechanisms: []mechanism{
			{id: "tokens-from-blocks", accounts: []string{"P1", "P4", "P6", "P10"},
				statement: "fencing tokens are not the row's: each process hands out a block of ids of its own"},
			{id: "tokens-from-wall-clock", accounts: []string{"P1", "P4", "P6", "P10"},
				statement: "fencing tokens are not the row's but readings of a wall clock"},
			{id: "tokens-not-from-row", accounts: []string{"P1", "P4", "P6", "P10"},
				statement: "fencing tokens are handed out that the lock's row does not carry"},
			{id: "release-resets-counter", accounts: ofRows,
				statement: "a release sets the row's token counter back"},
			{id: "grant-keeps-token", accounts: ofRows,
				statement: "a grant does not raise the row's token"},
		},
	})
}

// checkTokens is P1: in the order of the row's chain and in the order of real
// time each grant has a higher token than the one before, and the token handed
// out is the one that the row carries.
func checkTokens(ctx context.Context, a *judgement, p *Property) {
	tokensSoFar(ctx, a, p)
	a.jobs.report("P1", p)
	p.Detail = "by the row's chain of versions and by real time"
}

// tokensSoFar is what of P1 needs no seal: an acknowledged write is in the chain for
// good, with all that came before it.
func tokensSoFar(_ context.Context, a *judgement, p *Property) {
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

// tokenSlack is how far a wall clock's reading and the instant at which it was taken
// may lie apart.
const tokenSlack = 2_000 // ms

// handedOutTokens: tokens that are not the row's fences, and where they come from.
func (x *inquiry) handedOutTokens() {
	var odd []*grant
	lives := map[string][]int64{}
	for _, l := range x.a.rows {
		for _, g := range l.grants {
			if !l.shard && g.call != nil && g.token != g.fence {
				odd = append(odd, g)
				life := history.Life(g.acq.inv.Proc)
				lives[life] = append(lives[life], g.token)
			}
		}
		x.keptTokens(l)
	}
	if len(odd) == 0 {
		return
	}
	wall := 0
	for _, g := range odd {
		at := g.call.end.TS
		if d := x.a.wallAt(at) + x.a.offset(history.Life(g.acq.inv.Proc), at) - g.token; d > -tokenSlack && d < tokenSlack {
			wall++
		}
	}
	runs, steps := 0, 0
	for _, tokens := range lives {
		slices.Sort(tokens)
		for i := 1; i < len(tokens); i++ {
			steps++
			if tokens[i] == tokens[i-1]+1 {
				runs++
			}
		}
	}
	id, w := "tokens-not-from-row", fits
	switch {
	case wall*20 >= len(odd)*19:
		id, w = "tokens-from-wall-clock", shown
	case steps > 0 && runs*10 >= steps*9:
		id, w = "tokens-from-blocks", shown
	}
	s := x.suspect(id, w, len(odd), "%s for which the row has another fence, such as token %d for fence %d", plural(len(odd), "token"), odd[0].token, odd[0].fence)
	switch id {
	case "tokens-from-wall-clock":
		x.suspect(id, w, len(odd), "%d of %d are their worker's wall clock in milliseconds when the lock was handed out", wall, len(odd))
	case "tokens-from-blocks":
		x.suspect(id, w, len(odd), "within a process they rise by one from lock to lock (%d of %d times), between processes they have nothing in common", runs, steps)
	}
	x.showFalling(s, odd)
}

// showFalling shows a token that was handed out after a higher one, and who was refused
// for it.
func (x *inquiry) showFalling(s *suspect, odd []*grant) {
	slices.SortStableFunc(odd, func(g, h *grant) int { return cmp.Compare(g.from(), h.from()) })
	top := map[string]*grant{}
	for _, g := range odd {
		name := g.log.name
		if t := top[name]; t != nil && g.token <= t.token {
			chain := []Step{x.handed(RoleBefore, t), x.handed(RoleMistake, g)}
			for _, sk := range x.a.sinks {
				for _, o := range append(slices.Clone(sk.raises), sk.effects...) {
					if len(chain) == 2 && o.inv.Issuer == name && o.inv.Token == g.token && o.end != nil && o.end.Result == resultStale {
						chain = append(chain, x.step(RoleHarm, o.end, "the sink refuses its holder's %s: it has seen token %d", o.inv.Op, o.end.Seen))
					}
				}
			}
			s.show(name, g.call.end.TS, []string{t.acq.inv.Proc, g.acq.inv.Proc}, chain...)
			return
		}
		if t := top[name]; t == nil || g.token > t.token {
			top[name] = g
		}
	}
	s.show(odd[0].log.name, odd[0].call.end.TS, []string{odd[0].acq.inv.Proc}, x.handed(RoleMistake, odd[0]))
}

func (x *inquiry) handed(role string, g *grant) Step {
	return x.step(role, g.call.end, "token %d of %s was handed out to %s; the row's fence is %d", g.token, g.log.name, g.acq.inv.Proc, g.fence)
}

// keptTokens: grants of the chain that do not raise the fence that they found.
func (x *inquiry) keptTokens(l *rowLog) {
	n := 0
	for _, w := range l.chain {
		if c := w.main(); isGrant(c.kind()) && !w.from.Absent && w.to.Fence <= w.from.Fence {
			n++
			s := x.suspect("grant-keeps-token", shown, n, "a grant of %s leaves fence %d as it was", l.name, w.from.Fence)
			s.show(l.name, c.inv.TS, []string{c.inv.Proc}, x.step(RoleMistake, c.inv, "%s by %s goes from %s to %s", c.kind(), c.inv.Proc, l.text(w.from), l.text(w.to)))
		}
	}
}

// sighting is a version of a row that somebody found there.
type sighting struct {
	v  *version
	e  *history.Event // an operation's end, or the invoke that names it
	ok bool           // an acknowledged write replaced it
}

// seen are a row's sightings in the order of time.
func (l *rowLog) seen() []sighting {
	var out []sighting
	for _, c := range l.cas {
		out = append(out, sighting{c.from, c.inv, c.outcome == history.OK})
		if c.row != nil {
			out = append(out, sighting{c.row, c.end, true})
		}
	}
	for _, r := range l.reads {
		out = append(out, sighting{r.row, r.end, true})
	}
	slices.SortStableFunc(out, func(a, b sighting) int { return cmp.Compare(a.e.TS, b.e.TS) })
	return out
}

// rowsThatChange: a row that carries the mark of a recorded release and another fence
// than that release wrote.
func (x *inquiry) rowsThatChange() {
	for _, l := range x.a.rows {
		releases := map[string]*cas{}
		for _, c := range l.cas {
			if c.kind() == history.OpRelease {
				releases[c.to.Attempt] = c
			}
		}
		told := map[string]bool{}
		for _, v := range l.seen() {
			c := releases[v.v.Attempt]
			if c == nil || v.v.Absent || v.v.Fence == c.to.Fence || told[v.v.Attempt] {
				continue
			}
			told[v.v.Attempt] = true
			if v.v.Fence < c.to.Fence {
				s := x.suspect("release-resets-counter", shown, len(told), "after a release of fence %d the row of %s shows fence %d", c.to.Fence, l.name, v.v.Fence)
				chain := []Step{x.step(RoleBefore, c.inv, "%s releases %s with fence %d", c.inv.Proc, l.name, c.to.Fence), x.step(RoleMistake, v.e, "%s finds it at %s", v.e.Proc, l.text(v.v))}
				s.show(l.name, v.e.TS, []string{c.inv.Proc, v.e.Proc}, append(chain, x.again(l, v)...)...)
				continue
			}
			s := x.suspect("release-without-owner", shown, len(told), "a release of fence %d has freed the row of %s when it was at fence %d", c.to.Fence, l.name, v.v.Fence)
			chain := []Step{x.step(RoleBefore, c.inv, "%s releases its lease of fence %d", c.inv.Proc, c.to.Fence), x.step(RoleMistake, v.e, "the row bears its mark at fence %d, which was another's", v.v.Fence)}
			if g := l.takenBy().before(c.inv.TS); g != nil {
				chain = append(chain, x.granted(RoleBefore, g))
			}
			s.show(l.name, v.e.TS, []string{c.inv.Proc, v.e.Proc}, chain...)
		}
	}
}

// again is the grant that gets a token for the second time after a row was set back.
func (x *inquiry) again(l *rowLog, v sighting) []Step {
	for _, g := range l.grants {
		if g.acq.inv.TS >= v.e.TS && g.acq.outcome == history.OK && len(l.byToken[g.token]) > 1 {
			return []Step{x.step(RoleHarm, g.acq.end, "%s is granted token %d, which had been given before", g.acq.inv.Proc, g.token)}
		}
	}
	return nil
}

// vanishedRows: acquires that found no row where there had been one. How long it was
// there since its last write tells expiry from deletion.
func (x *inquiry) vanishedRows() {
	expired, deleted := 0, 0
	for _, l := range x.a.rows {
		if l.shard {
			continue
		}
		for _, c := range l.cas {
			if !c.from.Absent || c.outcome != history.OK {
				continue
			}
			var last *cas
			for _, o := range l.cas {
				if o.outcome == history.OK && o.end.TS < c.inv.TS && (last == nil || o.end.TS > last.end.TS) {
					last = o
				}
			}
			if last == nil {
				continue
			}
			gap, ttl := c.inv.TS-last.end.TS, c.ttl()
			chain := []Step{
				x.step(RoleBefore, last.end, "the last write before: %s by %s to %s", last.kind(), last.inv.Proc, l.text(last.to)),
				x.step(RoleMistake, c.inv, "%s finds no row, %s later", c.inv.Proc, ms(gap)), x.step(RoleHarm, c.end, "and is granted fence %d", c.to.Fence),
			}
			if gap*10 >= ttl*9 {
				expired++
				s := x.suspect("rows-expire", fits, expired, "the row of %s was gone %s after its last write (ttl %s)", l.name, ms(gap), ms(ttl))
				s.show(l.name, c.inv.TS, []string{c.inv.Proc}, chain...)
			} else {
				deleted++
				s := x.suspect("row-deleted", fits, deleted, "the row of %s was gone %s after its last write, long before its ttl of %s", l.name, ms(gap), ms(ttl))
				s.show(l.name, c.inv.TS, []string{c.inv.Proc}, chain...)
			}
		}
	}
}
