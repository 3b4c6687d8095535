package checker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:    "P9",
		title: "only the owner renews or releases",
		by:    "the chain",
		run:   checkOwnership,
		soFar: checkOwnership,
		rules: []rule{
			{needs: "P2", find: (*inquiry).ignoredRenewals},
			{needs: "P2", find: (*inquiry).wrongOwners},
		},
		mechanisms: []mechanism{
			{id: "takeover-ignores-renewals", accounts: ofRows,
				statement: "a takeover names a version that was renewed since: it does not look whether the lease is alive"},
			{id: "release-without-owner", accounts: ofRows,
				statement: "a release frees the row whoever holds it",
				apart:     "a release of a lost lease that is rejected"},
			{id: "renewal-changes-more", accounts: ofRows,
				statement: "a renewal changes more than the beat"},
			{id: "foreign-writer", accounts: []string{"P9"},
				statement: "a row is renewed or released by somebody who does not hold it"},
		},
	})
}

// checkOwnership is P9.
func checkOwnership(_ context.Context, a *analysis, p *Property) {
	for _, l := range a.rows {
		taken := l.takenBy()
		for _, c := range l.cas {
			if c.w.pos < 0 && c.outcome != history.OK {
				continue // had no effect
			}
			p.Checked++
			l.checkOwner(c, p)
			if isRenewal(c.kind()) || isRelease(c.kind()) {
				if g := taken.before(c.inv.TS); g != nil && c.outcome == history.OK && g.fence > c.to.Fence && !l.laterGrant(c, g) {
					p.add(l.name, both(&g.acq.op, &c.op), "%s by %s of fence %d was answered applied, but the %s had passed to %s with fence %d %s before", c.kind(), c.inv.Proc, c.to.Fence, l.noun(), g.acq.inv.Proc, g.fence, ms(c.inv.TS-g.acq.end.TS))
				}
			}
		}
	}
	p.Detail = "every renewal and release that took effect"
}

// laterGrant says whether c is under a grant that came after g in the row's chain, in
// spite of its lower fence (P1): then the lock had not passed on from it.
func (l *rowLog) laterGrant(c *cas, g *grant) bool {
	own := l.under(c.from, c.inv.Proc)
	return own != nil && own.acq.w.pos > g.acq.w.pos && g.acq.w.pos >= 0
}

func (l *rowLog) checkOwner(c *cas, p *Property) {
	bad := func(format string, args ...any) {
		events := both(&c.op)
		if g := l.under(c.from, c.inv.Proc); g != nil {
			events = append(both(&g.acq.op), events...)
		}
		p.add(l.name, events, "%s by %s "+format, append([]any{c.kind(), c.inv.Proc}, args...)...)
	}
	switch c.kind() {
	case history.OpAcquire:
		if c.to.Holder != c.inv.Proc {
			bad("names %q as the holder", c.to.Holder)
		}
	case history.OpRenew:
		switch {
		case c.from.Holder != c.inv.Proc:
			bad("renewed the lease of %s", l.text(c.from))
		case c.to.Holder != c.from.Holder || c.to.Attempt != c.from.Attempt || c.to.Fence != c.from.Fence || c.to.Beat <= c.from.Beat:
			bad("changed more than the beat: from %s to %s", l.text(c.from), l.text(c.to))
		}
	case history.OpTake:
		if c.to.Beat != c.from.Beat+1 {
			bad("did not set the next tick: from %s to %s", l.text(c.from), l.text(c.to))
		}
	case history.OpTick, history.OpHandOver:
		switch g := l.under(c.from, c.inv.Proc); {
		case g == nil:
			bad("is under fence %d, which nobody took", c.from.Fence)
		case !g.mine(c.inv.Proc):
			bad("is under fence %d, which %s took", c.from.Fence, g.acq.inv.Proc)
		case c.to.Fence != c.from.Fence || c.to.Beat != c.from.Beat+1 || c.to.Attempt == c.from.Attempt:
			bad("did not set the next tick of its fence: from %s to %s", l.text(c.from), l.text(c.to))
		}
	case history.OpRelease:
		switch {
		case c.from.Holder != c.inv.Proc:
			bad("released the lease of %s", l.text(c.from))
		case c.to.Holder != "" || c.to.Absent || c.to.Fence != c.from.Fence:
			bad("did not leave the lock free with its fence: from %s to %s", l.text(c.from), l.text(c.to))
		}
	}
}

// takeovers are a lock's acknowledged acquires by end, with the highest fence so far.
type takeovers struct {
	ends []int64
	top  []*grant
}

func (l *rowLog) takenBy() takeovers {
	var t takeovers
	gs := make([]*grant, 0, len(l.grants))
	for _, g := range l.grants {
		if g.acq.outcome == history.OK {
			gs = append(gs, g)
		}
	}
	sort.SliceStable(gs, func(i, j int) bool { return gs[i].acq.end.TS < gs[j].acq.end.TS })
	var top *grant
	for _, g := range gs {
		if top == nil || g.fence > top.fence {
			top = g
		}
		t.ends, t.top = append(t.ends, g.acq.end.TS), append(t.top, top)
	}
	return t
}

// before is the grant with the highest fence that was known before t.
func (t takeovers) before(at int64) *grant {
	i := sort.Search(len(t.ends), func(i int) bool { return t.ends[i] >= at })
	if i == 0 {
		return nil
	}
	return t.top[i-1]
}

