package property

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

func init() {
	register(Check{
		ID:             "P11",
		title:          "work goes on where a quorum does: what is orphaned is taken over in time",
		by:             "the chain, against everybody who waited meanwhile; what was asked for and done while faults were in force",
		run:            checkRecovery,
		completeRecord: true,
		rules: []rule{
			{needs: "P11", find: (*Inquiry).missingTakeovers},
			{needs: "P11", find: (*Inquiry).stalls},
			{needs: "P11", find: (*Inquiry).callsInVain},
			{needs: "P11", find: (*Inquiry).closedInVain},
			{find: (*Inquiry).busyHost},
		},
		mechanisms: []mechanism{
			{id: "no-takeover", Accounts: []string{"P5", "P11"},
				Statement: "nobody takes over what a dead or silent holder leaves, or much too late"},
			{id: "waits-for-one-node", Statement: "requests go to one node and wait for it, though others could be asked"},
			{id: "work-stops-in-fault", Statement: "nothing is asked of the database while a part of it is away, though a quorum is there"},
			{id: "claims-stop", Accounts: []string{"P5", "P11"}, Statement: "owners go on to tick and claim nothing, though jobs are due"},
			{id: "abandoned-lease-renewed", Statement: "an acquire that its caller gave up leaves a lease behind that goes on being renewed"},
			{id: "waits-beyond-limit", Statement: "a call waits for a lock for longer than it was asked to, or though it must not wait"},
			{id: "gives-up-early", Statement: "a call gives up waiting for a lock before its limit"},
			{id: "lease-outlives-client", Statement: "a lock client says that it is closed while leases that it has handed out go on"},
			{id: "client-not-closed", Statement: "a lock client that is closed goes on to grant, or leaves its callers waiting"},
			{id: "host-too-busy", Accounts: []string{"P11", "P15"}, OfRecord: true,
				Statement: "the machine was too busy for times to say anything about the system"},
		},
	})
}

// Recovery sums up how the run came back from what happened to it.
type Recovery struct {
	// Orphans are the grants that ended without a release that took effect;
	// Judged of them could be held against the bound of P11, and NotJudged says
	// why the others could not, with their number.
	Orphans   int            `json:"orphans"`
	Judged    int            `json:"judged"`
	NotJudged map[string]int `json:"not_judged,omitempty"`
	// MaxTTL and P50TTL are the times from the holder's last write that took
	// effect to the takeover, in units of the lease's ttl.
	MaxTTL float64 `json:"max_ttl,omitempty"`
	P50TTL float64 `json:"p50_ttl,omitempty"`
	// Faults are the faults that were healed, in order.
	Faults []past.FaultRecovery `json:"faults,omitempty"`

	work string // what a success is, for Text; "": a release
	// uncounted: the system does not promise P11, so nobody looked for orphans.
	uncounted bool
}

// Why an orphan is not judged.
const (
	WhyAmbiguous = "its last write is ambiguous"
	WhyNobody    = "nobody waited for long enough"
	WhyFault     = "everybody who waited was cut off from a quorum"
	whyRecord    = "the lock's record is not whole"
)

// standstill is the time for which a row certainly stood still: from an instant at which
// w had taken effect to the earliest at which next can have.
type standstill struct {
	l        *past.Row
	w, next  *past.Write // w is nil before the first write
	from, to int64
	ttl      int64
	held     bool
}

// checkRecovery is P11.
func checkRecovery(_ context.Context, a *Judgement, p *Property) {
	resumed := a.checkStandstills(p)
	a.checkProgress(p)
	r := a.recovery()
	p.Checked += r.Judged + resumed
	p.Detail = r.orphanText()
	a.checkLockCalls(p)
	a.checkCloses(p)
	if a.LastHeal() > 0 {
		p.Detail += fmt.Sprintf("; %s went on after the last heal", phrase.Plural(resumed, a.RowNoun()))
	}
	if text := ProgressText(a.progress, a.SuccessNoun()); text != "" {
		p.Detail += "; " + text
	}
	if why, note := a.Busy(); p.Count > 0 && why != "" {
		p.invalidate(why, note)
	}
}

