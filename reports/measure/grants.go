package measure

import (
	"slices"
	"strings"
	"time"

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

// Grant is one holding of a lock (or of a shard): an acquire (or a take) that took effect.
type Grant struct {
	Lock     string // or the shard
	Proc     string
	Token    int64
	Attempt  string
	TTL      time.Duration
	Takeover bool
	// Held is false for an acquire of unknown outcome that later rows prove to
	// have been applied: its client never learnt of it in time.
	Held bool
	// From is the return of the granting acquire and To the end of the holder's
	// entitlement, by EndedBy. From == To if it was over when it became known.
	From, To int64
	EndedBy  string
	// Deadline is the holder's own: the first send of the last compare-and-set
	// known applied (its invocation if sends were not recorded) + TTL - margin.
	Deadline int64
	// RowUntil is when the lock's row is known to name another: the return of
	// the release, or of the next grant. The row shows the holder until then,
	// though it may have lost its right long before.
	RowUntil int64
	// LastBeat is the return of the last compare-and-set of this grant that is ok.
	LastBeat int64
	// Acquire is the granting operation.
	Acquire history.Operation
}

// Takeover is a grant that replaced a holder that had not released.
type Takeover struct {
	Grant Grant
	// From is the grant that it replaced; nil if the history does not have it.
	From *Grant
	// Idle is the time from the replaced holder's last sign of life (LastBeat)
	// until the new grant; 0 without From.
	Idle time.Duration
}

// margins is 2 x drift x ttl + base by the history's header.
type margins struct {
	drift float64
	base  time.Duration
}

func (m margins) of(ttl time.Duration) time.Duration {
	return time.Duration(2*m.drift*float64(ttl)) + m.base
}

func headerMargins(h *history.History) margins {
	var m margins
	for _, head := range h.Headers {
		m.drift = max(m.drift, head.DriftBound)
		m.base = max(m.base, time.Duration(head.MarginBaseMS)*time.Millisecond)
	}
	return m
}

type holding struct {
	life, lock string
	token      int64
}

// lease names the operations on a kind of fenced row.
type lease struct {
	take, extend, give history.Op
	// shared says that a holding is a process's, whichever part of it acts.
	shared bool
}

var (
	lockLease  = lease{take: history.OpAcquire, extend: history.OpRenew, give: history.OpRelease}
	shardLease = lease{take: history.OpTake, extend: history.OpTick, give: history.OpHandOver, shared: true}
)

func (l lease) same(a, b string) bool {
	if l.shared {
		return history.Life(a) == history.Life(b)
	}
	return a == b
}

// grants finds every taking of a row that took effect and how long it entitled its holder.
func grants(h *history.History, ops []history.Operation, end int64, l lease) []Grant {
	seen := provenAttempts(ops)
	m := headerMargins(h)
	var out []Grant
	at := map[holding][]int{}
	for _, op := range ops {
		inv := op.Invoke
		if inv.Op != l.take || inv.To == nil || op.Outcome == history.Fail {
			continue
		}
		held := op.Outcome == history.OK
		if !held && !seen[version{inv.To.Fence, inv.To.Attempt}] {
			continue
		}
		g := Grant{
			Lock: inv.Key, Proc: inv.Proc, Token: inv.To.Fence, Attempt: inv.To.Attempt, Takeover: inv.Takeover,
			TTL: time.Duration(inv.To.TTLMS+inv.TTLMS()) * time.Millisecond, Held: held, Acquire: op,
			From: op.End.TS, LastBeat: op.End.TS, RowUntil: end, EndedBy: EndedRun,
		}
		if op.End.TS == 0 {
			g.From, g.LastBeat = inv.TS, inv.TS
		}
		g.Deadline = firstSend(op) + int64(g.TTL-m.of(g.TTL))
		k := holding{history.Life(inv.Proc), inv.Key, g.Token}
		at[k] = append(at[k], len(out))
		out = append(out, g)
	}
	changes(out, at, ops, m, l)
	stops(out, at, h, end, l)
	finish(out)
	if l.shared { // a take does not say whether it is a takeover
		for i := 1; i < len(out); i++ {
			out[i].Takeover = out[i].Lock == out[i-1].Lock && out[i-1].EndedBy != EndedRelease
		}
	}
	return out
}

type version struct {
	fence   int64
	attempt string
}

// provenAttempts are the versions that somebody has seen in a row.
func provenAttempts(ops []history.Operation) map[version]bool {
	seen := map[version]bool{}
	for _, op := range ops {
		for _, v := range []*history.Version{op.Invoke.From, op.End.Row} {
			if v != nil && !v.Absent {
				seen[version{v.Fence, v.Attempt}] = true
			}
		}
	}
	return seen
}

func firstSend(op history.Operation) int64 {
	if len(op.End.Sends) > 0 {
		return op.End.Sends[0]
	}
	return op.Invoke.TS
}

// changes applies renewals and releases to the grants.
func changes(gs []Grant, at map[holding][]int, ops []history.Operation, m margins, l lease) {
	for _, op := range ops {
		inv := op.Invoke
		if inv.From == nil || inv.Op != l.extend && inv.Op != l.give {
			continue
		}
		for _, i := range at[holding{history.Life(inv.Proc), inv.Key, inv.From.Fence}] {
			g := &gs[i]
			if !l.same(g.Proc, inv.Proc) {
				continue
			}
			switch {
			case inv.Op == l.give:
				if g.To == 0 || inv.TS < g.To {
					g.To, g.EndedBy = inv.TS, EndedRelease
				}
				if op.Outcome == history.OK {
					g.RowUntil, g.LastBeat = op.End.TS, op.End.TS
				}
			case op.Outcome == history.OK:
				g.LastBeat = max(g.LastBeat, op.End.TS)
				// A renewal known only after the deadline revives nothing.
				if op.End.TS < g.Deadline {
					g.Deadline = max(g.Deadline, firstSend(op)+int64(g.TTL-m.of(g.TTL)))
				}
			}
		}
	}
}

// stops applies what ends a right besides a release.
func stops(gs []Grant, at map[holding][]int, h *history.History, end int64, l lease) {
	gone := map[string]history.Event{}
	for _, e := range h.Events {
		if e.Type != history.Note {
			continue
		}
		switch e.Op {
		case history.NoteLeaseLost:
			for _, i := range at[holding{history.Life(e.Proc), e.Key, e.Token}] {
				if g := &gs[i]; l.same(g.Proc, e.Proc) && (g.To == 0 || e.TS < g.To) {
					g.To, g.EndedBy = e.TS, EndedLost
				}
			}
		case history.NoteCrash, history.NoteExit:
			if _, known := gone[history.Life(e.Proc)]; !known {
				gone[history.Life(e.Proc)] = e
			}
		}
	}
	for i := range gs {
		g := &gs[i]
		if e, ok := gone[history.Life(g.Proc)]; ok && (g.To == 0 || e.TS < g.To) {
			g.To, g.EndedBy = e.TS, EndedExit
			if e.Op == history.NoteCrash {
				g.EndedBy = EndedCrash
			}
		}
		if g.To == 0 || g.Deadline < g.To {
			if g.Deadline < end || g.To != 0 {
				g.To, g.EndedBy = g.Deadline, EndedDeadline
			} else {
				g.To, g.EndedBy = end, EndedRun
			}
		}
		if !g.Held {
			g.To = g.From
		}
		g.To = max(g.To, g.From)
	}
}

// finish sorts the grants and bounds each one's row by the next grant.
func finish(gs []Grant) {
	slices.SortStableFunc(gs, func(a, b Grant) int {
		if c := strings.Compare(a.Lock, b.Lock); c != 0 {
			return c
		}
		return int(min(max(a.From-b.From, -1), 1))
	})
	for i := range gs {
		if i+1 < len(gs) && gs[i+1].Lock == gs[i].Lock {
			gs[i].RowUntil = min(gs[i].RowUntil, gs[i+1].From)
		}
		gs[i].RowUntil = max(gs[i].RowUntil, gs[i].From)
	}
}

// takeovers pairs each takeover with the grant that it replaced: the one whose
// token its compare-and-set named.
func takeovers(gs []Grant) []Takeover {
	var out []Takeover
	for i := range gs {
		g := gs[i]
		if !g.Takeover {
			continue
		}
		t := Takeover{Grant: g}
		from := g.Acquire.Invoke.From
		for j := i - 1; j >= 0 && gs[j].Lock == g.Lock && from != nil; j-- {
			if gs[j].Token == from.Fence && gs[j].Attempt == from.Attempt {
				prev := gs[j]
				t.From, t.Idle = &prev, time.Duration(g.From-prev.LastBeat)
				break
			}
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b Takeover) int { return int(min(max(a.Grant.From-b.Grant.From, -1), 1)) })
	return out
}

// Locks returns the locks that were granted, by name.
func (a *Analysis) Locks() []string {
	var out []string
	for _, g := range a.Grants {
		if len(out) == 0 || out[len(out)-1] != g.Lock {
			out = append(out, g.Lock)
		}
	}
	return out
}
