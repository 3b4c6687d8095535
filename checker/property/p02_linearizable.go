package property

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"fencepost/checker/linear"
	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:    "P2",
		title: "lock rows and shards are linearizable",
		by:    "the chain in linear time; Porcupine, open and bounded; the replay of every job's life",
		run:   checkLinearizable,
		rules: []rule{
			{needs: "P2", find: (*Inquiry).falseGrants},
			{needs: "P2", find: (*Inquiry).falseFailures},
			{needs: "P2", find: (*Inquiry).oldStamps},
			{needs: "P2", find: (*Inquiry).surfacingWrites},
			{needs: "P2", find: (*Inquiry).falseRefusals},
		},
		mechanisms: []mechanism{
			{id: "unknown-granted", Accounts: []string{"P1", "P2", "P3", "P4", "P6", "P8"},
				Statement: "an acquire that was not answered counts as granted",
				Apart:     "a grant that nobody made and that was answered at once"},
			{id: "refusal-granted", Accounts: []string{"P1", "P2", "P3", "P4", "P6", "P8"},
				Statement: "an acquire that was refused counts as granted: the answer is not looked at",
				Apart:     "a grant that nobody made and whose answer was overdue"},
			{id: "unknown-refused", Accounts: []string{"P2", "P6", "P11"},
				Statement: "an acquire that was not answered counts as refused: its grant is left behind",
				Apart:     "another kind of operation that failed and took effect"},
			{id: "resend-misread", Accounts: []string{"P2", "P5", "P6"},
				Statement: "a refusal of a resent request is taken for one of the first copy, which may have been applied",
				Apart:     "an acquire sent once that failed and took effect"},
			{id: "batch-taken-for-lost", Accounts: []string{"P2", "P5", "P6"},
				Statement: "a batch that was not answered counts as not done: what it did is done again or forgotten"},
			{id: "request-executed-again", Accounts: []string{"P2", "P6", "P5"},
				Statement: "a request is executed again when its answer is late, and the second answer is taken for the first"},
			{id: "try-answered-from-memory",
				Statement: "a TryAcquire is refused by what its process remembers of the row: nobody held the lock"},
			{id: "late-copy-done-again", Accounts: ofRows,
				Statement: "a late copy of a batch is done again: its condition does not name the version that it replaces",
				Apart:     "a job claimed again whose batches were sent once"},
			{id: "given-up-write-surfaces",
				Statement: "a write that its coordinator gave up took effect later, after reads that did not show it"},
		},
	})
}

// checkLinearizable is P2: first the chain, then Porcupine in both encodings.
func checkLinearizable(ctx context.Context, a *Judgement, p *Property) {
	dirty := map[string]bool{}
	for _, l := range a.Rows {
		before := p.Count
		CheckChain(a.Past, l, p)
		a.checkTries(l, p)
		dirty[l.Name] = p.Count > before || !l.Complete
		p.Checked += len(l.CAS) + len(l.Reads)
	}
	report(&a.Jobs, "P2", p)
	var open, bounded []*linear.Partition
	for _, l := range a.Rows {
		if len(l.CAS)+len(l.Reads) == 0 {
			continue
		}
		open = append(open, linear.OfRow(l, false, !dirty[l.Name]))
		if linear.Timeouts(l) > 0 {
			bounded = append(bounded, linear.OfRow(l, true, !dirty[l.Name]))
		}
	}
	budget := a.budget(ctx)
	openFound := linear.Search(budget, open)
	// Without a coordinator's timeout the two encodings are the same.
	boundedFound := linear.Search(budget, bounded)
	p.Encodings = map[string]string{"open": string(linear.Worst(openFound)), "bounded": string(linear.Worst(boundedFound))}
	if p.Encodings["bounded"] == string(porcupine.Ok) {
		p.Encodings["bounded"] = p.Encodings["open"]
	}
	p.Detail = fmt.Sprintf("chain of versions in linear time, Porcupine on %s, %d of them with timeouts of a coordinator%s",
		rowNouns(a.Past, open), len(bounded), replayText(&a.Jobs))
	a.report(budget, p, openFound, "")
	a.report(budget, p, boundedFound,
		" (bounded encoding: a write that its coordinator answered with a timeout took effect before that answer or never)")
	a.visualize(budget, p, "lock", append(openFound, boundedFound...))
}

