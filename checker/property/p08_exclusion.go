package property

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:             "P8",
		title:          "no two holders of a lock or shard are entitled at once",
		by:             "derived intervals",
		run:            checkExclusion,
		completeRecord: true,
		rules:          []rule{{needs: "P2", find: (*Inquiry).earlyTakeovers}},
		accounts:       []string{"P4", "P7", "P8"},
		mechanisms: []mechanism{
			{id: "expiry-by-wall-clock", Statement: "a lease's expiry, written by one wall clock, is compared with another"},
			{id: "takeover-without-waiting", Statement: "a lease is taken over before it has stood still for its ttl"},
			{id: "expiry-by-own-ttl", Statement: "a contender waits for its own ttl before it takes a lease over, not for that of the lease"},
			{id: "watch-counted-from-asking",
				Statement: "a contender counts for how long a lease stands still from when it asked for the row, not from the answer",
				Apart:     "a takeover that comes too soon by more than a look may take"},
			{id: "silent-owner-is-dead", Statement: "a shard is taken from an owner whose heartbeats are not seen, though it ticks"},
			{id: "given-away-with-runs", Statement: "a shard is given away while its owner's runs are at work"},
		},
	})
}

// checkExclusion is P8: no two entitled intervals of a lock overlap.
func checkExclusion(_ context.Context, a *Judgement, p *Property) {
	beyond := 0
	for _, l := range a.Rows {
		var gs []*past.Grant
		for _, g := range l.Grants {
			if g.ClockBeyond || g.Overtaken > 0 {
				beyond++
			}
			if g.ClockBeyond {
				continue
			}
			if g.From() < entitledUntil(g) {
				gs = append(gs, g)
			}
		}
		p.Checked += len(gs)
		sort.SliceStable(gs, func(i, j int) bool { return gs[i].From() < gs[j].From() })
		var longest *past.Grant // of those before, the one whose right lasts longest
		for _, g := range gs {
			if longest != nil {
				if end := entitledUntil(longest); g.From() < end {
					_, by := longest.Until()
					events := append(windowOf(longest, by), past.Events(&g.Acquire.Op, g.Call)...)
					p.add(l.Name, events, "%s was entitled until %s after %s was granted the %s too (tokens %d and %d)",
						longest.Acquire.Invoke.Proc, phrase.MS(end-g.From()), g.Acquire.Invoke.Proc, l.Noun(), longest.Token, g.Token)
				}
			}
			if longest == nil || entitledUntil(g) > entitledUntil(longest) {
				longest = g
			}
		}
	}
	p.Detail = "entitled: from the granting answer to the derived deadline, release or loss" + notJudgedClocks(beyond, "grant")
}

// notJudgedClocks says how much was left out for clocks that are too wrong.
func notJudgedClocks(n int, noun string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; not judged: %s, clock rate beyond the declared bound", phrase.Plural(n, noun))
}

// entitledUntil is when a right ends that P8 judges: at the latest when somebody takes the lock over whose
// clock is beyond the bound.
func entitledUntil(g *past.Grant) int64 {
	end, _ := g.Until()
	if g.Overtaken > 0 {
		end = min(end, g.Overtaken)
	}
	return end
}

// earlyTakeover is a takeover of a lease that cannot have stood still for its ttl.
type earlyTakeover struct {
	l      *past.Row
	g      *past.Grant // that took it
	old    *past.Grant // that it was taken from
	prev   *past.CAS   // the last write before
	stood  int64       // at most
	ttl    int64
	wanted int64 // the part of the ttl that is missing
}

// earlyTakeovers: who took a lease over too soon, and what made it believe that it might.
func (x *Inquiry) earlyTakeovers() {
	var locks, shards []earlyTakeover
	for _, l := range x.Rows {
		for _, g := range l.Grants {
			e, ok := x.earlyTakeover(l, g)
			switch {
			case !ok:
			case l.Shard:
				shards = append(shards, e)
			default:
				locks = append(locks, e)
			}
		}
	}
	x.earlyLocks(locks)
	x.earlyShards(shards)
}

func (x *Inquiry) earlyTakeover(l *past.Row, g *past.Grant) (earlyTakeover, bool) {
	c := g.Acquire
	old := l.GrantAt(c.From, "")
	if c.Outcome != history.OK || old == nil || g.ClockBeyond || c.From.Absent || !l.Shard && c.From.Holder == "" {
		return earlyTakeover{}, false
	}
	var prev *past.CAS // that set the version which was taken over
	for _, w := range c.From.SetBy {
		if m := w.Main(); prev == nil || m.Outcome == history.OK {
			prev = m
		}
	}
	if prev == nil || past.IsRelease(prev.Kind()) || prev.Kind() == history.OpSeal {
		return earlyTakeover{}, false
	}
	e := earlyTakeover{l: l, g: g, old: old, prev: prev, ttl: old.Acquire.TTL()}
	e.stood = past.FirstSend(&c.Op) - prev.Invoke.TS
	// A contender's clock may be wrong by the declared bound.
	e.wanted = e.ttl - int64(2*x.HeaderOf(history.Life(c.Invoke.Proc)).DriftBound*float64(e.ttl)) - e.stood
	return e, e.wanted > 0
}