// checkStandstills is the part of P11 that needs only the history: no row stays unchanged
// for longer than a takeover takes. It returns how many rows went on after the
// last heal.
func (a *Judgement) checkStandstills(p *Property) (resumed int) {
	r := a.recovery()
	lastHeal := a.LastHeal()
	var times []float64
	for _, l := range a.Rows {
		if !l.Complete {
			a.countBroken(l, r)
			continue
		}
		ws := a.Waiting(l)
		again := false
		for _, s := range standstills(l) {
			kind := s.next.Main().Kind()
			orphaned := s.held && !past.IsRenewal(kind) && !past.IsRelease(kind)
			if lastHeal > 0 && s.next.Latest > lastHeal && (past.IsGrant(kind) || l.Shard && past.IsRenewal(kind)) {
				again = true
			}
			if s.w == nil && l.Shard {
				continue // processes begin to contend at no known instant
			}
			if !orphaned && s.to-s.from <= a.TakeoverBound(s.ttl) {
				continue
			}
			why := a.judgeStandstill(s, &ws, p)
			if !orphaned {
				continue
			}
			r.Orphans++
			if why != "" {
				r.NotJudged[why]++
			} else {
				r.Judged++
			}
			if t := s.taken(); t > s.from && past.IsGrant(kind) && s.ttl > 0 && why != WhyAmbiguous {
				times = append(times, float64(t-s.from)/float64(s.ttl))
			}
		}
		if again {
			resumed++
		}
	}
	if len(times) > 0 {
		sort.Float64s(times)
		r.P50TTL, r.MaxTTL = times[(len(times)-1)/2], times[len(times)-1]
	}
	return resumed
}

// countBroken counts the takeovers of a lock whose chain cannot be trusted.
func (a *Judgement) countBroken(l *past.Row, r *Recovery) {
	for _, w := range l.Chain {
		if l.Takeover(w) {
			r.Orphans++
			r.NotJudged[whyRecord]++
		}
	}
}

// standstills are the versions of the row with the times for which it had each.
func standstills(l *past.Row) []standstill {
	seen := sightings(l)
	longest := int64(0)
	for _, w := range l.Chain {
		longest = max(longest, w.Main().TTL())
	}
	out := make([]standstill, 0, len(l.Chain))
	lease := int64(0) // the ttl of the last grant
	for i, next := range l.Chain {
		s := standstill{l: l, next: next, to: next.Earliest(), ttl: longest}
		if i > 0 {
			s.w = l.Chain[i-1]
			s.from = s.w.Latest
			if t, ok := seen[s.w.To]; ok {
				s.from = min(s.from, t)
			}
			s.held = s.w.Held()
			if c := s.w.Main(); past.IsGrant(c.Kind()) || !l.Shard {
				lease = c.TTL()
			}
			if s.held {
				s.ttl = lease
			}
		}
		out = append(out, s)
	}
	return out
}

// sightings are the first instants at which an answer showed versions whose own
// write was not acknowledged.
func sightings(l *past.Row) map[*past.Version]int64 {
	unsure := map[*past.Version]bool{}
	for _, w := range l.Chain {
		if w.OK() == nil {
			unsure[w.To] = true
		}
	}
	seen := map[*past.Version]int64{}
	if len(unsure) == 0 {
		return seen
	}
	for _, s := range sightingsOf(l) {
		if _, known := seen[s.v]; unsure[s.v] && !known && s.e.Type != history.Invoke {
			seen[s.v] = s.e.TS
		}
	}
	return seen
}

// taken is when the row was known to have changed, or else can have.
func (s *standstill) taken() int64 {
	if c := s.next.OK(); c != nil {
		return c.End.TS
	}
	return s.to
}

