package checker

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"fencepost/harness/record/history"

	"github.com/anishathalye/porcupine"
)

func init() {
	register(check{
		id:    "P2",
		title: "lock rows and shards are linearizable",
		by:    "the chain in linear time; Porcupine, open and bounded; the replay of every job's life",
		run:   checkLinearizable,
		rules: []rule{
			{needs: "P2", find: (*inquiry).falseGrants},
			{needs: "P2", find: (*inquiry).falseFailures},
			{needs: "P2", find: (*inquiry).oldStamps},
			{needs: "P2", find: (*inquiry).surfacingWrites},
		},
		mechanisms: []mechanism{
			{id: "unknown-granted", accounts: []string{"P1", "P2", "P3", "P4", "P6", "P8"},
				statement: "an acquire that was not answered counts as granted",
				apart:     "a grant that nobody made and that was answered at once"},
			{id: "refusal-granted", accounts: []string{"P1", "P2", "P3", "P4", "P6", "P8"},
				statement: "an acquire that was refused counts as granted: the answer is not looked at",
				apart:     "a grant that nobody made and whose answer was overdue"},
			{id: "unknown-refused", accounts: []string{"P2", "P6", "P11"},
				statement: "an acquire that was not answered counts as refused: its grant is left behind",
				apart:     "another kind of operation that failed and took effect"},
			{id: "resend-misread", accounts: []string{"P2", "P5", "P6"},
				statement: "a refusal of a resent request is taken for one of the first copy, which may have been applied"},
			{id: "batch-taken-for-lost", accounts: []string{"P2", "P5", "P6"},
				statement: "a batch that was not answered counts as not done: what it did is done again or forgotten"},
			{id: "request-executed-again", accounts: []string{"P2", "P6", "P5"},
				statement: "a request is executed again when its answer is late, and the second answer is taken for the first"},
			{id: "late-copy-done-again", accounts: ofRows,
				statement: "a late copy of a batch is done again: its condition does not name the version that it replaces"},
			{id: "given-up-write-surfaces", accounts: []string{"P2"},
				statement: "a write that its coordinator gave up took effect later, after reads that did not show it"},
		},
	})
}

// checkLinearizable is P2: first the chain, then Porcupine in both encodings.
func checkLinearizable(ctx context.Context, a *analysis, p *Property) {
	dirty := map[string]bool{}
	for _, l := range a.rows {
		before := p.Count
		a.checkChain(l, p)
		dirty[l.name] = p.Count > before || !l.whole
		p.Checked += len(l.cas) + len(l.reads)
	}
	a.jobs.report("P2", p)
	var open, bounded []*partition
	for _, l := range a.rows {
		if len(l.cas)+len(l.reads) == 0 {
			continue
		}
		open = append(open, l.partition(false, !dirty[l.name]))
		if l.timeouts() > 0 {
			bounded = append(bounded, l.partition(true, !dirty[l.name]))
		}
	}
	budget := a.budget(ctx)
	openFound := searchAll(budget, open)
	// Without a coordinator's timeout the two encodings are the same.
	boundedFound := searchAll(budget, bounded)
	p.Encodings = map[string]string{"open": string(worst(openFound)), "bounded": string(worst(boundedFound))}
	if p.Encodings["bounded"] == string(porcupine.Ok) {
		p.Encodings["bounded"] = p.Encodings["open"]
	}
	p.Detail = fmt.Sprintf("chain of versions in linear time, Porcupine on %s, %d of them with timeouts of a coordinator%s", a.rowNouns(open), len(bounded), a.jobs.replayText())
	a.report(budget, p, openFound, "")
	a.report(budget, p, boundedFound, " (bounded encoding: a write that its coordinator answered with a timeout took effect before that answer or never)")
	a.visualize(budget, p, "lock", append(openFound, boundedFound...))
}

// report adds what Porcupine found to the property: an illegal partition that
// the linear-time checks have not already explained, and unfinished ones.
func (a *analysis) report(b budget, p *Property, fs []found, encoding string) {
	var unfinished, second []string
	for _, f := range fs {
		switch {
		case f.result == porcupine.Unknown && f.part.decided:
			second = append(second, f.part.name)
		case f.result == porcupine.Unknown:
			unfinished = append(unfinished, f.part.name+": "+f.reason)
		case f.result != porcupine.Illegal || explained(p, f.part.name):
		case a.incomplete():
			unfinished = append(unfinished, f.part.name+": illegal, but the record has lost events (P14)")
		default:
			w := shrink(b, f)
			events, proof := a.proof(f.part.name, w)
			p.add(f.part.name, append(w.events(), events...), "no order of the operations on %s explains %s%s; up to then there is one%s", f.part.name, w.last, encoding, proof)
		}
	}
	if len(second) > 0 {
		p.Detail += fmt.Sprintf("; Porcupine, the second opinion, was not finished on %s (%s)", plural(len(second), "row"), firstFew(second))
	}
	if len(unfinished) > 0 {
		p.Status = StatusUnknown
		p.Detail = fmt.Sprintf("Porcupine reached no conclusion on %s%s (%s)", plural(len(unfinished), "partition"), encoding, firstFew(unfinished))
	}
}

// firstFew are the first five of some texts.
func firstFew(texts []string) string {
	sort.Strings(texts)
	if len(texts) > 5 {
		texts = append(texts[:5:5], "…")
	}
	return strings.Join(texts, "; ")
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