// ignoredRenewals: a takeover that names a version of a lease that had been renewed,
// as its holder was told, before the takeover began.
func (x *inquiry) ignoredRenewals() {
	n := 0
	for _, l := range x.a.rows {
		for _, c := range l.cas {
			if l.shard || c.kind() != history.OpAcquire || c.from.Holder == "" || c.outcome != history.OK {
				continue
			}
			g := l.byAttempt[c.from.Attempt]
			if g == nil {
				continue
			}
			for _, r := range g.renews {
				if r.to.Beat > c.from.Beat && r.end.TS <= c.inv.TS {
					n++
					s := x.suspect("takeover-ignores-renewals", shown, n, "%s took %s over from %s, which had been renewed to beat %d %s before", c.inv.Proc, l.name, l.text(c.from), r.to.Beat, ms(c.inv.TS-r.end.TS))
					s.show(l.name, c.inv.TS, []string{g.acq.inv.Proc, c.inv.Proc}, x.granted(RoleBefore, g),
						x.step(RoleBefore, r.end, "%s renews it: %s", r.inv.Proc, l.text(r.to)), x.step(RoleMistake, c.inv, "%s takes it over from %s", c.inv.Proc, l.text(c.from)), x.step(RoleHarm, c.end, "and is told that it holds it"))
					x.shortCondition(s, "beat")
					break
				}
			}
		}
	}
}

// shortCondition adds the text of a condition that lacks a column which others of its
// table name.
func (x *inquiry) shortCondition(s *suspect, column string) {
	full := map[string]bool{}
	var parsed []statement
	for _, e := range x.a.shapes {
		stmts, err := parseCQL(e.Statement().CQL)
		if err != nil {
			continue
		}
		for _, st := range stmts {
			full[st.table] = full[st.table] || slices.Contains(st.names, column)
		}
		parsed = append(parsed, stmts...)
	}
	for _, st := range parsed {
		if len(st.names) > 0 && full[st.table] && !slices.Contains(st.names, column) && len(s.evidence) < maxEvidence {
			s.evidence = append(s.evidence, fmt.Sprintf("a condition on %s names only %s", st.table, strings.Join(st.names, ", ")))
			return
		}
	}
}

// wrongOwners: releases and renewals that were applied when the row had passed on.
// What the row shows afterwards tells one without an owner's check from one without
// any condition.
func (x *inquiry) wrongOwners() {
	for _, l := range x.a.rows {
		if l.shard {
			continue
		}
		taken := l.takenBy()
		for _, c := range l.cas {
			switch {
			case c.outcome != history.OK || !isRenewal(c.kind()) && !isRelease(c.kind()):
				continue
			case c.from.Holder != c.inv.Proc:
				s := x.suspect("foreign-writer", fits, 1, "%s by %s names the lease of %s", c.kind(), c.inv.Proc, l.text(c.from))
				s.show(l.name, c.inv.TS, []string{c.inv.Proc}, x.step(RoleMistake, c.inv, "%s by %s from %s", c.kind(), c.inv.Proc, l.text(c.from)))
			case isRenewal(c.kind()) && (c.to.Attempt != c.from.Attempt || c.to.Fence != c.from.Fence || c.to.Holder != c.from.Holder):
				s := x.suspect("renewal-changes-more", shown, 1, "a renewal goes from %s to %s", l.text(c.from), l.text(c.to))
				s.show(l.name, c.inv.TS, []string{c.inv.Proc}, x.step(RoleMistake, c.inv, "%s renews %s to %s", c.inv.Proc, l.text(c.from), l.text(c.to)))
			}
			g := taken.before(c.inv.TS)
			if g == nil || g.fence <= c.to.Fence {
				continue
			}
			chain := []Step{x.granted(RoleBefore, g), x.step(RoleMistake, c.end, "%s by %s of fence %d was applied, %s after the lock had passed to fence %d", c.kind(), c.inv.Proc, c.to.Fence, ms(c.inv.TS-g.acq.end.TS), g.fence)}
			if own := l.byAttempt[c.from.Attempt]; own != nil {
				chain = append(chain, x.granted(RoleBefore, own))
			}
			id, group := "", ""
			switch shows := l.shows(c.to, c.end.TS); {
			case isRenewal(c.kind()):
				id = "unconditional-renewal"
			case !x.plainWrites():
				id = "release-without-owner"
			case shows:
				id = "unconditional-release"
			default:
				id, group = "release-without-owner", "release"
			}
			s := x.suspect(id, fits, 1, "the row of %s had passed to fence %d when a %s of fence %d was applied", l.name, g.fence, c.kind(), c.to.Fence)
			s.group = cmp.Or(s.group, group)
			s.show(l.name, c.end.TS, []string{g.acq.inv.Proc, c.inv.Proc}, chain...)
			if group != "" {
				other := x.suspect("unconditional-release", fits, 1, "the row of %s had passed to fence %d when a release of fence %d was applied", l.name, g.fence, c.to.Fence)
				other.group = group
				other.show(l.name, c.end.TS, []string{g.acq.inv.Proc, c.inv.Proc}, chain...)
			}
		}
	}
}

// shows says whether anybody found the row at v after an instant.
func (l *rowLog) shows(v *version, after int64) bool {
	return slices.ContainsFunc(l.seen(), func(s sighting) bool { return s.v == v && s.e.TS > after })
}
