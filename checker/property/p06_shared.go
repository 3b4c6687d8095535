package property

import (
	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// oneTokenForAll: tokens that are not their own row's but that of another lock which the same
// client held then. It says whether that explains most of them.
func (x *Inquiry) oneTokenForAll(odd []*past.Grant) bool {
	byClient := map[string][]*past.Grant{}
	for _, l := range x.Rows {
		for _, g := range l.Grants {
			if !l.Shard && g.Call != nil {
				byClient[g.Call.Invoke.Proc] = append(byClient[g.Call.Invoke.Proc], g)
			}
		}
	}
	n := 0
	var first, of *past.Grant
	for _, g := range odd {
		for _, h := range byClient[g.Call.Invoke.Proc] {
			if h.Row != g.Row && h.Token == g.Token && h.Token == h.Fence && h.Call.End.TS <= g.Call.End.TS && heldUntil(h) >= g.Call.End.TS {
				if n++; first == nil {
					first, of = g, h
				}
				break
			}
		}
	}
	if n*5 < len(odd)*4 {
		return false
	}
	s := x.suspect("one-token-for-all-locks", shown, n, "%s for which the row has another fence; %d are the token of another lock that "+
		"the client held then", phrase.Plural(len(odd), "token"), n)
	s.show(first.Row.Name, first.Call.End.TS, []string{first.Call.Invoke.Proc}, x.granted(RoleBefore, of), x.handedStep(RoleMistake, first))
	return true
}

// heldUntil is when a client gave a lock back, or lost it.
func heldUntil(g *past.Grant) int64 {
	switch {
	case g.Release != nil:
		return g.Release.Invoke.TS
	case g.Lost != nil:
		return g.Lost.TS
	}
	return history.Forever
}
