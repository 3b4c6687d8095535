package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fencepost/harness/record/history"
)

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

// falseGrants: acquires that their client took for granted and that never were. Whether
// there was an answer at all shows by when the operation ended.
func (x *inquiry) falseGrants() {
	var overdue, answered []*cas
	recorded := true // as applied: the client was told so, or told itself so
	for _, l := range x.a.rows {
		for _, g := range l.grants {
			c := g.acq
			if c.kind() != history.OpAcquire || c.w.pos >= 0 && c.w.main() == c || l.fate(c.w) != never && c.outcome == history.OK {
				continue
			}
			switch {
			case c.outcome == history.Unknown && g.call != nil:
				overdue, recorded = append(overdue, c), false
			case c.outcome == history.Fail && g.call != nil:
				answered, recorded = append(answered, c), false
			case c.outcome == history.OK && (c.end.TS-anchor(&c.op))*5 >= 4*x.a.patience(c.ttl()):
				overdue = append(overdue, c)
			case c.outcome == history.OK:
				answered = append(answered, c)
			}
		}
	}
	n := len(overdue) + len(answered)
	file := func(id string, cs []*cas, what string) {
		if len(cs)*5 < n || n == 0 {
			return // a few are noise: a slow refusal, a quick failure
		}
		w := fits
		if !recorded {
			w = shown
		}
		c := cs[0]
		s := x.suspect(id, w, len(cs), "%s of %s that %s %s: %s", plural(len(cs), "acquire"), plural(n, "false one"), "count as granted", what, sent(&c.op))
		if len(cs)*5 <= 4*n {
			s.group = "false grants"
		}
		told := c.end
		if told == nil {
			told = c.inv
		}
		chain := []Step{x.step(RoleBefore, c.inv, "%s asks for %s from %s", c.inv.Proc, c.log.name, c.log.text(c.from)), x.step(RoleMistake, told, "it counts as granted, %s", sent(&c.op))}
		if next := c.from.next; next != nil && next.main() != c {
			o := next.main()
			chain = append(chain, x.step(RoleBefore, o.inv, "what really came next: %s by %s to %s", o.kind(), o.inv.Proc, c.log.text(next.to)))
		}
		s.show(c.log.name, told.TS, []string{c.inv.Proc}, chain...)
	}
	file("unknown-granted", overdue, "ended only when an answer was overdue")
	file("refusal-granted", answered, "ended as soon as answers do")
}

// falseFailures: operations that were reported as failed and took effect.
func (x *inquiry) falseFailures() {
	var again, misread, lost []*cas
	for _, l := range x.a.rows {
		for _, w := range l.chain {
			if c := w.main(); !w.possible() && c.end != nil {
				switch {
				case c.row == nil:
					lost = append(lost, c)
				case len(c.end.Sends) > 1:
					misread = append(misread, c)
				default: // it was sent once, so it was refused by what it had done itself
					again = append(again, c)
				}
			}
		}
	}
	show := func(s *suspect, c *cas, what string) {
		l := c.log
		chain := []Step{x.step(RoleBefore, c.inv, "%s sends %s of %s from %s", c.inv.Proc, c.kind(), l.name, l.text(c.from)), x.step(RoleMistake, c.end, "%s: %s", what, sent(&c.op))}
		if next := c.to.proof(); next != nil {
			chain = append(chain, x.step(RoleHarm, next.inv, "%s by %s finds the row as it was set", next.inv.Op, next.inv.Proc))
		}
		s.show(l.name, c.end.TS, []string{c.inv.Proc}, chain...)
	}
	if len(again) > 0 {
		c := again[0]
		show(x.suspect("request-executed-again", shown, len(again), "%s sent once and refused, though it had taken effect: it was refused by what it had done itself", were(len(again), "request")), c, "it is refused, and the row that comes back is its own or a later one")
	}
	if len(misread) > 0 {
		show(x.suspect("resend-misread", fits, len(misread), "%s sent several times, refused, and had taken effect", were(len(misread), "request")), misread[0], "it is taken for failed")
	}
	if len(lost) == 0 {
		return
	}
	unknowns := 0
	for i := range x.a.ops {
		if o := &x.a.ops[i]; o.inv.Proc != harness && o.end != nil && o.outcome == history.Unknown {
			unknowns++
		}
	}
	kinds, resent := map[history.Op]int{}, 0
	for _, c := range lost {
		kinds[c.kind()]++
		if len(c.end.Sends) > 1 {
			resent++
		}
	}
	var names []string
	for _, k := range sortedKeys(kinds) {
		names = append(names, fmt.Sprintf("%d %s", kinds[k], k))
	}
	what := fmt.Sprintf("%s reported as failed without a row, and took effect: %s", were(len(lost), "operation"), strings.Join(names, ", "))
	var ids []string
	alone := len(kinds) == 1 && resent == 0
	switch {
	case alone && kinds[history.OpAcquire] > 0:
		ids = append(ids, "unknown-refused")
	case lost[0].log.shard && unknowns > 0 || lost[0].log.shard && resent == 0:
		ids = append(ids, "batch-taken-for-lost")
	}
	if unknowns == 0 {
		ids = append(ids, "unknown-recorded-as-failed")
	}
	for _, id := range ids {
		s := x.suspect(id, shown, len(lost), "%s", what)
		if id == "unknown-recorded-as-failed" {
			x.suspect(id, shown, len(lost), "not one operation of the workers is recorded as unknown; of these %d were sent again, as is done with what is not known", resent)
		}
		if len(ids) > 1 {
			s.group = "false failures"
		}
		show(s, lost[0], "it is taken for failed")
	}
}

