package checker

import (
	"context"
	"slices"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// TestSwitches: P12 passes a schedule that is disabled and enabled, and says what is wrong with one
// that fires meanwhile, or that is enabled for nothing.
func TestSwitches(t *testing.T) {
	t.Parallel()
	type changes = []history.Change
	does := func(do string, last int64) changes {
		return changes{{Do: do, Schedule: storyKey, LastMS: storyWall(last)}}
	}
	off := does(history.DoDisable, 1020)
	byHand := taken(4100, "a", "0-a", 0)
	byHand[1].LastMS = storyWall(1020)
	for name, c := range map[string]struct {
		does  map[int64]changes // by batch, in place of what the story's do
		says  string            // "": all is well
		named string
	}{
		"disabled by one owner, enabled by the next":    {map[int64]changes{1300: off, 2022: nil, 4100: does(history.DoEnable, 4100)}, "", ""},
		"fired by hand while it is disabled":            {map[int64]changes{1300: off, 2022: nil, 4100: byHand, 4300: does(history.DoEnable, 4300)}, "", ""},
		"disabled by one owner, fired by the next":      {map[int64]changes{1300: off, 2022: nil, 5510: nil}, "fires, though it is disabled", "switch-in-memory"},
		"disabled by one owner, fired by it":            {map[int64]changes{1300: off, 4100: nil, 5030: nil, 5510: nil}, "fires, though it is disabled", "switch-in-memory"},
		"enabled by the next, and nobody disabled it":   {map[int64]changes{4300: does(history.DoEnable, 4300)}, "nobody has disabled it", "switch-in-memory"},
		"enabled, and fires for the time that was lost": {map[int64]changes{1300: off, 2022: nil, 4100: does(history.DoEnable, 1020), 4300: fire(2, 3, 4)}, "is enabled and stands at", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newStory()
			y.extra = c.does
			y.does(c.does)
			if slices.ContainsFunc(c.does[4100], func(x history.Change) bool { return x.Do == history.DoTrigger }) {
				y.ask(4050, "a", past.ResultApplied)
			}
			y.judged(t, c.says, c.named)
		})
	}
}

// does has batches of the story do something else.
func (y *recurringStory) does(what map[int64][]history.Change) {
	y.change = func(at int64, e *history.Event) {
		if changed, ok := what[at]; ok {
			e.OwnDetails().Changes = changed
		}
	}
}

// judged tells the story: P12 must say what is wrong with it, "" if all is well, and an explanation
// name the mechanism.
func (y *recurringStory) judged(t *testing.T, says, named string) {
	t.Helper()
	h := y.tell()
	r := Check(context.Background(), h, Options{})
	p := propertyOf(r, "P12")
	said := says == ""
	for _, v := range p.Violations {
		said = said || strings.Contains(v.Message, says)
	}
	if (p.Status == StatusFail) != (says != "") || !said {
		t.Errorf("P12 is %s, want it to say %q: %s %+v", p.Status, says, p.Detail, p.Violations)
	}
	if says == "" && len(failing(r)) > 0 {
		t.Errorf("%v fail: %s", failing(r), r.Summary)
	}
	if best := Explain(h, r, Options{}).Best(); named != "" && !slices.Contains(best, named) {
		t.Errorf("named %v, want %s", best, named)
	}
}
