package property

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:             "P6",
		title:          "every effect attempt cites a grant that the store made",
		by:             "the chain; the claims in it",
		run:            checkCitations,
		completeRecord: true,
		rules: []rule{
			{find: (*Inquiry).foreignIssuers},
			{find: (*Inquiry).foreignRuns},
		},
		mechanisms: []mechanism{
			{id: "issuer-of-another-shard", Accounts: []string{"P3", "P4", "P5", "P6", "P10"},
				Statement: "effects name another shard as the issuer of their tokens than their job's"},
			{id: "one-token-for-all-locks", Accounts: []string{"P1", "P3", "P4", "P6", "P10"},
				Statement: "a client that holds several locks shows the token of one of them for all"},
			{id: "one-token-for-all-shards", Accounts: []string{"P3", "P4", "P6", "P10"},
				Statement: "effects carry the highest run id of their process, of whatever shard"},
		},
	})
}

// checkCitations is P6: a process that calls the sink, starts work or was given a token shows
// a grant that the store made to this process before, and that the process could know of.
func checkCitations(_ context.Context, a *Judgement, p *Property) {
	for _, l := range a.Rows {
		for _, call := range l.Orphans {
			p.Checked++
			p.add(l.Name, past.Events(call), "token %d was handed out to %s by a lock call without any acquire", call.End.Token, call.Invoke.Proc)
		}
		for _, g := range l.Grants {
			if g.Call != nil {
				checkCitation(g.Call.End, l.Name, g, p)
			}
		}
	}
	for _, d := range a.Decisions {
		a.checkShown(d.Event, d.Issuer, p)
	}
	for _, s := range a.Sinks {
		for _, o := range s.Raises {
			if o.Invoke.Proc != history.Harness { // not its seal of the resource, after the last worker
				a.checkShown(o.Invoke, o.Invoke.Issuer, p)
			}
		}
	}
	report(&a.Jobs, "P6", p)
	p.Detail = "raises, starts, effects and handed-out tokens against the row's chain"
}

// checkShown judges an event that shows a token of a lock, or a run of a shard.
func (a *Judgement) checkShown(e *history.Event, issuer string, p *Property) {
	switch l := a.RowOf[issuer]; {
	case l == nil:
		checkCitation(e, issuer, nil, p)
	case l.Shard:
		a.checkClaim(e, l, p)
	default:
		checkCitation(e, issuer, l.Find(e.Token, e.Proc), p)
	}
}

func checkCitation(e *history.Event, lock string, g *past.Grant, p *Property) {
	p.Checked++
	if g == nil {
		p.add(lock, []*history.Event{e}, "%s by %s shows token %d of %s, which was never granted", e.Op, e.Proc, e.Token, lock)
		return
	}
	wrong := func(format string, args ...any) {
		text := fmt.Sprintf("%s by %s shows token %d of %s, ", e.Op, e.Proc, e.Token, lock) + fmt.Sprintf(format, args...)
		p.add(lock, append(past.Events(&g.Acquire.Op, g.Call), e), "%s", text)
	}
	switch {
	case !g.TookEffect():
		how := "was refused"
		if g.Acquire.Outcome != history.Fail {
			how = "never took effect"
		}
		wrong("but the acquire behind it %s", how)
	case g.Acquire.Invoke.Proc != e.Proc:
		wrong("which was granted to %s", g.Acquire.Invoke.Proc)
	case g.Acquire.Invoke.TS > e.TS:
		wrong("%s before it asked for it", phrase.MS(g.Acquire.Invoke.TS-e.TS))
	case g.Confirmed > e.TS && g.Acquire.End != nil:
		wrong("but no answer had told it that the grant took effect")
	}
}

// foreignRuns: sink calls that show the run of another job. If the tokens of a process
// never fall, from shard to shard, there is one for all.
func (x *Inquiry) foreignRuns() {
	if !x.failed("P6") {
		return
	}
	type call struct {
		O *past.Op
		S *past.Sink
	}
	calls := map[string][]call{} // by life
	for _, s := range x.Sinks {
		for _, o := range s.Calls() {
			if l := x.RowOf[o.Invoke.Issuer]; l != nil && l.Shard && o.Invoke.Proc != history.Harness {
				life := history.Life(o.Invoke.Proc)
				calls[life] = append(calls[life], call{O: o, S: s})
			}
		}
	}
	wrong, highest := 0, 0
	var first *past.Op
	for _, life := range slices.Sorted(maps.Keys(calls)) {
		cs := calls[life]
		slices.SortStableFunc(cs, func(a, b call) int { return cmp.Compare(a.O.Invoke.TS, b.O.Invoke.TS) })
		top := int64(0)
		for _, c := range cs {
			k := x.RowOf[c.O.Invoke.Issuer].ClaimOf(c.O.Invoke.Token)
			if k == nil || k.Job.Spec != nil && k.Job.Spec.Resource != c.S.Name {
				if wrong++; c.O.Invoke.Token >= top {
					highest++
					if first == nil || c.O.Invoke.TS < first.Invoke.TS {
						first = c.O
					}
				}
			}
			top = max(top, c.O.Invoke.Token)
		}
	}
	if wrong == 0 || highest*10 < wrong*8 {
		return
	}
	s := x.suspect("one-token-for-all-shards", shown, wrong,
		"%s the run of another job; %d of them show the highest that their process had shown until then, of whatever shard",
		phrase.Plural(wrong, "sink call"), highest)
	chain := []Step{x.mistake(first.Invoke, "%s by %s to %s shows run %d",
		first.Invoke.Op, first.Invoke.Proc, first.Invoke.Key, first.Invoke.Token)}
	procs := []string{first.Invoke.Proc}
	for _, l := range x.Rows {
		if k := l.ClaimOf(first.Invoke.Token); k != nil && history.Life(k.Write.Main().Invoke.Proc) == history.Life(first.Invoke.Proc) {
			chain = append(chain, x.change(RoleBefore, past.JobStep{Write: k.Write, Change: k.Change}))
		}
	}
	s.show(first.Invoke.Key, first.Invoke.TS, procs, chain...)
}