// oldStamps: a shard's header comes back to a version that had been left.
func (x *inquiry) oldStamps() {
	if x.failed("P13") {
		return // a plain write sets versions of its own back
	}
	n := 0
	for _, l := range x.a.rows {
		if !l.shard {
			continue
		}
		left := map[*version]*cas{} // that was acknowledged first
		for _, c := range l.cas {
			if old := left[c.from]; c.outcome == history.OK && (old == nil || c.end.TS < old.end.TS) {
				left[c.from] = c
			}
		}
		for _, v := range l.seen() {
			by := left[v.v]
			if by == nil || !v.ok || v.e == by.inv || v.e.TS <= by.end.TS || !x.after(l, v, by) {
				continue
			}
			n++
			s := x.suspect("late-copy-done-again", shown, n, "%s was at %s again, %s after a batch had replaced that", l.name, l.text(v.v), ms(v.e.TS-by.end.TS))
			var chain []Step
			for _, w := range v.v.setBy {
				c := w.main()
				chain = append(chain, x.step(RoleBefore, c.inv, "%s sends the batch to %s, %s", c.inv.Proc, l.text(v.v), sent(&c.op)))
			}
			chain = append(chain, x.step(RoleBefore, by.end, "%s by %s replaces it by %s", by.kind(), by.inv.Proc, l.text(by.to)), x.step(RoleMistake, v.e, "%s finds the header at %s again", v.e.Proc, l.text(v.v)))
			s.show(l.name, v.e.TS, []string{by.inv.Proc, v.e.Proc}, chain...)
			break
		}
	}
}

// after says whether the operation of a sighting began when the version had certainly
// been left.
func (x *inquiry) after(l *rowLog, v sighting, by *cas) bool {
	for _, c := range l.cas {
		if c.end == v.e || c.inv == v.e {
			return c.inv.TS > by.end.TS
		}
	}
	for _, r := range l.reads {
		if r.end == v.e {
			return r.inv.TS > by.end.TS
		}
	}
	return false
}

// surfacingWrites: legal if an unknown write may take effect at any time, illegal if one
// that its coordinator gave up cannot.
func (x *inquiry) surfacingWrites() {
	for _, p := range x.res.Properties {
		if p.ID != "P2" || len(p.Violations) == 0 || !strings.EqualFold(p.Encodings["open"], "ok") || !strings.EqualFold(p.Encodings["bounded"], "illegal") {
			continue
		}
		v := p.Violations[0]
		s := x.suspect("given-up-write-surfaces", fits, p.Count, "an order of the operations exists only if a write can take effect after its coordinator's timeout")
		var chain []Step
		for _, ref := range v.Events {
			e := ref.Event
			e.File, e.Line = ref.File, ref.Line
			chain = append(chain, x.step(RoleMistake, &e, "%s %s by %s", e.Op, e.Type, e.Proc))
		}
		s.show(v.Key, v.To, nil, chain...)
	}
}
