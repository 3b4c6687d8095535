package past

import (
	"slices"

	"fencepost/harness/record/history"
)

// regained are the instants at which a row was granted to a holder that lost it to a fault before
// anything was done, as the holder before had lost it. A gap has room for one lost lease, and here
// it would have two: what comes after the second grant is held against the bound by itself.
func (a *Past) regained(l *Row, done []*Op) (out []int64) {
	var grant *Write
	lost := false // the grant before that
	for i, w := range l.Chain {
		kind := w.Main().Kind()
		if IsRenewal(kind) {
			continue
		}
		again := grant != nil && !IsRelease(kind) && a.reached(grant, l.Chain[i-1])
		if again && lost && !doneWithin(done, grant.Earliest(), w.Earliest()) {
			out = append(out, grant.Earliest())
		}
		lost, grant = again, nil
		if IsGrant(kind) {
			grant = w
		}
	}
	return out
}

// reached says whether a fault kept a holder from renewing: it was silent at some time of the lease
// that its last write began, after the answer if it had one.
func (a *Past) reached(grant, last *Write) bool {
	from, to := last.Earliest(), last.Earliest()+grant.Main().TTL()
	if c := last.OK(); c != nil {
		from = c.End.TS
	}
	return slices.ContainsFunc(a.Silences(history.Life(grant.Main().Invoke.Proc)), func(s history.Span) bool { return s.From < to && s.To > from })
}

func doneWithin(done []*Op, from, to int64) bool {
	return slices.ContainsFunc(done, func(o *Op) bool { return o.End.TS > from && o.End.TS < to })
}
