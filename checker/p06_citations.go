package checker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

func init() {
	register(check{
		id:    "P6",
		title: "every effect attempt cites a grant that the store made",
		by:    "the chain; the claims in it",
		run:   checkCitations,
		whole: true,
		rules: []rule{
			{find: (*inquiry).foreignIssuers},
			{find: (*inquiry).foreignRuns},
		},
		mechanisms: []mechanism{
			{id: "issuer-of-another-shard", accounts: []string{"P3", "P4", "P5", "P6", "P10"},
				statement: "effects name another shard as the issuer of their tokens than their job's"},
			{id: "one-token-for-all-shards", accounts: []string{"P3", "P4", "P6", "P10"},
				statement: "effects carry the highest run id of their process, of whatever shard"},
		},
	})
}

// checkCitations is P6: whoever calls the sink, starts work or was handed a
// token shows a grant that the store really made, to it, before, and that it
// could know of.
func checkCitations(_ context.Context, a *judgement, p *Property) {
	for _, l := range a.rows {
		for _, call := range l.orphans {
			p.Checked++
			p.add(l.name, both(call), "token %d was handed out to %s by a lock call without any acquire", call.end.Token, call.inv.Proc)
		}
		for _, g := range l.grants {
			if g.call != nil {
				a.checkCitation(g.call.end, l.name, g.call.end.Token, g, p)
			}
		}
	}
	for _, d := range a.decisions {
		if l := a.row[d.issuer]; l != nil && l.shard {
			a.checkClaim(d.event, l, p)
			continue
		}
		a.checkCitation(d.event, d.issuer, d.event.Token, d.grant, p)
	}
	for _, s := range a.sinks {
		for _, o := range s.raises {
			if o.inv.Proc == history.Harness {
				continue // its seal of the resource, after the last worker
			}
			var g *grant
			l := a.row[o.inv.Issuer]
			if l != nil && l.shard {
				a.checkClaim(o.inv, l, p)
				continue
			}
			if l != nil {
				g = l.find(o.inv.Token, o.inv.Proc)
			}
			a.checkCitation(o.inv, o.inv.Issuer, o.inv.Token, g, p)
		}
	}
	a.jobs.report("P6", p)
	p.Detail = "raises, starts, effects and handed-out tokens against the row's chain"
}

func (a *judgement) checkCitation(e *history.Event, lock string, token int64, g *grant, p *Property) {
	p.Checked++
	if g == nil {
		p.add(lock, []*history.Event{e}, "%s by %s shows token %d of %s, which was never granted", e.Op, e.Proc, token, lock)
		return
	}
	wrong := func(format string, args ...any) {
		text := fmt.Sprintf("%s by %s shows token %d of %s, ", e.Op, e.Proc, token, lock) + fmt.Sprintf(format, args...)
		p.add(lock, append(both(&g.acq.op, g.call), e), "%s", text)
	}
	switch {
	case !g.made():
		how := "was refused"
		if g.acq.outcome != history.Fail {
			how = "never took effect"
		}
		wrong("but the acquire behind it %s", how)
	case g.acq.inv.Proc != e.Proc:
		wrong("which was granted to %s", g.acq.inv.Proc)
	case g.acq.inv.TS > e.TS:
		wrong("%s before it asked for it", ms(g.acq.inv.TS-e.TS))
	case g.confirmed > e.TS && g.acq.end != nil:
		wrong("but no answer had told it that the grant took effect")
	}
}

// foreignRuns: sink calls that show the run of another job. If the tokens of a process
// never fall, from shard to shard, there is one for all.
func (x *inquiry) foreignRuns() {
	if !x.failed("P6") {
		return
	}
	type call struct {
		O *op
		S *sinkLog
	}
	calls := map[string][]call{} // by life
	for _, s := range x.a.sinks {
		for _, o := range append(slices.Clone(s.raises), s.effects...) {
			if l := x.a.row[o.inv.Issuer]; l != nil && l.shard && o.inv.Proc != history.Harness {
				life := history.Life(o.inv.Proc)
				calls[life] = append(calls[life], call{O: o, S: s})
			}
		}
	}
	wrong, highest := 0, 0
	var first *op
	for _, life := range slices.Sorted(maps.Keys(calls)) {
		cs := calls[life]
		slices.SortStableFunc(cs, func(a, b call) int { return cmp.Compare(a.O.inv.TS, b.O.inv.TS) })
		top := int64(0)
		for _, c := range cs {
			k := x.a.row[c.O.inv.Issuer].claimOf(c.O.inv.Token)
			if k == nil || k.j.spec != nil && k.j.spec.Resource != c.S.name {
				if wrong++; c.O.inv.Token >= top {
					highest++
					if first == nil || c.O.inv.TS < first.inv.TS {
						first = c.O
					}
				}
			}
			top = max(top, c.O.inv.Token)
		}
	}
	if wrong == 0 || highest*10 < wrong*8 {
		return
	}
	s := x.suspect("one-token-for-all-shards", shown, wrong, "%s the run of another job; %d of them show the highest that their process had shown until then, of whatever shard", plural(wrong, "sink call"), highest)
	chain := []Step{x.step(RoleMistake, first.inv, "%s by %s to %s shows run %d", first.inv.Op, first.inv.Proc, first.inv.Key, first.inv.Token)}
	procs := []string{first.inv.Proc}
	for _, l := range x.a.rows {
		if k := l.claimOf(first.inv.Token); k != nil && history.Life(k.w.main().inv.Proc) == history.Life(first.inv.Proc) {
			chain = append(chain, x.change(RoleBefore, jobStep{k.w, k.c}))
		}
	}
	s.show(first.inv.Key, first.inv.TS, procs, chain...)
}

// foreignIssuers: sink calls for a run of a job that name another issuer than the shard
// that it was claimed from.
func (x *inquiry) foreignIssuers() {
	n := 0
	var call *op
	var of *claim
	for _, j := range x.a.jobs.list {
		if j.spec == nil || x.a.sink[j.spec.Resource] == nil {
			continue
		}
		s := x.a.sink[j.spec.Resource]
		for _, o := range append(slices.Clone(s.raises), s.effects...) {
			k := x.a.row[j.shard].claimOf(o.inv.Token)
			if k == nil || k.j != j || o.inv.Issuer == j.shard || history.Life(o.inv.Proc) == history.Harness {
				continue
			}
			if n++; call == nil || o.inv.TS < call.inv.TS {
				call, of = o, k
			}
		}
	}
	if n == 0 {
		return
	}
	s := x.suspect("issuer-of-another-shard", written, n, "%s with another issuer than the shard that their run was claimed from; the first has %s for a job in %s", plural(n, "sink call"), call.inv.Issuer, of.j.shard)
	s.show(of.j.id, call.inv.TS, []string{call.inv.Proc}, x.change(RoleBefore, jobStep{of.w, of.c}),
		x.step(RoleMistake, call.inv, "%s by %s to %s names the issuer %s", call.inv.Op, call.inv.Proc, call.inv.Key, call.inv.Issuer))
}
