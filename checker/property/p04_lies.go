package property

import "fencepost/checker/past"

// propertyOf is where a lie counts: a refusal that never happened where refusals are judged.
func propertyOf(l *past.Lie) string {
	switch l.Op.End.Result {
	case past.ResultStale, past.ResultConflict:
		return "P10"
	}
	return "P4"
}

// reportLies adds the lies that count for a property. No event that was lost can excuse one.
func (a *Judgement) reportLies(p *Property) {
	for i := range a.Lies {
		if l := &a.Lies[i]; propertyOf(l) == p.ID || p.ID == "P14" && !a.Promised(propertyOf(l)) {
			p.add(l.Resource, l.Events, "%s", l.Message)
			p.certain = true
		}
	}
}