// wallSlack is how much later than its clock says a contender may act, and the
// uncertainty of when a version was written.
const wallSlack = int64(1e9)

func (x *Inquiry) earlyLocks(es []earlyTakeover) {
	if len(es) == 0 {
		return
	}
	byWall := 0
	for _, e := range es {
		ahead := x.ahead(e) * 1e6
		if ahead > 0 && e.wanted <= ahead+wallSlack {
			byWall++
		}
	}
	first := es[0]
	if byWall == len(es) {
		for _, e := range es {
			if x.ahead(e) > 0 {
				first = e
				break
			}
		}
		s := x.suspect("expiry-by-wall-clock", shown, len(es),
			"%s taken over after less than their ttl, each by a worker whose wall clock was ahead of the holder's by at least what was missing",
			phrase.PluralWas(len(es), "lease"))
		x.suspect("expiry-by-wall-clock", shown, len(es), "the first stood still for at most %s of %s; the taker's wall clock was %d ms ahead",
			phrase.MS(first.stood), phrase.MS(first.ttl), x.ahead(first))
		x.showEarly(s, first, x.clocksOf(first)...)
		return
	}
	if x.earlyByOwnTTL(es) || x.earlyByOneLook(es) {
		return
	}
	s := x.suspect("takeover-without-waiting", WeightFits, len(es), "%s taken over after at most %s (ttl %s), and no clock explains it",
		phrase.PluralWas(len(es), "lease"), phrase.MS(first.stood), phrase.MS(first.ttl))
	x.showEarly(s, first)
}

// earlyByOwnTTL: who took them has a shorter ttl, and waited for that.
func (x *Inquiry) earlyByOwnTTL(es []earlyTakeover) bool {
	n := 0
	var first *earlyTakeover
	for e := range past.Each(es) {
		own := e.g.Acquire.TTL()
		if own >= e.ttl || e.stood+int64(2*x.HeaderOf(history.Life(e.g.Acquire.Invoke.Proc)).DriftBound*float64(own)) < own {
			continue
		}
		if n++; first == nil {
			first = e
		}
	}
	if n*5 < len(es)*4 {
		return false
	}
	s := x.suspect("expiry-by-own-ttl", shown, n, "%s taken over too soon; %d of them by somebody whose own ttl was shorter and had passed, "+
		"the first after at most %s of %s (own ttl %s)",
		phrase.PluralWas(len(es), "lease"), n, phrase.MS(first.stood), phrase.MS(first.ttl), phrase.MS(first.g.Acquire.TTL()))
	x.showEarly(s, *first)
	return true
}

// earlyByOneLook: what is missing of each ttl is no more than a look may take.
func (x *Inquiry) earlyByOneLook(es []earlyTakeover) bool {
	for _, e := range es {
		if e.wanted > e.g.Acquire.TTL()/6 {
			return false
		}
	}
	s := x.suspect("watch-counted-from-asking", WeightFits, len(es), "%s taken over too soon, each by no more than a look at the row may take: "+
		"the first stood still for at most %s of %s", phrase.PluralWas(len(es), "lease"), phrase.MS(es[0].stood), phrase.MS(es[0].ttl))
	x.showEarly(s, es[0])
	return true
}

// ahead is by how much the taker's wall clock was ahead of what the holder's showed when
// it wrote the version that was taken, in ms.
func (x *Inquiry) ahead(e earlyTakeover) int64 {
	return x.OffsetAt(history.Life(e.g.Acquire.Invoke.Proc), e.g.Acquire.Invoke.TS) - x.OffsetAt(history.Life(e.prev.Invoke.Proc),
		e.prev.Invoke.TS)
}

// clocksOf are the notes that made the two clocks what they were.
func (x *Inquiry) clocksOf(e earlyTakeover) []Step {
	var out []Step
	for _, who := range []struct {
		proc string
		at   int64
	}{{e.prev.Invoke.Proc, e.prev.Invoke.TS}, {e.g.Acquire.Invoke.Proc, e.g.Acquire.Invoke.TS}} {
		var last *history.Event
		for _, n := range x.Clocks[history.Life(who.proc)] {
			if n.TS <= who.at {
				last = n
			}
		}
		if last != nil {
			out = append(out, x.before(last, "the wall clock of %s is made wrong by %d ms", history.Life(who.proc), last.Clock().OffsetMS))
		}
	}
	return out
}

