package checker

import (
	"fmt"

	"fencepost/harness/record/history"
)

// checkHits: a point before a request stands before that request.
func (a *judgement) checkHits(p *Property) {
	for _, e := range a.told.hits {
		if what, o := a.missed(e); what != "" {
			events := []*history.Event{e}
			if o != nil {
				events = append(events, both(o)...)
			}
			p.add(e.Key, events, "%s", what)
		}
	}
}

// missed says why a client did not stand where it said, "" if it did: its links tell whether
// the request had left when it asked, and whether it left at all.
func (a *judgement) missed(e *history.Event) (what string, o *op) {
	h := e.Hit()
	at := fmt.Sprintf("the point %s of %s", e.Point(), e.Key)
	switch o = a.operation(h.Proc, h.ID); {
	case o == nil:
		return fmt.Sprintf("%s asked at %s and had recorded no operation that was about to be sent", h.Proc, at), nil
	case h.Sent > 0 && h.Sent < e.TS:
		return fmt.Sprintf("%s asked at %s %s after its request had left: the fault came too late", h.Proc, at, ms(e.TS-h.Sent)), o
	case h.Sent > 0 && (h.Go == 0 || h.Sent < h.Go):
		return fmt.Sprintf("%s stood at %s, and its request left before it was let go", h.Proc, at), o
	case h.Sent == 0 && answered(o):
		return fmt.Sprintf("%s asked at %s and says that its %s was answered; its links carried no such request", h.Proc, at, o.inv.Op), o
	}
	return "", o
}

// answered says whether an operation's end claims an answer.
func answered(o *op) bool {
	return o.end != nil && (o.outcome == history.OK || o.end.Result != "" || o.end.Row != nil)
}

// operation is the one of a life with an id, or nil.
func (a *judgement) operation(proc string, id int64) *op {
	for i := range a.ops {
		if o := &a.ops[i]; o.inv.ID == id && history.Life(o.inv.Proc) == history.Life(proc) {
			return o
		}
	}
	return nil
}