// foreignIssuers: sink calls for a run of a job that name another issuer than the shard
// that it was claimed from.
func (x *Inquiry) foreignIssuers() {
	n := 0
	var call *past.Op
	var of *past.Claim
	for _, j := range x.Jobs.List {
		if j.Spec == nil || x.SinkOf[j.Spec.Resource] == nil {
			continue
		}
		s := x.SinkOf[j.Spec.Resource]
		for _, o := range s.Calls() {
			k := x.RowOf[j.Shard].ClaimOf(o.Invoke.Token)
			if k == nil || k.Job != j || o.Invoke.Issuer == j.Shard || history.Life(o.Invoke.Proc) == history.Harness {
				continue
			}
			if n++; call == nil || o.Invoke.TS < call.Invoke.TS {
				call, of = o, k
			}
		}
	}
	if n == 0 {
		return
	}
	s := x.suspect("issuer-of-another-shard", written, n,
		"%s with another issuer than the shard that their run was claimed from; the first has %s for a job in %s",
		phrase.Plural(n, "sink call"), call.Invoke.Issuer, of.Job.Shard)
	s.showAt(of.Job.ID, call.Invoke, x.change(RoleBefore, past.JobStep{Write: of.Write, Change: of.Change}),
		x.mistake(call.Invoke, "%s by %s to %s names the issuer %s", call.Invoke.Op, call.Invoke.Proc, call.Invoke.Key, call.Invoke.Issuer))
}

// checkClaim is P6 for a shard: a process that starts a run or calls the sink for one shows the
// run id of a claim of that job. The claim took effect, the same process made it, and the answer
// had reached it.
func (a *Judgement) checkClaim(e *history.Event, l *past.Row, p *Property) {
	p.Checked++
	k := l.ClaimOf(e.Token)
	if k == nil {
		a.checkUnclaimed(e, l, p)
		return
	}
	c := k.Write.Main()
	if own := k.Write.RecordedBy(history.Life(e.Proc)); own != nil {
		c = own
	}
	events := append(past.Events(&c.Op), e)
	bad := func(format string, args ...any) {
		p.add(k.Job.ID, events, "%s by %s shows run %d of %s"+format, append([]any{e.Op, e.Proc, e.Token, l.Name}, args...)...)
	}
	switch {
	case e.Op == history.NoteStart && e.Key != k.Job.ID:
		bad(" for job %s, but it is a run of job %s", e.Key, k.Job.ID)
	case e.Op == history.NoteStart && e.Attempt() != 0 && e.Attempt() != k.Change.Attempt:
		bad(" as attempt %d, but it is attempt %d", e.Attempt(), k.Change.Attempt)
	case e.Op != history.NoteStart && k.Job.Spec != nil && k.Job.Spec.Resource != "" && e.Key != k.Job.Spec.Resource:
		bad(" on resource %s, but it is a run of job %s, whose resource is %s", e.Key, k.Job.ID, k.Job.Spec.Resource)
	case history.Life(c.Invoke.Proc) != history.Life(e.Proc):
		bad(", which %s claimed", c.Invoke.Proc)
	case c.Invoke.TS > e.TS:
		bad(", %s before it was claimed", phrase.MS(c.Invoke.TS-e.TS))
	case c.End != nil && (c.Outcome != history.OK || c.End.TS > e.TS):
		bad(", but no answer had told it that the claim took effect")
	}
}

// checkUnclaimed judges a run that no batch of the chain claims.
func (a *Judgement) checkUnclaimed(e *history.Event, l *past.Row, p *Property) {
	for _, c := range l.CAS {
		for x := range past.Each(c.Invoke.Changes()) {
			if x.Do != history.DoClaim || x.Run != e.Token {
				continue
			}
			if l.Fate(c.Write) == past.Open && c.Outcome != history.Fail {
				return // it may have
			}
			p.add(x.Job, append(past.Events(&c.Op), e), "%s by %s shows run %d of %s, but the batch that claims it for job %s never took effect",
				e.Op, e.Proc, e.Token, l.Name, x.Job)
			return
		}
	}
	if l.Complete {
		p.add(l.Name, []*history.Event{e}, "%s by %s shows run %d of %s, which no batch claims", e.Op, e.Proc, e.Token, l.Name)
	}
}
