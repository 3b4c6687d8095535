package property

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:    "P9",
		title: "only the owner renews or releases",
		by:    "the chain",
		run:   checkOwnership,
		soFar: checkOwnership,
		rules: []rule{
			{needs: "P2", find: (*Inquiry).ignoredRenewals},
			{needs: "P2", find: (*Inquiry).wrongOwners},
		},
		mechanisms: []mechanism{
			{id: "takeover-ignores-renewals", Accounts: ofRows,
				Statement: "a takeover names a version that was renewed since: it does not look whether the lease is alive"},
			{id: "release-without-owner", Accounts: ofRows, Statement: "a release frees the row no matter who holds it",
				Apart: "a release of a lost lease that is rejected"},
			{id: "renewal-changes-more", Accounts: ofRows, Statement: "a renewal changes more than the beat"},
			{id: "foreign-writer", Statement: "a row is renewed or released by somebody who does not hold it"},
		},
	})
}

// checkOwnership is P9.
func checkOwnership(_ context.Context, a *Judgement, p *Property) {
	for _, l := range a.Rows {
		taken := takeoversOf(l)
		for _, c := range l.CAS {
			if c.Write.Pos < 0 && c.Outcome != history.OK {
				continue // had no effect
			}
			p.Checked++
			checkOwner(l, c, p)
			if past.IsRenewal(c.Kind()) || past.IsRelease(c.Kind()) {
				if g := taken.before(c.Invoke.TS); g != nil && c.Outcome == history.OK && g.Fence > c.To.Fence && !laterGrant(l, c, g) {
					p.add(l.Name, past.Events(&g.Acquire.Op, &c.Op),
						"%s by %s of fence %d was answered applied, but the %s had passed to %s with fence %d %s before",
						c.Kind(), c.Invoke.Proc, c.To.Fence, l.Noun(), g.Acquire.Invoke.Proc, g.Fence, phrase.MS(c.Invoke.TS-g.Acquire.End.TS))
				}
			}
		}
	}
	p.Detail = "every renewal and release that took effect"
}

// laterGrant says whether c is under a grant that came after g in the row's chain, in
// spite of its lower fence (P1): then the lock had not passed on from it.
func laterGrant(l *past.Row, c *past.CAS, g *past.Grant) bool {
	own := l.GrantAt(c.From, c.Invoke.Proc)
	return own != nil && own.Acquire.Write.Pos > g.Acquire.Write.Pos && g.Acquire.Write.Pos >= 0
}

func checkOwner(l *past.Row, c *past.CAS, p *Property) {
	bad := func(format string, args ...any) {
		events := past.Events(&c.Op)
		if g := l.GrantAt(c.From, c.Invoke.Proc); g != nil {
			events = append(past.Events(&g.Acquire.Op), events...)
		}
		p.add(l.Name, events, "%s by %s "+format, append([]any{c.Kind(), c.Invoke.Proc}, args...)...)
	}
	switch c.Kind() {
	case history.OpAcquire:
		if c.To.Holder != c.Invoke.Proc {
			bad("names %q as the holder", c.To.Holder)
		}
	case history.OpRenew:
		switch {
		case c.From.Holder != c.Invoke.Proc:
			bad("renewed the lease of %s", l.Text(c.From))
		case c.To.Holder != c.From.Holder || c.To.Attempt != c.From.Attempt || c.To.Fence != c.From.Fence || c.To.Beat <= c.From.Beat:
			bad("changed more than the beat: from %s to %s", l.Text(c.From), l.Text(c.To))
		}
	case history.OpTake:
		if c.To.Beat != c.From.Beat+1 {
			bad("did not set the next tick: from %s to %s", l.Text(c.From), l.Text(c.To))
		}
	case history.OpTick, history.OpHandOver:
		switch g := l.GrantAt(c.From, c.Invoke.Proc); {
		case g == nil:
			bad("is under fence %d, which nobody took", c.From.Fence)
		case !g.OwnedBy(c.Invoke.Proc):
			bad("is under fence %d, which %s took", c.From.Fence, g.Acquire.Invoke.Proc)
		case c.To.Fence != c.From.Fence || c.To.Beat != c.From.Beat+1 || c.To.Attempt == c.From.Attempt:
			bad("did not set the next tick of its fence: from %s to %s", l.Text(c.From), l.Text(c.To))
		}
	case history.OpRelease:
		switch {
		case c.From.Holder != c.Invoke.Proc:
			bad("released the lease of %s", l.Text(c.From))
		case c.To.Holder != "" || c.To.Absent || c.To.Fence != c.From.Fence:
			bad("did not leave the lock free with its fence: from %s to %s", l.Text(c.From), l.Text(c.To))
		}
	}
}

// takeovers are a lock's acknowledged acquires by end, with the highest fence so far.
type takeovers struct {
	ends []int64
	top  []*past.Grant
}

func takeoversOf(l *past.Row) takeovers {
	var t takeovers
	gs := slices.DeleteFunc(slices.Clone(l.Grants), func(g *past.Grant) bool { return g.Acquire.Outcome != history.OK })
	sort.SliceStable(gs, func(i, j int) bool { return gs[i].Acquire.End.TS < gs[j].Acquire.End.TS })
	var top *past.Grant
	for _, g := range gs {
		if top == nil || g.Fence > top.Fence {
			top = g
		}
		t.ends, t.top = append(t.ends, g.Acquire.End.TS), append(t.top, top)
	}
	return t
}

// before is the grant with the highest fence that was known before t.
func (t takeovers) before(at int64) *past.Grant {
	i := sort.Search(len(t.ends), func(i int) bool { return t.ends[i] >= at })
	if i == 0 {
		return nil
	}
	return t.top[i-1]
}

