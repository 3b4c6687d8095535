package measure

import (
	"cmp"
	"slices"
	"time"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// How an entitlement ended.
const (
	EndedRelease  = "release"
	EndedDeadline = "deadline"
	EndedLost     = "lease-lost"
	EndedCrash    = "crash"
	EndedExit     = "exit"
	EndedRun      = "end of run"
)

// Grant is one holding of a lock (or of a shard): a [past.Grant] as it is drawn.
type Grant struct {
	Lock     string // or the shard
	Proc     string
	Token    int64
	TTL      time.Duration
	Takeover bool
	// Held is false for an acquire without the answer that it was applied, which later rows
	// prove to have been: its client never learnt of it in time.
	Held bool
	// From is the return of the granting acquire and To the end of the holder's
	// entitlement, by EndedBy. From == To if it was over when it became known. The
	// checker's grants do not end with their process: it judges what was done, and the dead do
	// nothing.
	From, To int64
	EndedBy  string
	// RowUntil is when the lock's row is known to name another: the return of
	// the release, or of the next grant. The row shows the holder until then,
	// though it may have lost its right long before.
	RowUntil int64

	lastSign int64 // the return of its last compare-and-set that is ok
}

// Takeover is a grant that replaced a holder that had not released.
type Takeover struct {
	Grant Grant
	// From is the grant that it replaced; nil if the history does not have it.
	From *Grant
	// Idle is the time from the replaced holder's last sign of life (the return of its last
	// compare-and-set that is ok) until the new grant; 0 without From.
	Idle time.Duration
}

// TTLs is Idle in units of the replaced holder's lease.
func (t Takeover) TTLs() float64 { return float64(t.Idle) / float64(t.From.TTL) }

// grants sets Grants, Owners and Takeovers.
func (a *Analysis) grants(p *past.Past) {
	gone := exits(p.History)
	for _, row := range p.Rows {
		made := slices.Clone(row.Grants)
		made = slices.DeleteFunc(made, func(g *past.Grant) bool { return g.Acquire.Outcome != history.OK && !g.TookEffect() })
		slices.SortStableFunc(made, func(x, y *past.Grant) int { return cmp.Compare(answered(x), answered(y)) })
		out := make([]Grant, len(made))
		for i, g := range made {
			out[i] = a.grant(g, gone[history.Life(g.Acquire.Invoke.Proc)])
			if i > 0 {
				out[i-1].RowUntil = max(min(out[i-1].RowUntil, out[i].From), out[i-1].From)
			}
		}
		if row.Shard {
			a.Owners = append(a.Owners, out...)
			continue
		}
		a.Grants = append(a.Grants, out...)
		for i, g := range made {
			if !out[i].Takeover {
				continue
			}
			t := Takeover{Grant: out[i]}
			if j := slices.Index(made[:i], row.GrantAt(g.Acquire.From, "")); j >= 0 {
				t.From, t.Idle = &out[j], time.Duration(out[i].From-out[j].lastSign)
			}
			a.Takeovers = append(a.Takeovers, t)
		}
	}
	slices.SortStableFunc(a.Takeovers, func(x, y Takeover) int { return cmp.Compare(x.Grant.From, y.Grant.From) })
}

// exits are the ends of process lives: the first crash or exit of each.
func exits(h *history.History) map[string]*history.Event {
	gone := map[string]*history.Event{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Type == history.Note && (e.Op == history.NoteCrash || e.Op == history.NoteExit) && gone[history.Life(e.Proc)] == nil {
			gone[history.Life(e.Proc)] = e
		}
	}
	return gone
}

// answered is when the granting acquire returned; its invocation if it never did.
func answered(g *past.Grant) int64 {
	if g.Acquire.End == nil {
		return g.Acquire.Invoke.TS
	}
	return g.Acquire.End.TS
}

// grant is g as it is drawn; gone is the end of its process, or nil.
func (a *Analysis) grant(g *past.Grant, gone *history.Event) Grant {
	from := answered(g)
	out := Grant{
		Lock: g.Row.Name, Proc: g.Acquire.Invoke.Proc, Token: g.Fence, TTL: time.Duration(g.Acquire.TTL()),
		Takeover: g.Row.Takeover(g.Acquire.Write), Held: g.Acquire.Outcome == history.OK,
		From: from, EndedBy: EndedDeadline, RowUntil: max(a.End, from), lastSign: from,
	}
	if n := len(g.Renews); n > 0 {
		out.lastSign = max(from, g.Renews[n-1].End.TS)
	}
	if g.Release != nil {
		if at := g.Release.Write.Answered(); at < history.Forever {
			out.RowUntil, out.lastSign = at, at
		}
	}
	to, by := g.Until()
	switch {
	case by == nil:
	case by.Op == history.NoteLeaseLost:
		out.EndedBy = EndedLost
	default:
		out.EndedBy = EndedRelease
	}
	switch {
	case gone != nil && gone.TS < to:
		to, out.EndedBy = gone.TS, EndedExit
		if gone.Op == history.NoteCrash {
			out.EndedBy = EndedCrash
		}
	case gone == nil && by == nil && to >= a.End:
		to, out.EndedBy = a.End, EndedRun
	}
	out.To = max(to, from)
	if !out.Held {
		out.To = from
	}
	return out
}