// budget is what is left for searches; the first one of a check begins it.
func (a *Judgement) budget(ctx context.Context) linear.Budget {
	if a.searchEnd == 0 {
		a.searchEnd = linear.CPUTime() + a.Search
	}
	return linear.NewBudget(ctx, a.searchEnd)
}

// visualize draws what a search found, for people to look at.
func (a *Judgement) visualize(b linear.Budget, p *Property, kind string, fs []linear.Found) {
	first, failed := linear.Drawing{Dir: a.Dir, Faults: a.Faults}.Draw(b, kind, fs)
	if p.Visualization == "" {
		p.Visualization = first
	}
	for _, why := range failed {
		p.Detail += "; " + why
	}
}

// report adds what Porcupine found to the property: an illegal partition that
// the linear-time checks have not already explained, and unfinished ones.
func (a *Judgement) report(b linear.Budget, p *Property, fs []linear.Found, encoding string) {
	var unfinished, second []string
	for _, f := range fs {
		switch {
		case f.Result == porcupine.Unknown && f.Part.Decided:
			second = append(second, f.Part.Name)
		case f.Result == porcupine.Unknown:
			unfinished = append(unfinished, f.Part.Name+": "+f.Reason)
		case f.Result != porcupine.Illegal || explained(p, f.Part.Name):
		case a.Incomplete():
			unfinished = append(unfinished, f.Part.Name+": illegal, but the record has lost events (P14)")
		default:
			w := linear.Shrink(b, f)
			events, proof := w.Proof()
			p.add(f.Part.Name, append(w.Events(), events...), "no order of the operations on %s explains %s%s; up to then there is one%s",
				f.Part.Name, w.Last, encoding, proof)
		}
	}
	if len(second) > 0 {
		p.Detail += fmt.Sprintf("; Porcupine, the second opinion, was not finished on %s (%s)",
			phrase.Plural(len(second), "row"), phrase.FirstFive(second))
	}
	if len(unfinished) > 0 {
		p.Status = StatusUnknown
		p.Detail = fmt.Sprintf("Porcupine reached no conclusion on %s%s (%s)",
			phrase.Plural(len(unfinished), "partition"), encoding, phrase.FirstFive(unfinished))
	}
}

// explained says whether the property already has a violation of key.
func explained(p *Property, key string) bool {
	for _, v := range p.Violations {
		if v.Key == key {
			return true
		}
	}
	return p.Count > len(p.Violations) // the list is full
}

// falseGrants: acquires that their client took for granted and that never were. Whether
// there was an answer at all shows by when the operation ended.
func (x *Inquiry) falseGrants() {
	var overdue, answered []*past.CAS
	recorded := true // as applied: the client was told so, or told itself so
	for _, l := range x.Rows {
		for _, g := range l.Grants {
			c := g.Acquire
			if c.Kind() != history.OpAcquire || c.Write.Pos >= 0 && c.Write.Main() == c || l.Fate(c.Write) != past.Never && c.Outcome == history.OK {
				continue
			}
			switch {
			case c.Outcome == history.Unknown && g.Call != nil:
				overdue, recorded = append(overdue, c), false
			case c.Outcome == history.Fail && g.Call != nil:
				answered, recorded = append(answered, c), false
			case c.Outcome == history.OK && (c.End.TS-past.FirstSend(&c.Op))*5 >= 4*x.patience(c.TTL()):
				overdue = append(overdue, c)
			case c.Outcome == history.OK:
				answered = append(answered, c)
			}
		}
	}
	n := len(overdue) + len(answered)
	file := func(id string, cs []*past.CAS, what string) {
		if len(cs)*5 < n || n == 0 {
			return // a few are noise: a slow refusal, a quick failure
		}
		w := WeightFits
		if !recorded {
			w = shown
		}
		c := cs[0]
		s := x.suspect(id, w, len(cs), "%s of %s that %s %s: %s",
			phrase.Plural(len(cs), "acquire"), phrase.Plural(n, "false one"), "count as granted", what, sendText(&c.Op))
		if len(cs)*5 <= 4*n {
			s.Group = "false grants"
		}
		told := c.End
		if told == nil {
			told = c.Invoke
		}
		chain := []Step{x.before(c.Invoke, "%s asks for %s from %s", c.Invoke.Proc, c.Row.Name, c.Row.Text(c.From)),
			x.mistake(told, "it counts as granted, %s", sendText(&c.Op))}
		if next := c.From.Next; next != nil && next.Main() != c {
			o := next.Main()
			chain = append(chain, x.before(o.Invoke, "what really came next: %s by %s to %s", o.Kind(), o.Invoke.Proc, c.Row.Text(next.To)))
		}
		s.show(c.Row.Name, told.TS, []string{c.Invoke.Proc}, chain...)
	}
	file("unknown-granted", overdue, "ended only when an answer was overdue")
	file("refusal-granted", answered, "ended as soon as answers do")
}

