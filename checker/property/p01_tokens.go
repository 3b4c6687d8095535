package property

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:    "P1",
		title: "fencing tokens of a lock or shard rise strictly",
		by:    "the row's chain of versions, real time, the tokens handed out; run ids",
		run:   checkTokens,
		soFar: tokensSoFar,
		rules: []rule{
			{needs: "P6", find: (*Inquiry).handedOutTokens},
			{needs: "P2", find: (*Inquiry).rowsThatChange},
			{needs: "P2", find: (*Inquiry).vanishedRows},
		},
		mechanisms: []mechanism{
			{id: "tokens-from-blocks", Accounts: []string{"P1", "P4", "P6", "P10"},
				Statement: "fencing tokens are not the row's: each process hands out a block of ids of its own"},
			{id: "tokens-from-wall-clock", Accounts: []string{"P1", "P4", "P6", "P10"},
				Statement: "fencing tokens are not the row's but readings of a wall clock"},
			{id: "tokens-not-from-row", Accounts: []string{"P1", "P4", "P6", "P10"},
				Statement: "fencing tokens are handed out that the lock's row does not carry"},
			{id: "release-resets-counter", Accounts: ofRows, Statement: "a release sets the row's token counter back"},
			{id: "grant-keeps-token", Accounts: ofRows, Statement: "a grant does not raise the row's token"},
		},
	})
}

// checkTokens is P1: in the order of the row's chain and in the order of real
// time each grant has a higher token than the one before, and the token handed
// out is the one that the row carries.
func checkTokens(ctx context.Context, a *Judgement, p *Property) {
	tokensSoFar(ctx, a, p)
	report(&a.Jobs, "P1", p)
	p.Detail = "by the row's chain of versions and by real time"
}

// tokensSoFar is what of P1 needs no seal: an acknowledged write is in the chain for
// good, with all that came before it.
func tokensSoFar(_ context.Context, a *Judgement, p *Property) {
	for _, l := range a.Rows {
		p.Checked += len(l.Grants)
		checkFences(l, p)
		checkHandedOut(l, p)
		checkTokenTimes(l, p)
	}
}

// checkFences: the fence rises with every grant of the chain and never falls.
func checkFences(l *past.Row, p *Property) {
	var last *past.Write
	for _, w := range l.Chain {
		c := w.Main()
		if last != nil {
			switch granting := past.IsGrant(c.Kind()) || c.Kind() == history.OpSeal; {
			case granting && w.To.Fence <= last.To.Fence:
				p.add(l.Name, past.Events(&last.Main().Op, &c.Op), "%s by %s took fence %d after fence %d had been used: tokens must rise strictly",
					c.Kind(), c.Invoke.Proc, w.To.Fence, last.To.Fence)
			case w.To.Fence < last.To.Fence:
				p.add(l.Name, past.Events(&last.Main().Op, &c.Op), "%s by %s set the fence back from %d to %d",
					c.Kind(), c.Invoke.Proc, last.To.Fence, w.To.Fence)
			}
		}
		if last == nil || w.To.Fence > last.To.Fence {
			last = w
		}
	}
}

// checkHandedOut: tokens are the row's fences, in the chain's order.
func checkHandedOut(l *past.Row, p *Property) {
	for _, g := range l.Grants {
		if g.Token != g.Fence {
			p.add(l.Name, past.Events(&g.Acquire.Op, g.Call), "token %d was handed out to %s for a grant whose fence in the row is %d",
				g.Token, g.Acquire.Invoke.Proc, g.Fence)
		}
	}
	chained := slices.DeleteFunc(slices.Clone(l.Grants), func(g *past.Grant) bool {
		return g.Acquire.Write.Pos < 0 || g.Acquire.Write.Main() != g.Acquire
	})
	sort.Slice(chained, func(i, j int) bool { return chained[i].Acquire.Write.Pos < chained[j].Acquire.Write.Pos })
	var top *past.Grant
	for _, g := range chained {
		if top != nil && g.Token <= top.Token && (g.Token != g.Fence || top.Token != top.Fence) {
			p.add(l.Name, past.Events(top.Call, g.Call, &top.Acquire.Op, &g.Acquire.Op),
				"token %d was handed out to %s after token %d to %s: tokens must rise strictly",
				g.Token, g.Acquire.Invoke.Proc, top.Token, top.Acquire.Invoke.Proc)
		}
		if top == nil || g.Token > top.Token {
			top = g
		}
	}
}

// handout is a token that a client was told.
type handout struct {
	token       int64
	proc        string
	asked, from int64 // when it was asked for, and when its client knew
	ops         []*past.Op
}

// handouts are the grants of which clients were told, and the lock calls that handed out a
// token without an acquire, in the order in which they were asked for.
func handouts(l *past.Row) []handout {
	var out []handout
	for _, g := range l.Grants {
		if g.Call != nil || g.Acquire.Outcome == history.OK {
			out = append(out, handout{g.Token, g.Acquire.Invoke.Proc, g.Acquire.Invoke.TS, g.From(), []*past.Op{&g.Acquire.Op, g.Call}})
		}
	}
	for _, c := range l.Orphans {
		out = append(out, handout{c.End.Token, c.Invoke.Proc, c.Invoke.TS, c.End.TS, []*past.Op{c}})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].asked < out[j].asked })
	return out
}