// judgeStandstill holds a stand against everybody who waited meanwhile. It returns why
// it says nothing, "" if it was judged.
func (a *Judgement) judgeStandstill(s standstill, ws *past.Waiters, p *Property) (why string) {
	if s.from >= s.to {
		return WhyAmbiguous
	}
	why = WhyNobody
	holder := ""
	if s.held {
		holder = history.Life(s.w.Main().Invoke.Proc)
	}
	ws.During(s.from, s.to, func(w past.Wait) bool {
		if w.Life == holder {
			return true // its own process knows more than others
		}
		limit := a.TakeoverBoundBy(s.ttl, w.TTL)
		from := past.BehindSilences(max(s.from, w.From), limit, s.to, a.Silences(w.Life))
		switch due := from + limit; {
		case from > s.to:
			if why == WhyNobody {
				why = WhyFault
			}
		case s.to > due && w.To >= due:
			a.reportLate(s, w, due-limit, limit, p)
			why = ""
			return false
		case s.to <= due && w.To >= s.to:
			why = ""
		}
		return true
	})
	return why
}

func (a *Judgement) reportLate(s standstill, w past.Wait, from, limit int64, p *Property) {
	events := append(past.Events(w.Call), past.Events(&s.next.Main().Op)...)
	if s.held {
		m := s.w.Main()
		p.add(s.l.Name, append(past.Events(&m.Op), events...),
			"%s stood still under %s for %s although %s waited and nothing kept it from taking over: at most %s are "+
				"allowed (ttl %s + ttl/8 + bound)",
			s.l.Name, m.Invoke.Proc, phrase.MS(s.to-from), w.Who, phrase.MS(limit), phrase.MS(s.ttl))
		return
	}
	p.add(s.l.Name, events,
		"%s was free and nobody took it for %s although %s waited and nothing kept it from taking it: at most %s are allowed",
		s.l.Name, phrase.MS(s.to-from), w.Who, phrase.MS(limit))
}

// recovery is the run's, computed as far as it does not need P11.
func (a *Judgement) recovery() *Recovery {
	if a.recovered == nil {
		a.recovered = &Recovery{NotJudged: map[string]int{}, Faults: a.AfterHeals(), work: a.SuccessNoun(), uncounted: !a.Promised("P11")}
	}
	return a.recovered
}

func (r *Recovery) orphanText() string {
	if r.uncounted {
		return "orphaned leases not looked for"
	}
	out := fmt.Sprintf("%s, %d judged", phrase.Plural(r.Orphans, "orphaned lease"), r.Judged)
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(r.NotJudged)) {
		why = append(why, fmt.Sprintf("%d: %s", r.NotJudged[reason], reason))
	}
	if len(why) > 0 {
		out += ", not judged " + strings.Join(why, ", ")
	}
	return out
}

// Text is the summary in one line, "" if there is nothing to tell.
func (r *Recovery) Text() string {
	if r == nil || r.Orphans == 0 && len(r.Faults) == 0 {
		return ""
	}
	out := r.orphanText()
	if r.MaxTTL > 0 {
		out += fmt.Sprintf("; taken over after %.2f ttl (p50), %.2f ttl at most", r.P50TTL, r.MaxTTL)
	}
	var first, slowest *past.FaultRecovery
	for f := range past.Each(r.Faults) {
		if f.Locks == 0 {
			continue
		}
		if first == nil || f.FirstMS > first.FirstMS {
			first = f
		}
		if slowest == nil || f.SlowestMS > slowest.SlowestMS {
			slowest = f
		}
	}
	if first != nil {
		work, of := "release", "lock"
		if r.work != "" && r.work != work {
			work, of = r.work, "shard"
		}
		out += fmt.Sprintf("; first %s within %.0f ms of a heal (%s %s)", work, first.FirstMS, first.ID, first.Name)
		if slowest.SlowestLock != "" {
			out += fmt.Sprintf(", of every %s that had one within %.0f ms (%s, %s)", of, slowest.SlowestMS, slowest.ID, slowest.SlowestLock)
		}
	}
	return out
}