// falseFailures: operations that were reported as failed and took effect.
func (x *Inquiry) falseFailures() {
	var again, misread, lost []*past.CAS
	for _, l := range x.Rows {
		for _, w := range l.Chain {
			if c := w.Main(); !w.Possible() && c.End != nil {
				switch {
				case c.Shown == nil:
					lost = append(lost, c)
				case len(c.End.Sends) > 1:
					misread = append(misread, c)
				default: // it was sent once, so it was refused by what it had done itself
					again = append(again, c)
				}
			}
		}
	}
	show := func(s *Suspect, c *past.CAS, what string) {
		l := c.Row
		chain := []Step{x.before(c.Invoke, "%s sends %s of %s from %s", c.Invoke.Proc, c.Kind(), l.Name, l.Text(c.From)),
			x.mistake(c.End, "%s: %s", what, sendText(&c.Op))}
		if next := c.To.FirstProof(); next != nil {
			chain = append(chain, x.harm(next.Invoke, "%s by %s finds the row as it was set", next.Invoke.Op, next.Invoke.Proc))
		}
		s.show(l.Name, c.End.TS, []string{c.Invoke.Proc}, chain...)
	}
	if len(again) > 0 {
		c := again[0]
		show(x.suspect("request-executed-again", shown, len(again),
			"%s sent once and refused, though it had taken effect: it was refused by what it had done itself",
			phrase.PluralWas(len(again), "request")), c, "it is refused, and the row that comes back is its own or a later one")
	}
	unknowns, acquires := 0, 0
	for o := range past.Each(x.Ops) {
		if o.Invoke.Proc != history.Harness && o.End != nil && o.Outcome == history.Unknown {
			unknowns++
			if o.Invoke.Op == history.OpAcquire {
				acquires++
			}
		}
	}
	if n := len(misread); n > 0 {
		c := misread[0]
		s := x.suspect("resend-misread", WeightFits, n, "%s sent several times, refused, and had taken effect", phrase.PluralWas(n, "request"))
		show(s, c, "it is taken for failed")
		others := slices.ContainsFunc(misread, func(c *past.CAS) bool { return c.Kind() != history.OpAcquire })
		if !others && acquires == 0 && unknowns > 0 { // the first copy may have been given up before the second was sent
			s.Group = "believed refusals"
			s = x.suspect("unknown-refused", WeightFits, n,
				"%s sent several times, refused, and had taken effect; no acquire is recorded as unknown, but %s",
				phrase.PluralWas(n, "acquire"), phrase.PluralWas(unknowns, "other operation"))
			s.Group = "believed refusals"
			show(s, c, "its first copy is taken for failed, and so is the acquire")
		}
	}
	if len(lost) == 0 {
		return
	}
	kinds, resent := map[history.Op]int{}, 0
	for _, c := range lost {
		kinds[c.Kind()]++
		if len(c.End.Sends) > 1 {
			resent++
		}
	}
	var names []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		names = append(names, fmt.Sprintf("%d %s", kinds[k], k))
	}
	what := fmt.Sprintf("%s reported as failed without a row, and took effect: %s",
		phrase.PluralWas(len(lost), "operation"), strings.Join(names, ", "))
	var ids []string
	// A second copy may have been lost as the first one was.
	alone := len(kinds) == 1 && (resent == 0 || acquires == 0 && unknowns > 0)
	switch {
	case alone && kinds[history.OpAcquire] > 0:
		ids = append(ids, "unknown-refused")
	case lost[0].Row.Shard && unknowns > 0 || lost[0].Row.Shard && resent == 0:
		ids = append(ids, "batch-taken-for-lost")
	}
	if unknowns == 0 {
		ids = append(ids, "unknown-recorded-as-failed")
	}
	for _, id := range ids {
		s := x.suspect(id, shown, len(lost), "%s", what)
		if id == "unknown-recorded-as-failed" {
			x.suspect(id, shown, len(lost),
				"not one operation of the workers is recorded as unknown; of these %d were sent again, as is done with what is not known", resent)
		}
		if len(ids) > 1 {
			s.Group = "false failures"
		}
		show(s, lost[0], "it is taken for failed")
	}
}