// checkTokenTimes judges without the chain: equal tokens, and a grant that was
// over before another was asked for but has the higher token.
func checkTokenTimes(l *past.Row, p *Property) {
	told := handouts(l)
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
			p.add(l.Name, past.Events(slices.Concat(twin.ops, g.ops)...), "token %d was granted twice: to %s and to %s", g.token, twin.proc, g.proc)
			continue
		}
		first[g.token] = g
		if top.token > g.token {
			p.add(l.Name, past.Events(slices.Concat(top.ops, g.ops)...),
				"token %d was granted to %s, which asked for it %s after %s had been granted token %d",
				g.token, g.proc, phrase.MS(g.asked-top.from), top.proc, top.token)
		}
	}
}

// tokenSlack is how far a wall clock's reading and the instant at which it was taken
// may lie apart.
const tokenSlack = 2_000 // ms

// handedOutTokens: tokens that are not the row's fences, and where they come from.
func (x *Inquiry) handedOutTokens() {
	var odd []*past.Grant
	lives := map[string][]int64{}
	for _, l := range x.Rows {
		for _, g := range l.Grants {
			if !l.Shard && g.Call != nil && g.Token != g.Fence {
				odd = append(odd, g)
				life := history.Life(g.Acquire.Invoke.Proc)
				lives[life] = append(lives[life], g.Token)
			}
		}
		x.keptTokens(l)
	}
	if len(odd) == 0 || x.oneTokenForAll(odd) {
		return
	}
	wall := 0
	for _, g := range odd {
		at := g.Call.End.TS
		if d := x.WallAt(at) + x.OffsetAt(history.Life(g.Acquire.Invoke.Proc), at) - g.Token; d > -tokenSlack && d < tokenSlack {
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
	id, w := "tokens-not-from-row", WeightFits
	switch {
	case wall*20 >= len(odd)*19:
		id, w = "tokens-from-wall-clock", shown
	case steps > 0 && runs*10 >= steps*9:
		id, w = "tokens-from-blocks", shown
	}
	s := x.suspect(id, w, len(odd), "%s for which the row has another fence, such as token %d for fence %d",
		phrase.Plural(len(odd), "token"), odd[0].Token, odd[0].Fence)
	switch id {
	case "tokens-from-wall-clock":
		x.suspect(id, w, len(odd), "%d of %d are their worker's wall clock in milliseconds when the lock was handed out", wall, len(odd))
	case "tokens-from-blocks":
		x.suspect(id, w, len(odd),
			"within a process they rise by one from lock to lock (%d of %d times), between processes they have nothing in common", runs, steps)
	}
	x.showFalling(s, odd)
}

// showFalling shows a token that was handed out after a higher one, and who was refused
// for it.
func (x *Inquiry) showFalling(s *Suspect, odd []*past.Grant) {
	slices.SortStableFunc(odd, func(g, h *past.Grant) int { return cmp.Compare(g.From(), h.From()) })
	top := map[string]*past.Grant{}
	for _, g := range odd {
		name := g.Row.Name
		if t := top[name]; t != nil && g.Token <= t.Token {
			chain := []Step{x.handedStep(RoleBefore, t), x.handedStep(RoleMistake, g)}
			for _, sk := range x.Sinks {
				for _, o := range sk.Calls() {
					if len(chain) == 2 && o.Invoke.Issuer == name && o.Invoke.Token == g.Token && o.End != nil && o.End.Result == past.ResultStale {
						chain = append(chain, x.harm(o.End, "the sink refuses its holder's %s: it has seen token %d", o.Invoke.Op, o.End.Seen))
					}
				}
			}
			s.show(name, g.Call.End.TS, []string{t.Acquire.Invoke.Proc, g.Acquire.Invoke.Proc}, chain...)
			return
		}
		if t := top[name]; t == nil || g.Token > t.Token {
			top[name] = g
		}
	}
	s.show(odd[0].Row.Name, odd[0].Call.End.TS, []string{odd[0].Acquire.Invoke.Proc}, x.handedStep(RoleMistake, odd[0]))
}

func (x *Inquiry) handedStep(role string, g *past.Grant) Step {
	return x.step(role, g.Call.End, "token %d of %s was handed out to %s; the row's fence is %d",
		g.Token, g.Row.Name, g.Acquire.Invoke.Proc, g.Fence)
}

// keptTokens: grants of the chain that do not raise the fence that they found.
func (x *Inquiry) keptTokens(l *past.Row) {
	n := 0
	for _, w := range l.Chain {
		if c := w.Main(); past.IsGrant(c.Kind()) && !w.From.Absent && w.To.Fence <= w.From.Fence {
			n++
			s := x.suspect("grant-keeps-token", shown, n, "a grant of %s leaves fence %d as it was", l.Name, w.From.Fence)
			s.showAt(l.Name, c.Invoke, x.mistake(c.Invoke, "%s by %s goes from %s to %s", c.Kind(), c.Invoke.Proc, l.Text(w.From), l.Text(w.To)))
		}
	}
}

// sighting is a version of a row that somebody found there.
type sighting struct {
	v  *past.Version
	e  *history.Event // an operation's end, or the invoke that names it
	ok bool           // an acknowledged write replaced it
}

// sightingsOf are a row's sightings in the order of time.
func sightingsOf(l *past.Row) []sighting {
	var out []sighting
	for _, c := range l.CAS {
		out = append(out, sighting{c.From, c.Invoke, c.Outcome == history.OK})
		if c.Shown != nil {
			out = append(out, sighting{c.Shown, c.End, true})
		}
	}
	for _, r := range l.Reads {
		out = append(out, sighting{r.Version, r.End, true})
	}
	slices.SortStableFunc(out, func(a, b sighting) int { return cmp.Compare(a.e.TS, b.e.TS) })
	return out
}

// rowsThatChange: a row that carries the mark of a recorded release and another fence
// than that release wrote.
func (x *Inquiry) rowsThatChange() {
	for _, l := range x.Rows {
		releases := map[string]*past.CAS{}
		for _, c := range l.CAS {
			if c.Kind() == history.OpRelease {
				releases[c.To.Attempt] = c
			}
		}
		told := map[string]bool{}
		for _, v := range sightingsOf(l) {
			c := releases[v.v.Attempt]
			if c == nil || v.v.Absent || v.v.Fence == c.To.Fence || told[v.v.Attempt] {
				continue
			}
			told[v.v.Attempt] = true
			if v.v.Fence < c.To.Fence {
				s := x.suspect("release-resets-counter", shown, len(told), "after a release of fence %d the row of %s shows fence %d",
					c.To.Fence, l.Name, v.v.Fence)
				chain := []Step{x.before(c.Invoke, "%s releases %s with fence %d", c.Invoke.Proc, l.Name, c.To.Fence),
					x.mistake(v.e, "%s finds it at %s", v.e.Proc, l.Text(v.v))}
				s.show(l.Name, v.e.TS, []string{c.Invoke.Proc, v.e.Proc}, append(chain, x.tokenReissued(l, v)...)...)
				continue
			}
			s := x.suspect("release-without-owner", shown, len(told), "a release of fence %d has freed the row of %s when it was at fence %d",
				c.To.Fence, l.Name, v.v.Fence)
			chain := []Step{x.before(c.Invoke, "%s releases its lease of fence %d", c.Invoke.Proc, c.To.Fence),
				x.mistake(v.e, "the row bears its mark at fence %d, which was another's", v.v.Fence)}
			if g := takeoversOf(l).before(c.Invoke.TS); g != nil {
				chain = append(chain, x.granted(RoleBefore, g))
			}
			s.show(l.Name, v.e.TS, []string{c.Invoke.Proc, v.e.Proc}, chain...)
		}
	}
}

// tokenReissued is the grant that gets a token for the second time after a row was set back.
func (x *Inquiry) tokenReissued(l *past.Row, v sighting) []Step {
	for _, g := range l.Grants {
		if g.Acquire.Invoke.TS >= v.e.TS && g.Acquire.Outcome == history.OK && len(l.ByToken[g.Token]) > 1 {
			return []Step{x.harm(g.Acquire.End, "%s is granted token %d, which had been given before", g.Acquire.Invoke.Proc, g.Token)}
		}
	}
	return nil
}

// vanishedRows: acquires that found no row where there had been one. How long it was
// there since its last write tells expiry from deletion.
func (x *Inquiry) vanishedRows() {
	for _, l := range x.Rows {
		if l.Shard {
			continue
		}
		for _, c := range l.CAS {
			if !c.From.Absent || c.Outcome != history.OK {
				continue
			}
			var last *past.CAS
			for _, o := range l.CAS {
				if o.Outcome == history.OK && o.End.TS < c.Invoke.TS && (last == nil || o.End.TS > last.End.TS) {
					last = o
				}
			}
			if last == nil {
				continue
			}
			gap, ttl := c.Invoke.TS-last.End.TS, c.TTL()
			chain := []Step{
				x.before(last.End, "the last write before: %s by %s to %s", last.Kind(), last.Invoke.Proc, l.Text(last.To)),
				x.mistake(c.Invoke, "%s finds no row, %s later", c.Invoke.Proc, phrase.MS(gap)), x.harm(c.End, "and is granted fence %d", c.To.Fence),
			}
			if gap*10 >= ttl*9 {
				s := x.found("rows-expire", WeightFits, "the row of %s was gone %s after its last write (ttl %s)",
					l.Name, phrase.MS(gap), phrase.MS(ttl))
				s.showAt(l.Name, c.Invoke, chain...)
			} else {
				s := x.found("row-deleted", WeightFits, "the row of %s was gone %s after its last write, long before its ttl of %s",
					l.Name, phrase.MS(gap), phrase.MS(ttl))
				s.showAt(l.Name, c.Invoke, chain...)
			}
		}
	}
}
