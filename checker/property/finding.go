package property

import (
	"fmt"
	"sort"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

const (
	MaxWindow     = 12 // events of one violation
	maxViolations = 20 // a property lists at most so many
)

// add records a violation shown by the given events; nil events are skipped.
func (p *Property) add(key string, events []*history.Event, format string, args ...any) {
	p.Count++
	if len(p.Violations) >= maxViolations {
		return
	}
	v := Violation{Key: key, Message: fmt.Sprintf(format, args...), Events: []EventRef{}}
	seen := map[*history.Event]bool{nil: true}
	for _, e := range events {
		if !seen[e] && len(v.Events) < MaxWindow {
			seen[e] = true
			v.Events = append(v.Events, EventRef{File: e.File, Line: e.Line, Event: *e})
		}
	}
	sort.SliceStable(v.Events, func(i, j int) bool { return v.Events[i].Event.TS < v.Events[j].Event.TS })
	if n := len(v.Events); n > 0 {
		v.From, v.To = v.Events[0].Event.TS, v.Events[n-1].Event.TS
	}
	p.Violations = append(p.Violations, v)
}

// excuse makes what was found invalid: something else than the system may have caused it.
func (p *Property) excuse(why string, note *history.Event) {
	found, n := p.Violations, p.Count
	p.Violations = nil
	p.add("", []*history.Event{note}, "%s", why)
	p.Violations = append(p.Violations, found[:min(len(found), maxViolations-1)]...)
	p.Status, p.Count, p.Detail = StatusInvalid, n+1, why+"; "+p.Detail
}

// report gives a property what the replay found for it.
func report(x *past.Jobs, property string, p *Property) {
	for _, f := range x.Found[property] {
		p.add(f.Key, f.Events, "%s", f.Message)
	}
}

// Printed bounds the violations of a property that Print shows; verdict.json
// has up to 20.
const Printed = 3