// oldStamps: a shard's header comes back to a version that had been left.
func (x *Inquiry) oldStamps() {
	if x.failed("P13") {
		return // a plain write sets versions of its own back
	}
	for _, l := range x.Rows {
		if !l.Shard {
			continue
		}
		left := map[*past.Version]*past.CAS{} // that was acknowledged first
		for _, c := range l.CAS {
			if old := left[c.From]; c.Outcome == history.OK && (old == nil || c.End.TS < old.End.TS) {
				left[c.From] = c
			}
		}
		for _, v := range sightingsOf(l) {
			by := left[v.v]
			if by == nil || !v.ok || v.e == by.Invoke || v.e.TS <= by.End.TS || !x.after(l, v, by) {
				continue
			}
			s := x.found("late-copy-done-again", shown, "%s was at %s again, %s after a batch had replaced that",
				l.Name, l.Text(v.v), phrase.MS(v.e.TS-by.End.TS))
			var chain []Step
			for _, w := range v.v.SetBy {
				c := w.Main()
				chain = append(chain, x.before(c.Invoke, "%s sends the batch to %s, %s", c.Invoke.Proc, l.Text(v.v), sendText(&c.Op)))
			}
			chain = append(chain, x.before(by.End, "%s by %s replaces it by %s", by.Kind(), by.Invoke.Proc, l.Text(by.To)),
				x.mistake(v.e, "%s finds the header at %s again", v.e.Proc, l.Text(v.v)))
			s.show(l.Name, v.e.TS, []string{by.Invoke.Proc, v.e.Proc}, chain...)
			break
		}
	}
}

// after says whether the operation of a sighting began when the version had certainly
// been left.
func (x *Inquiry) after(l *past.Row, v sighting, by *past.CAS) bool {
	for _, c := range l.CAS {
		if c.End == v.e || c.Invoke == v.e {
			return c.Invoke.TS > by.End.TS
		}
	}
	for _, r := range l.Reads {
		if r.End == v.e {
			return r.Invoke.TS > by.End.TS
		}
	}
	return false
}

// surfacingWrites: legal if an unknown write may take effect at any time, illegal if one
// that its coordinator gave up cannot.
func (x *Inquiry) surfacingWrites() {
	for _, p := range x.Result.Properties {
		if p.ID != "P2" || len(p.Violations) == 0 || !strings.EqualFold(p.Encodings["open"], "ok") ||
			!strings.EqualFold(p.Encodings["bounded"], "illegal") {
			continue
		}
		v := p.Violations[0]
		s := x.suspect("given-up-write-surfaces", WeightFits, p.Count,
			"an order of the operations exists only if a write can take effect after its coordinator's timeout")
		var chain []Step
		for _, ref := range v.Events {
			e := ref.Event
			e.File, e.Line = ref.File, ref.Line
			chain = append(chain, x.mistake(&e, "%s %s by %s", e.Op, e.Type, e.Proc))
		}
		s.show(v.Key, v.To, nil, chain...)
	}
}

// rowNouns counts the rows that are searched.
func rowNouns(a *past.Past, parts []*linear.Partition) string {
	shards := 0
	for _, pt := range parts {
		if past.IsShard(pt.Name) {
			shards++
		}
	}
	return a.CountRows(len(parts)-shards, shards)
}

// searchSinks runs Porcupine over the resources whose ledger is complete.
func (a *Judgement) searchSinks(ctx context.Context, p *Property) {
	var parts []*linear.Partition
	skipped := 0
	for _, s := range a.Sinks {
		if s.Missing != "" || !s.WasRead() {
			skipped++ // P14
			continue
		}
		parts = append(parts, linear.OfSink(s, !explained(p, s.Name), a.Promised("P3")))
	}
	b := a.budget(ctx)
	fs := linear.Search(b, parts)
	p.Encodings = map[string]string{"sink": string(linear.Worst(fs))}
	if skipped > 0 {
		p.Encodings["sink"] += fmt.Sprintf(" (%d without a complete ledger not searched)", skipped)
	}
	a.report(b, p, fs, "")
	a.visualize(b, p, "sink", fs)
}
