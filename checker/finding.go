package checker

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"

	"fencepost/harness/record/history"
)

// maxWindow bounds the events of one violation.
const maxWindow = 12

// add records a violation shown by the given events; nil events are skipped.
func (p *Property) add(key string, events []*history.Event, format string, args ...any) {
	p.Count++
	if len(p.Violations) >= maxViolations {
		return
	}
	v := Violation{Key: key, Message: fmt.Sprintf(format, args...), Events: []EventRef{}}
	seen := map[*history.Event]bool{nil: true}
	for _, e := range events {
		if !seen[e] && len(v.Events) < maxWindow {
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

// both is an operation's two events.
func both(ops ...*op) []*history.Event {
	var out []*history.Event
	for _, o := range ops {
		if o != nil {
			out = append(out, o.inv, o.end)
		}
	}
	return out
}

// relative makes name relative to dir if it lies below it.
func relative(dir, name string) string {
	if dir == "" {
		return name
	}
	rel, err := filepath.Rel(dir, name)
	if err != nil || strings.HasPrefix(rel, "..") {
		return name
	}
	return rel
}

// text says a version in words.
func text(v *history.Version) string {
	switch {
	case v.Absent:
		return "no row"
	case v.Holder == "":
		return fmt.Sprintf("fence %d beat %d (free)", v.Fence, v.Beat)
	}
	return fmt.Sprintf("fence %d beat %d (%s, attempt %s)", v.Fence, v.Beat, v.Holder, short(v.Attempt))
}

func short(attempt string) string {
	if len(attempt) > 8 {
		return attempt[:8]
	}
	return attempt
}

// ms says a duration in ns as milliseconds.
func ms(ns int64) string { return fmt.Sprintf("%.1f ms", float64(ns)/1e6) }

// plural says "1 gap", "2 gaps".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// are says " is" of one, " are" of several.
func are(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

// were says "1 gap was", "2 gaps were".
func were(n int, noun string) string {
	if n == 1 {
		return plural(n, noun) + " was"
	}
	return plural(n, noun) + " were"
}
