package checker

import (
	"context"
	"slices"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// ask is a client's call that triggers the schedule of the story by hand, and its answer: a result, or
// "" for a refusal.
func (y *recurringStory) ask(from int64, name, result string) {
	end, kind := history.Event{Result: result}, history.OK
	if result == "" {
		end, kind = history.Event{Error: "the occurrence before has not ended"}, history.Fail
	}
	s := &history.Schedule{Queue: "jobs", Shard: storyShard, Do: history.DoTrigger, Trigger: name}
	y.op(from, from+20, "w2.1/t"+name+result, kind, history.Event{Op: history.OpSchedule, Key: y.asked, Details: &history.Details{Schedule: s}}, end)
}

// taken is what a batch does that takes a trigger; job "": it waits.
func taken(at int64, name, job string, waiting int) []history.Change {
	take := history.Change{Do: history.DoTrigger, Schedule: storyKey, NominalMS: storyWall(at), Trigger: name, LastMS: storyWall(lastBefore(at)), Waiting: waiting}
	if job == "" {
		return []history.Change{take}
	}
	return []history.Change{{Job: job, Do: history.DoEnqueue, DueMS: storyWall(at), Schedule: storyKey, NominalMS: storyWall(at), Trigger: name}, take}
}

// lastBefore is the last nominal time of the story that was fired before an instant.
func lastBefore(at int64) int64 { return storyFirst + (at-storyFirst)/1000*1000 }

// TestTriggers: P12 passes triggers that are right, and says what is wrong with others.
func TestTriggers(t *testing.T) {
	t.Parallel()
	type changes = []history.Change
	takes := func(what map[int64]changes, asks func(y *recurringStory)) func(*recurringStory) {
		return func(y *recurringStory) {
			asks(y)
			y.extra = what
		}
	}
	asked := func(results ...string) func(*recurringStory) {
		return func(y *recurringStory) {
			for i, r := range results {
				y.ask(1290+int64(i)*3000, "a", r)
			}
		}
	}
	skips := func(f func(*recurringStory)) func(*recurringStory) {
		return func(y *recurringStory) {
			y.form = func(_ int, s *history.Schedule) {
				s.Kind, s.Overlap, s.Misfire, s.GraceMS, s.WindowMS = "fixed_rate", "skip", "skip", 100, 0
			}
			f(y)
		}
	}
	edit := func(c changes, f func(c changes) changes) changes { return f(c) }
	once := taken(1300, "a", "0-a", 0)
	for name, c := range map[string]struct {
		change func(*recurringStory)
		says   string // "": all is well
		named  string
	}{
		"once":                               {takes(map[int64]changes{1300: once}, asked("applied")), "", ""},
		"asked for twice, fired once":        {takes(map[int64]changes{1300: once}, asked("applied", "duplicate")), "", ""},
		"two names":                          {takes(map[int64]changes{1300: once, 4300: taken(4300, "b", "0-b", 0)}, func(y *recurringStory) { asked("applied")(y); y.ask(4290, "b", "applied") }), "", ""},
		"refused, and nothing comes of it":   {takes(nil, asked("")), "", ""},
		"asked for twice, fired twice":       {takes(map[int64]changes{1300: once, 4300: taken(4300, "a", "0-b", 0)}, asked("applied", "applied")), "again, which had job 0-a", "trigger-repeated"},
		"acknowledged twice, done once":      {takes(map[int64]changes{1300: once}, asked("applied", "applied")), "what it asks for is lost", ""},
		"acknowledged, and nothing comes":    {takes(nil, asked("applied")), "what it asks for is lost", ""},
		"told that it was there, and is not": {takes(nil, asked("duplicate")), "as one that had been taken before", ""},
		"refused, and fired":                 {takes(map[int64]changes{1300: once}, asked("")), "and asked for never", ""},
		"of nobody":                          {takes(map[int64]changes{1300: once}, asked()), "and asked for never", ""},
		"not fired":                          {takes(map[int64]changes{1300: once[1:]}, asked("applied")), "though nothing is in its way", ""},
		"an enable that nothing does":        {func(y *recurringStory) { y.command(5540, 5560, history.DoEnable, past.ResultApplied) }, "to enable schedule", "command-not-carried-out"},
		"moves the nominal times": {takes(map[int64]changes{1300: edit(taken(1300, "a", "0-a", 0), func(c changes) changes {
			c[1].LastMS = storyWall(1300)
			return c
		})}, asked("applied")), "a trigger changes none of these", ""},
		"at another time": {takes(map[int64]changes{1300: edit(taken(1300, "a", "0-a", 0), func(c changes) changes {
			c[0].NominalMS, c[1].NominalMS = c[0].NominalMS-7, c[1].NominalMS-7
			return c
		})}, asked("applied")), "when its owner's clock showed", ""},
		"beside another that forbids it": {skips(takes(map[int64]changes{1300: once}, asked("applied"))), "fires its trigger a", "overlap-not-kept"},
		"waits where it must be refused": {skips(takes(map[int64]changes{1300: taken(1300, "a", "", 1)}, asked("applied"))), "it must be refused", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newStory()
			c.change(y)
			h := y.tell()
			r := Check(context.Background(), h, Options{})
			p := propertyOf(r, "P12")
			said := c.says == ""
			for _, v := range p.Violations {
				said = said || strings.Contains(v.Message, c.says)
			}
			if (p.Status == StatusFail) != (c.says != "") || !said {
				t.Errorf("P12 is %s, want it to say %q: %s %+v", p.Status, c.says, p.Detail, p.Violations)
			}
			if c.says == "" && len(failing(r)) > 0 {
				t.Errorf("%v fail: %s", failing(r), r.Summary)
			}
			if best := Explain(h, r, Options{}).Best(); c.named != "" && !slices.Contains(best, c.named) {
				t.Errorf("named %v, want %s", best, c.named)
			}
		})
	}
}

// TestTriggersWait: a trigger that waits fires when the occurrence before it has ended; one that
// was passed over when the schedule was stopped need not.
func TestTriggersWait(t *testing.T) {
	t.Parallel()
	s := &past.Schedule{}
	if s.Waits() {
		t.Error("nothing waits")
	}
	s.Queue = []past.Occurrence{{Nominal: 7, Trigger: "a"}}
	if !s.Waits() {
		t.Error("a waits, and none is in its way")
	}
	s.Active = past.Occurrence{Nominal: 3}
	if s.Waits() {
		t.Error("an occurrence is in its way")
	}
}