// ignoredRenewals: a takeover that names a version of a lease that had been renewed,
// as its holder was told, before the takeover began.
func (x *Inquiry) ignoredRenewals() {
	for _, l := range x.Rows {
		for _, c := range l.CAS {
			if l.Shard || c.Kind() != history.OpAcquire || c.From.Holder == "" || c.Outcome != history.OK {
				continue
			}
			if c.To.FirstProof() == nil {
				continue // the renewal may have stopped it: that it was told otherwise is falseGrants'
			}
			g := l.ByAttempt[c.From.Attempt]
			if g == nil {
				continue
			}
			for _, r := range g.Renews {
				if r.To.Beat > c.From.Beat && r.End.TS <= c.Invoke.TS {
					s := x.found("takeover-ignores-renewals", shown, "%s took %s over from %s, which had been renewed to beat %d %s before",
						c.Invoke.Proc, l.Name, l.Text(c.From), r.To.Beat, phrase.MS(c.Invoke.TS-r.End.TS))
					s.show(l.Name, c.Invoke.TS, []string{g.Acquire.Invoke.Proc, c.Invoke.Proc}, x.granted(RoleBefore, g),
						x.before(r.End, "%s renews it: %s", r.Invoke.Proc, l.Text(r.To)), x.mistake(c.Invoke, "%s takes it over from %s",
							c.Invoke.Proc, l.Text(c.From)), x.harm(c.End, "and is told that it holds it"))
					x.shortCondition(s, "beat")
					break
				}
			}
		}
	}
}

// shortCondition adds the text of a condition that lacks a column which others of its
// table name.
func (x *Inquiry) shortCondition(s *Suspect, column string) {
	full := map[string]bool{}
	parsed := x.parsed()
	for _, st := range parsed {
		full[st.table] = full[st.table] || slices.Contains(st.names, column)
	}
	for _, st := range parsed {
		if len(st.names) > 0 && full[st.table] && !slices.Contains(st.names, column) && len(s.Evidence) < maxEvidence {
			s.Evidence = append(s.Evidence, fmt.Sprintf("a condition on %s names only %s", st.table, strings.Join(st.names, ", ")))
			return
		}
	}
}

// wrongOwners: releases and renewals that were applied when the row had passed on.
// What the row shows afterwards tells one without an owner's check from one without
// any condition.
func (x *Inquiry) wrongOwners() {
	for _, l := range x.Rows {
		if l.Shard {
			continue
		}
		taken := takeoversOf(l)
		for _, c := range l.CAS {
			switch {
			case c.Outcome != history.OK || !past.IsRenewal(c.Kind()) && !past.IsRelease(c.Kind()):
				continue
			case c.From.Holder != c.Invoke.Proc:
				s := x.suspect("foreign-writer", WeightFits, 1, "%s by %s names the lease of %s", c.Kind(), c.Invoke.Proc, l.Text(c.From))
				s.showAt(l.Name, c.Invoke, x.mistake(c.Invoke, "%s by %s from %s", c.Kind(), c.Invoke.Proc, l.Text(c.From)))
			case past.IsRenewal(c.Kind()) && (c.To.Attempt != c.From.Attempt || c.To.Fence != c.From.Fence || c.To.Holder != c.From.Holder):
				s := x.suspect("renewal-changes-more", shown, 1, "a renewal goes from %s to %s", l.Text(c.From), l.Text(c.To))
				s.showAt(l.Name, c.Invoke, x.mistake(c.Invoke, "%s renews %s to %s", c.Invoke.Proc, l.Text(c.From), l.Text(c.To)))
			}
			g := taken.before(c.Invoke.TS)
			if g == nil || g.Fence <= c.To.Fence {
				continue
			}
			chain := []Step{x.granted(RoleBefore, g), x.mistake(c.End, "%s by %s of fence %d was applied, %s after the lock had passed to fence %d",
				c.Kind(), c.Invoke.Proc, c.To.Fence, phrase.MS(c.Invoke.TS-g.Acquire.End.TS), g.Fence)}
			if own := l.ByAttempt[c.From.Attempt]; own != nil {
				chain = append(chain, x.granted(RoleBefore, own))
			}
			id, group := "", ""
			switch found := foundAfter(l, c.To, c.End.TS); {
			case past.IsRenewal(c.Kind()):
				id = "unconditional-renewal"
			case !x.plainWrites():
				id = "release-without-owner"
			case found:
				id = "unconditional-release"
			default:
				id, group = "release-without-owner", "release"
			}
			s := x.suspect(id, WeightFits, 1, "the row of %s had passed to fence %d when a %s of fence %d was applied",
				l.Name, g.Fence, c.Kind(), c.To.Fence)
			s.Group = cmp.Or(s.Group, group)
			s.show(l.Name, c.End.TS, []string{g.Acquire.Invoke.Proc, c.Invoke.Proc}, chain...)
			if group != "" {
				other := x.suspect("unconditional-release", WeightFits, 1,
					"the row of %s had passed to fence %d when a release of fence %d was applied", l.Name, g.Fence, c.To.Fence)
				other.Group = group
				other.show(l.Name, c.End.TS, []string{g.Acquire.Invoke.Proc, c.Invoke.Proc}, chain...)
			}
		}
	}
}

// foundAfter says whether anybody found the row at v after an instant.
func foundAfter(l *past.Row, v *past.Version, after int64) bool {
	return slices.ContainsFunc(sightingsOf(l), func(s sighting) bool { return s.v == v && s.e.TS > after })
}
