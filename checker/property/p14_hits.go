package property

import (
	"fmt"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// checkHits: a point before a request stands before that request.
func (a *Judgement) checkHits(p *Property) {
	for _, e := range a.Witness.Hits {
		if what, o := a.missed(e); what != "" {
			events := []*history.Event{e}
			if o != nil {
				events = append(events, past.Events(o)...)
			}
			p.add(e.Key, events, "%s", what)
		}
	}
}

// missed says why a client did not stand where it said, "" if it did: its links tell whether
// the request had left when it asked, and whether it left at all.
func (a *Judgement) missed(e *history.Event) (what string, o *past.Op) {
	h := e.Hit()
	at := fmt.Sprintf("the point %s of %s", e.Point(), e.Key)
	switch o = a.Operation(h.Proc, h.ID); {
	case o == nil:
		return fmt.Sprintf("%s asked at %s and had recorded no operation that was about to be sent", h.Proc, at), nil
	case h.Sent > 0 && h.Sent < e.TS:
		return fmt.Sprintf("%s asked at %s %s after its request had left: the fault came too late", h.Proc, at, phrase.MS(e.TS-h.Sent)), o
	case h.Sent > 0 && (h.Go == 0 || h.Sent < h.Go):
		return fmt.Sprintf("%s stood at %s, and its request left before it was let go", h.Proc, at), o
	case h.Sent == 0 && answered(o):
		return fmt.Sprintf("%s asked at %s and says that its %s was answered; its links carried no such request", h.Proc, at, o.Invoke.Op), o
	}
	return "", o
}

// answered says whether an operation's end claims an answer.
func answered(o *past.Op) bool {
	return o.End != nil && (o.Outcome == history.OK || o.End.Result != "" || o.End.Row != nil)
}
