package property

import (
	"fmt"
	"slices"
	"strings"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// stretchOfRun is a window in which a group of workers is expected to succeed or
// not to.
type stretchOfRun struct {
	from, to int64
	// inside: the whole operation must lie within it, not its end alone. For a
	// fault's window: a release that was under way when the fault came or when it
	// was healed says nothing about it.
	inside bool
	member func(worker string) bool
}

func (w stretchOfRun) has(o *past.Op) bool {
	if !w.member(history.Worker(o.Invoke.Proc)) {
		return false
	}
	if w.inside {
		return o.Invoke.TS > w.from && o.End.TS < w.to
	}
	return o.End.TS >= w.from && o.End.TS < w.to
}

// checkSuccess judges the successes of groups of workers by phase or fault.
func (a *Judgement) checkSuccess(e *history.Event, p *Property) {
	for _, s := range e.Expect().Success {
		where, key := "phase "+s.Phase, s.Phase
		if s.Fault != "" {
			where, key = "the windows of fault "+s.Fault, s.Fault
		}
		bad := func(format string, args ...any) {
			p.add(key, []*history.Event{e}, format, args...)
		}
		if s.Want != history.Some && s.Want != history.None && s.Want != history.Any {
			bad("the expect note wants %q of %s; known are some, none and any", s.Want, where)
			continue
		}
		windows, err := a.windows(s)
		if err != nil {
			bad("%v", err)
			continue
		}
		found, n := a.succeeded(windows)
		switch {
		case s.Want == history.Some && n == 0:
			bad("in %s no %s of %s succeeded, the scenario demands some", where, a.Work(), groupText(s))
		case s.Want == history.None && n > 0:
			p.add(key, append(past.Events(found), e), "in %s %s of %s succeeded, the scenario demands none: the fault did not cut them off", where, phrase.Plural(n, a.Work()), groupText(s))
		}
	}
}

func groupText(s history.Success) string {
	switch {
	case len(s.Workers) > 0:
		return strings.Join(s.Workers, ", ")
	case s.Group == history.GroupTargets:
		return "the workers that it is aimed at"
	case s.Group == history.GroupOthers:
		return "the other workers"
	}
	return "all workers"
}

// succeeded counts the successes in the windows, and returns one.
func (a *Judgement) succeeded(windows []stretchOfRun) (found *past.Op, n int) {
	for _, s := range a.Successes {
		if slices.ContainsFunc(windows, func(w stretchOfRun) bool { return w.has(s.Op) }) {
			found, n = s.Op, n+s.Count
		}
	}
	return found, n
}

// windows are what an expectation is about, or why it is about nothing.
func (a *Judgement) windows(s history.Success) ([]stretchOfRun, error) {
	if (s.Phase == "") == (s.Fault == "") {
		return nil, fmt.Errorf("an expectation of success names phase %q and fault %q: it must name one of them", s.Phase, s.Fault)
	}
	if len(s.Workers) > 0 && s.Group != "" {
		return nil, fmt.Errorf("an expectation of success names workers and the group %q: only one of them may be named", s.Group)
	}
	switch s.Group {
	case "", history.GroupTargets, history.GroupOthers:
	default:
		return nil, fmt.Errorf("an expectation of success is about the group %q; known are %s and %s", s.Group, history.GroupTargets, history.GroupOthers)
	}
	known := a.WorkerNames()
	for _, w := range s.Workers {
		if !known[w] {
			return nil, fmt.Errorf("the scenario expects something of worker %s, which recorded nothing", w)
		}
	}
	if s.Fault != "" {
		return a.faultWindows(s)
	}
	return a.phaseWindows(s)
}

func (a *Judgement) phaseWindows(s history.Success) ([]stretchOfRun, error) {
	var aimed []string
	for _, f := range a.Faults {
		aimed = append(aimed, past.WorkersIn(f.Fault.Targets)...)
	}
	if s.Group != "" && len(aimed) == 0 {
		return nil, fmt.Errorf("the scenario expects something of the group %q in phase %s, but no fault was aimed at a worker", s.Group, s.Phase)
	}
	var out []stretchOfRun
	for _, ph := range a.History.Phases() {
		if ph.Name == s.Phase {
			out = append(out, stretchOfRun{from: ph.From, to: ph.To, member: members(s, aimed)})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the scenario expects something of phase %s, which the run did not have", s.Phase)
	}
	return out, nil
}

func (a *Judgement) faultWindows(s history.Success) ([]stretchOfRun, error) {
	var out []stretchOfRun
	for _, f := range a.Faults {
		if f.Fault.ID != s.Fault && f.Fault.Name != s.Fault {
			continue
		}
		aimed := past.WorkersIn(f.Fault.Targets)
		if s.Group != "" && len(aimed) == 0 {
			return nil, fmt.Errorf("the scenario expects something of the group %q of fault %s, which was aimed at %s: at no worker", s.Group, s.Fault, strings.Join(f.Fault.Targets, ", "))
		}
		w := stretchOfRun{from: f.From, to: f.To, inside: true, member: members(s, aimed)}
		if until, ok := f.Until(); ok && s.Want == history.None {
			w.to = until
		}
		out = append(out, w)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the scenario expects something of fault %s, which was not injected", s.Fault)
	}
	return out, nil
}

// members says who belongs to the group, given whom the faults are aimed at.
func members(s history.Success, aimed []string) func(string) bool {
	switch {
	case len(s.Workers) > 0:
		return func(w string) bool { return slices.Contains(s.Workers, w) }
	case s.Group == history.GroupTargets:
		return func(w string) bool { return slices.Contains(aimed, w) }
	case s.Group == history.GroupOthers:
		return func(w string) bool { return w != history.Harness && !slices.Contains(aimed, w) }
	}
	return func(string) bool { return true }
}
