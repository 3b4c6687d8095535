package property

import (
	"maps"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// trigger is what clients asked for by one name, and what came of it.
type trigger struct {
	calls, applied, duplicate, open []*past.Op // open: the outcome is not known
	taken                           []past.Taken
}

// checkTriggers: what was acknowledged by the name of a manual trigger was taken, and fires, once;
// what was refused by each call is never taken. That nothing fires by one name twice, and how
// triggers overlap, is the replay's.
func checkTriggers(s *past.Schedule, p *Property) {
	triggers := map[string]*trigger{}
	of := func(name string) *trigger {
		if triggers[name] == nil {
			triggers[name] = &trigger{}
		}
		return triggers[name]
	}
	for _, o := range s.Calls {
		c := o.Invoke.Schedule()
		if c.Do != history.DoTrigger {
			continue
		}
		t := of(c.Trigger)
		t.calls = append(t.calls, o)
		switch {
		case o.Outcome == history.OK && o.End.Result == past.ResultApplied:
			t.applied = append(t.applied, o)
		case o.Outcome == history.OK:
			t.duplicate = append(t.duplicate, o)
		case o.Outcome != history.Fail:
			t.open = append(t.open, o)
		}
	}
	for _, x := range s.Taken {
		t := of(x.Name)
		t.taken = append(t.taken, x)
	}
	p.Checked += len(triggers)
	for _, name := range slices.Sorted(maps.Keys(triggers)) {
		t := triggers[name]
		bad := func(format string, args ...any) {
			events := past.Events(t.calls...)
			for _, x := range t.taken {
				events = append(events, past.Events(&x.Write.Main().Op)...)
			}
			p.add(s.Key, events, "trigger %s of schedule %s "+format, append([]any{name, s.Key}, args...)...)
		}
		switch {
		case len(t.taken) < len(t.applied):
			bad("was acknowledged %s, and taken %s: what it asks for is lost", phrase.Times(len(t.applied)), phrase.Times(len(t.taken)))
		case slices.ContainsFunc(t.duplicate, t.takenLater):
			bad("was acknowledged as one that had been taken before, and was not")
		case len(t.taken) > len(t.applied)+len(t.open):
			bad("was taken %s, and asked for %s, not counting calls that were refused or had nothing to do",
				phrase.Times(len(t.taken)), phrase.Times(len(t.applied)+len(t.open)))
		case len(t.taken) > 0 && s.Unfired(name):
			bad("was taken, and never fired")
		}
	}
}

// takenLater says whether no batch can have taken the trigger when a call ended.
func (t *trigger) takenLater(o *past.Op) bool {
	return !slices.ContainsFunc(t.taken, func(x past.Taken) bool { return x.Write.Main().Invoke.TS < o.End.TS })
}