func (x *Inquiry) showEarly(s *Suspect, e earlyTakeover, more ...Step) {
	c := e.g.Acquire
	chain := append([]Step{
		x.granted(RoleBefore, e.old), x.before(e.prev.Invoke, "its last sign of life: %s by %s to %s",
			e.prev.Kind(), e.prev.Invoke.Proc, e.l.Text(e.prev.To)),
		x.mistake(c.Invoke, "%s takes %s over: it stood still for at most %s of %s",
			c.Invoke.Proc, e.l.Name, phrase.MS(e.stood), phrase.MS(e.ttl)),
	}, more...)
	if end, _ := e.old.Until(); end > e.g.From() {
		chain = append(chain, x.Instant(RoleHarm, e.g.From(), "both are entitled, for %s", phrase.MS(end-e.g.From())))
	}
	s.show(e.l.Name, c.Invoke.TS, []string{e.old.Acquire.Invoke.Proc, c.Invoke.Proc}, chain...)
}

// earlyShards: an owner that is not seen, one that left while it worked, or a taker that
// does not wait.
func (x *Inquiry) earlyShards(es []earlyTakeover) {
	if len(es) == 0 {
		return
	}
	gone, given := 0, 0
	var runs *history.Event
	var firstGone, firstGiven *earlyTakeover
	var note *history.Event
	for e := range past.Each(es) {
		if n := x.goneNote(e); n != nil {
			gone++
			if firstGone == nil {
				firstGone, note = e, n
			}
			continue
		}
		if run := x.runAtWork(e); run != nil && !x.refusedAfter(e) {
			given++
			if firstGiven == nil {
				firstGiven, runs = e, run
			}
		}
	}
	switch n := len(es); {
	case gone > 0 && gone >= given:
		s := x.suspect("silent-owner-is-dead", shown, gone,
			"%d of %d shards that were taken too soon had an owner that the taker had noted as gone, while it ticked", gone, n)
		x.showEarly(s, *firstGone, x.before(note, "%s no longer sees the heartbeats of %s", history.Life(note.Proc), note.Key))
	case 2*given >= n:
		s := x.suspect("given-away-with-runs", WeightFits, given,
			"%s taken at once after a batch of the owner, which had runs at work and was refused nothing afterwards",
			phrase.PluralWas(given, "shard"))
		x.showEarly(s, *firstGiven,
			x.before(runs, "%s begins run %d of job %s, which is at work after the owner's last batch", runs.Proc, runs.Token, runs.Key))
	default:
		s := x.suspect("takeover-without-waiting", WeightFits, n, "%s taken over after at most %s (ttl %s)",
			phrase.PluralWas(n, "shard"), phrase.MS(es[0].stood), phrase.MS(es[0].ttl))
		x.showEarly(s, es[0])
	}
}

// goneNote is the taker's last word on the old owner's heartbeats when it took the
// shard, if that was that they are gone. What it acts by may be noted a little later.
func (x *Inquiry) goneNote(e *earlyTakeover) *history.Event {
	taker, owner := history.Life(e.g.Acquire.Invoke.Proc), history.Worker(e.old.Acquire.Invoke.Proc)
	var last *history.Event
	for n := range past.Each(x.History.Events) {
		if n.TS > e.g.Acquire.Invoke.TS+e.ttl/4 {
			break
		}
		if n.Op == history.NotePoint && n.Key == owner && history.Life(n.Proc) == taker &&
			(n.Point() == history.PointMemberGone || n.Point() == history.PointMemberCame) {
			last = n
		}
	}
	if last != nil && last.Point() == history.PointMemberGone {
		return last
	}
	return nil
}

// runAtWork is a run of the old owner that had begun when the shard was taken, and not
// ended when the owner sent its last batch: it may have been claimed by that batch.
func (x *Inquiry) runAtWork(e *earlyTakeover) *history.Event {
	for _, j := range x.Jobs.List {
		if j.Shard != e.l.Name {
			continue
		}
		for _, st := range j.Starts {
			if history.Life(st.Proc) != history.Life(e.old.Acquire.Invoke.Proc) || st.TS > e.g.Acquire.Invoke.TS ||
				past.RunFence(st.Token) != e.old.Fence {
				continue
			}
			if f := j.Finishes[st.Token]; f == nil || f.TS > e.prev.Invoke.TS {
				return st
			}
		}
	}
	return nil
}

// refusedAfter says whether the old owner went on to tick and was told that the shard is
// another's: then it had not given it away.
func (x *Inquiry) refusedAfter(e *earlyTakeover) bool {
	return slices.ContainsFunc(e.l.CAS, func(c *past.CAS) bool {
		return c.Shown != nil && past.IsRenewal(c.Kind()) && c.From == e.g.Acquire.From && c.Shown.Fence > c.From.Fence &&
			e.old.OwnedBy(c.Invoke.Proc)
	})
}
