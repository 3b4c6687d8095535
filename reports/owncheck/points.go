package owncheck

import (
	"fmt"
	"slices"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/own"
)

const pointDo = "record the invoke, ask at the point, wait for the answer, and send then"

func points(r *Run) (out []Finding) {
	offered := r.Trial.Offer.Points
	if len(offered) == 0 {
		return one(Hint, "it offers none: the scenarios whose faults wait for a client at a point are not open to it")
	}
	if len(r.Trial.Stands) == 0 {
		return one(Unchecked, "its processes did not work for long enough")
	}
	for _, s := range r.Trial.Stands {
		f := r.stood(s)
		f.Check = string(s.Point)
		out = append(out, f)
	}
	return out
}

// stood judges a client that was kept waiting.
func (r *Run) stood(s own.Stand) Finding {
	switch {
	case s.Proc == "" && s.Point == control.RenewSent && !slices.Contains(r.Trial.Offer.Points, control.Holding):
		return Finding{Status: Unchecked, Text: "nobody renewed a lease: without the point holding nobody could be told to work for long enough"}
	case s.Proc == "" && r.fell():
		return Finding{Status: Unchecked, Text: "its process had ended before a client came to it"}
	case s.Proc == "":
		return Finding{Status: Wrong, Text: "no client came to it, and scenarios wait for that in vain", Do: "offer only points at which clients ask"}
	case s.Point == control.Holding:
		return r.held(s)
	}
	hit := r.hit(s)
	if hit == nil {
		return Finding{Status: Unknown, Text: "its run ended before anybody noted what the links carried"}
	}
	o := r.operations()[ref{history.Life(s.Proc), hit.Hit().ID}]
	wrong := func(format string, args ...any) Finding {
		return r.at(Finding{Status: Wrong, Text: fmt.Sprintf(format, args...), Do: pointDo}, o.invoke)
	}
	switch h := hit.Hit(); {
	case o.invoke == nil:
		return wrong("%s asked and had recorded no operation that was about to be sent", s.Proc)
	case h.Sent > 0 && h.Sent < hit.TS:
		return wrong("%s asked %s after its request had left", s.Proc, ms(hit.TS-h.Sent))
	case h.Sent > 0 && h.Sent < h.Go:
		return wrong("%s did not wait: its request left %s before the answer", s.Proc, ms(h.Go-h.Sent))
	case h.Sent == 0 && (o.ok() || o.end != nil && o.end.Result != ""):
		return wrong("%s says that its %s was answered, and its links carried no such request", s.Proc, o.invoke.Op)
	case h.Sent == 0:
		return Finding{Status: Unchecked, Text: fmt.Sprintf("%s waited for %s, and sent nothing then", s.Proc, waited(s))}
	default:
		return Finding{Status: OK, Text: fmt.Sprintf("%s waited for %s, and its request left %s after the answer", s.Proc, waited(s), ms(h.Sent-h.Go))}
	}
}

// fell: a life ended that was not to.
func (r *Run) fell() bool {
	return slices.ContainsFunc(r.lives(history.LifeProgram), func(l *history.ProcessLife) bool { return l.Unplanned() != "" && l.Asked != sigTerm })
}

func waited(s own.Stand) string { return seconds(time.Duration(s.Went - s.At)) }

// hit is the note of a client that stood before a request.
func (r *Run) hit(s own.Stand) *history.Event {
	for i := range r.History.Events {
		if e := &r.History.Events[i]; e.Op == history.NoteHit && e.Point() == string(s.Point) && e.TS == s.At && e.Hit().Proc == s.Proc {
			return e
		}
	}
	return nil
}

// held judges a client that was kept waiting before its protected work, and then told for how
// long to work. It may lose its lease instead.
func (r *Run) held(s own.Stand) Finding {
	for i := range r.History.Events {
		e := &r.History.Events[i]
		if e.Proc != s.Proc || e.TS < s.At || e.Key != s.Key && e.Issuer != s.Key {
			continue
		}
		done := e.Type == history.Invoke && (e.Op == history.OpEffect || e.Op == history.OpRelease)
		switch {
		case done && e.TS < s.Went:
			return r.at(Finding{Status: Wrong, Do: "ask at the point after the start note, and wait for the answer",
				Text: fmt.Sprintf("%s did not wait: its %s came %s before the answer", s.Proc, e.Op, ms(s.Went-e.TS))}, e)
		case done && time.Duration(e.TS-s.Went) < s.Hold*9/10:
			return r.at(Finding{Status: Wrong, Do: "let the protected work last for hold_ms of the answer, if it is above 0",
				Text: fmt.Sprintf("%s was told to work for %s (hold_ms), and its %s came after %s", s.Proc, seconds(s.Hold), e.Op, ms(e.TS-s.Went))}, e)
		case done:
			return Finding{Status: OK, Text: fmt.Sprintf("%s waited for %s and then worked for %s, as it was told", s.Proc, waited(s), ms(e.TS-s.Went))}
		case e.Op == history.NoteLeaseLost && e.TS > s.Went:
			return Finding{Status: Unchecked, Text: fmt.Sprintf("%s waited for %s, and lost its lease while it worked", s.Proc, waited(s))}
		}
	}
	return Finding{Status: Unchecked, Text: fmt.Sprintf("%s waited for %s, and recorded nothing more of that grant", s.Proc, waited(s))}
}
