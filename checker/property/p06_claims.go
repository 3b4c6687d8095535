package property

import (
	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

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
		for i := range c.Invoke.Changes() {
			x := &c.Invoke.Changes()[i]
			if x.Do != history.DoClaim || x.Run != e.Token {
				continue
			}
			if l.Fate(c.Write) == past.Open && c.Outcome != history.Fail {
				return // it may have
			}
			p.add(x.Job, append(past.Events(&c.Op), e), "%s by %s shows run %d of %s, but the batch that claims it for job %s never took effect", e.Op, e.Proc, e.Token, l.Name, x.Job)
			return
		}
	}
	if l.Whole {
		p.add(l.Name, []*history.Event{e}, "%s by %s shows run %d of %s, which no batch claims", e.Op, e.Proc, e.Token, l.Name)
	}
}
