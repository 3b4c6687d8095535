package checker

import (
	"context"
	"slices"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// backoffStory is a history written by hand: job a fails, waits for its backoff of 1 s and is run
// again. Times are in ms.
type backoffStory struct {
	*sequenceStory
	policy *history.Retry
	// most is how long a run may take; took is how long the first one does.
	most, took int64
	max        int    // attempts
	why        string // its first run fails
	due, again int64  // when its retry is due, and claimed
	slow       int64  // by how much its owner is late to write that
	dead       bool   // it is given up instead
	by         string // who claims it again
	ahead      int64  // by how much the wall clock of who claims it is ahead then
}

func newBackoff() *backoffStory {
	return &backoffStory{sequenceStory: newSequence(), policy: &history.Retry{BaseMS: 1000, Factor: 2, MaxMS: 4000},
		most: 1000, took: 10, max: 3, why: "the handler failed", due: 1071, again: 1080, by: "w1.1"}
}

// run is one of the job's.
func (y *backoffStory) run(at, took int64, proc, why string, c history.Change, lead int64) {
	y.batch(at, proc, history.OpTick, c)
	y.note(at+10, proc+"/r1", history.Event{Op: history.NoteStart, Key: c.Job, Issuer: storyShard, Token: c.Run, DecidedAt: (at+9)*1e6 + 1e9,
		Details: &history.Details{Attempt: c.Attempt, DueMS: c.DueMS, WallMS: storyWall(at+9) + lead}})
	y.note(at+10+took, proc+"/r1", history.Event{Op: history.NoteFinish, Key: c.Job, Issuer: storyShard, Token: c.Run, Error: why})
}

func (y *backoffStory) tell() *history.History {
	job := history.Job{Queue: "jobs", Shard: storyShard, Kind: "k", Resource: "job/jobs/0-a", MaxAttempts: y.max, Retry: y.policy, MaxDurationMS: y.most}
	y.op(10, 30, "w2.1/e1", history.OK, history.Event{Op: history.OpEnqueue, Key: "0-a", Details: &history.Details{Job: &job}}, history.Event{Result: past.ResultApplied})
	y.batch(1, "w1.1", history.OpTake)
	y.batch(20, "w1.1", history.OpTick, enqueued("0-a", "", 20))
	one := sequenceRun(1, 1)
	y.run(50, y.took, "w1.1", y.why, history.Change{Job: "0-a", Do: history.DoClaim, Run: one, Attempt: 1, DueMS: storyWall(20)}, 0)
	end := history.Change{Job: "0-a", Do: history.DoRetry, Run: one, Attempt: 1, DueMS: storyWall(y.due + y.took - 10)}
	if y.dead {
		end.Do, end.DueMS = history.DoDLQ, 0
	}
	y.batch(65+y.took+y.slow, "w1.1", history.OpTick, end)
	row := history.JobRow{State: past.StateDLQ, Run: one, Attempt: 1}
	fence := int64(1)
	if y.by == "w2.1" {
		y.batch(200, "w1.1", history.OpHandOver)
		y.batch(210, "w2.1", history.OpTake)
		fence = 2
	}
	if !y.dead {
		two := sequenceRun(fence, 2)
		due := min(end.DueMS, storyWall(y.again+y.took-10)+y.ahead)
		y.run(y.again+y.took-10, 10, y.by, "", history.Change{Job: "0-a", Do: history.DoClaim, Run: two, Attempt: 2, DueMS: due}, y.ahead)
		y.batch(y.again+y.took+60, y.by, history.OpTick, history.Change{Job: "0-a", Do: history.DoComplete, Run: two, Attempt: 2})
		row = history.JobRow{State: past.StateCompleted, Run: two, Attempt: 2}
	}
	y.finish(max(5600, y.again+y.took+100), row)
	return y.h
}

// finish hands the shard over, and seals it.
func (y *backoffStory) finish(at int64, row history.JobRow) {
	y.batch(at, y.by, history.OpHandOver)
	for _, life := range []string{"w1.1", "w2.1"} {
		y.note(at+100, life, history.Event{Op: history.NoteExit})
	}
	from, to := y.head, history.Version{Fence: y.head.Fence + 1, Beat: y.head.Beat + 1, Attempt: "seal"}
	y.op(at+200, at+210, history.Harness, history.OK, history.Event{Op: history.OpSeal, Key: storyShard, From: &from, To: &to}, history.Event{})
	y.op(at+220, at+230, history.Harness, history.OK, history.Event{Op: history.OpRead, Key: storyShard}, history.Event{Row: &to})
	place := row
	row.Kind, place.Kind, place.State = history.RowJob, past.RowKindOf(row.State), ""
	for _, r := range []history.JobRow{row, place} {
		y.note(at+240, history.Harness, history.Event{Op: history.NoteRow, Key: "0-a", Issuer: storyShard, Details: &history.Details{JobRow: &r}})
	}
	slices.SortStableFunc(y.h.Events, func(a, b history.Event) int { return int(a.TS - b.TS) })
	for i := range y.h.Events {
		y.h.Events[i].File, y.h.Events[i].Line = "tiny.jsonl", i+2
	}
}

// setAsItFails: the harness notes between start and end of the first run that the host's clock was set
// by so much, and the retry is due later by so much.
func setAsItFails(noted, late int64) func(*backoffStory) {
	return func(y *backoffStory) {
		y.note(65, history.Harness, history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{OffsetMS: noted}}})
		y.due, y.again = y.due+late, y.again+late
	}
}

// TestBackoffAndLimits: retries keep their time and runs end at theirs, and what does not is found
// and named.
func TestBackoffAndLimits(t *testing.T) {
	t.Parallel()
	const early, late, other, jitter = "backoff-ignored", "run-not-ended", "delay-of-another-attempt", "jitter-ignored"
	for name, c := range map[string]struct {
		change func(*backoffStory)
		says   string // "": all is well
		named  string
	}{
		"as it should be":          {func(*backoffStory) {}, "", ""},
		"due at once":              {func(y *backoffStory) { y.due, y.again = 75, 1080 }, "it is made due after", early},
		"claimed before it is due": {func(y *backoffStory) { y.again = 500 }, "the claim as run", ""},
		"half of its backoff":      {func(y *backoffStory) { y.due, y.again = 571, 580 }, "after 1 failed attempt it waits for 1000 ms at least", early},
		"less by its jitter":       {func(y *backoffStory) { y.policy.Jitter, y.due, y.again = 0.5, 571, 580 }, "", ""},
		"less than its jitter":     {func(y *backoffStory) { y.policy.Jitter, y.due, y.again = 0.2, 571, 580 }, "waits for 800 ms at least", early},
		"a list of delays": {func(y *backoffStory) {
			y.policy = &history.Retry{DelaysMS: []int64{100, 5000}}
			y.due, y.again = 175, 190
		}, "", ""},
		"a delay of the second attempt":                     {func(y *backoffStory) { y.policy = &history.Retry{DelaysMS: []int64{2000, 0}} }, "2000 ms at least", early},
		"longer than its backoff":                           {func(y *backoffStory) { y.due, y.again = 2071, 2080 }, "after 1 failed attempt it waits for 1000 ms at most, and it is made due after 1996 ms", "backoff-exceeded"},
		"longer by its jitter":                              {func(y *backoffStory) { y.policy.Jitter, y.due, y.again = 0.5, 1571, 1580 }, "", ""},
		"its owner is late to write it":                     {func(y *backoffStory) { y.slow, y.due, y.again = 700, 1771, 1780 }, "", ""},
		"longer than its jitter":                            {func(y *backoffStory) { y.policy.Jitter, y.due, y.again = 0.1, 1271, 1280 }, "waits for 1100 ms at most", jitter},
		"a little too short":                                {func(y *backoffStory) { y.due, y.again = 951, 960 }, "waits for 1000 ms at least", jitter},
		"a little too short, and within the slack":          {func(y *backoffStory) { y.due, y.again = 1031, 1040 }, "", ""},
		"the delay of the second attempt, which is shorter": {func(y *backoffStory) { y.policy = &history.Retry{DelaysMS: []int64{3000, 1000}} }, "waits for 3000 ms at least", other},
		"the delay of the second attempt, which is longer":  {func(y *backoffStory) { y.policy = &history.Retry{DelaysMS: []int64{200, 1000}} }, "waits for 200 ms at most", other},
		"a list of one delay":                               {func(y *backoffStory) { y.policy = &history.Retry{DelaysMS: []int64{1000}, BaseMS: 1} }, "", ""},
		"a policy that nobody says":                         {func(y *backoffStory) { y.policy, y.due, y.again = nil, 75, 90 }, "", ""},
		"interrupted: at once":                              {func(y *backoffStory) { y.why, y.due, y.again = "job: interrupted: its worker stops", 75, 90 }, "", ""},
		"not to be run here: it waits too":                  {func(y *backoffStory) { y.why, y.due, y.again = "not to be run by this process: no", 75, 90 }, "waits for 1000 ms", early},
		"the next owner keeps to it":                        {func(y *backoffStory) { y.by = "w2.1" }, "", ""},
		"the next owner forgets it":                         {func(y *backoffStory) { y.by, y.again = "w2.1", 400 }, "it waited for", early},
		"the next owner's clock is ahead":                   {func(y *backoffStory) { y.by, y.again, y.ahead = "w2.1", 400, 700 }, "", ""},
		"its host's clock is set back meanwhile":            {func(y *backoffStory) { y.again, y.ahead = 1300, -200 }, "", ""},
		"its host's clock is set ahead meanwhile":           {func(y *backoffStory) { y.again, y.ahead = 1080, 200 }, "", ""},
		"its host's clock is set back, and it waits longer": {func(y *backoffStory) { y.due, y.again, y.ahead = 2071, 2300, -200 }, "it is made due after 1996 ms", "backoff-exceeded"},
		"somebody sets its host's clock as it fails":        {setAsItFails(3000, 2000), "", ""},
		"the host's clock is slewed":                        {setAsItFails(100, 2000), "after 1 failed attempt it waits for 1000 ms at most, and it is made due after 2996 ms", "backoff-exceeded"},
		"given up too early":                                {func(y *backoffStory) { y.dead = true }, "gives it up after 1 of 3 attempts", ""},
		"given up after its last attempt":                   {func(y *backoffStory) { y.dead, y.max = true, 1 }, "", ""},
		"given up as its handler asks for it":               {func(y *backoffStory) { y.dead, y.why = true, "not to be tried again: no" }, "", ""},
		"one attempt more than it may have":                 {func(y *backoffStory) { y.max = 1 }, "for attempt 2 of at most 1", ""},
		"a run that is ended late":                          {func(y *backoffStory) { y.took = 15_000 }, "", ""},
		"a run that is not ended":                           {func(y *backoffStory) { y.took = 17_000 }, "took 17000 ms, though it may take 1000 ms", late},
		"a long run that may take so long":                  {func(y *backoffStory) { y.took, y.most = 17_000, 20_000 }, "", ""},
		"a long run under a fault": {func(y *backoffStory) {
			y.took = 17_000
			y.fault("f1", "pause-worker", 100, 17_000, "w1")
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newBackoff()
			c.change(y)
			h := y.tell()
			r := Check(context.Background(), h, Options{})
			said := c.says == ""
			for _, p := range r.Properties {
				for _, v := range p.Violations {
					said = said || strings.Contains(v.Message, c.says)
				}
			}
			if well := !slices.ContainsFunc(failing(r), func(id string) bool { return id == "P12" || id == "P5" || id == "P2" }); well != (c.says == "") || !said {
				t.Errorf("failing %v, want %q: %+v", failing(r), c.says, propertyOf(r, "P12").Violations)
			}
			if best := Explain(h, r, Options{}).Best(); c.named != "" && !slices.Contains(best, c.named) {
				t.Errorf("named %v, want %s (%s)", best, c.named, property.MechanismByID[c.named].Statement)
			}
		})
	}
}

// TestRescues: of a run that is cut short, the job's policy says whether another one follows. One
// that fails by itself is retried whatever it says.
func TestRescues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		once, abandoned bool
		says            string // "": all is well
	}{
		"rescued":                           {false, false, ""},
		"abandoned, as it may run once":     {true, true, ""},
		"rescued, and may run once":         {true, false, "it may have at most one run that is"},
		"abandoned, though it is to be run": {false, true, "it must be run again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newSequence()
			one, two := sequenceRun(1, 1), sequenceRun(2, 1)
			var first *history.Job
			y.each = func(n int, j *history.Job) {
				switch n {
				case 0:
					first, j.AtMostOnce, j.MaxAttempts = j, c.once, 3
				case 2:
					first.Then = nil
				}
			}
			rescue := history.Change{Job: "0-a", Do: history.DoRescue, Run: one, Attempt: 1, DueMS: storyWall(3520)}
			again := []sequenceStep{
				{at: 3540, proc: "w2.1", op: history.OpTick, changes: []history.Change{{Job: "0-a", Do: history.DoClaim, Run: two, Attempt: 2}}},
				{at: 3600, proc: "w2.1", op: history.OpTick, changes: []history.Change{{Job: "0-a", Do: history.DoComplete, Run: two, Attempt: 2}}},
			}
			if c.abandoned {
				rescue.Do, rescue.DueMS, again = history.DoAbandon, 0, nil
			}
			s := sequenceSteps()
			s = append(s[:3:3], s[6], sequenceStep{at: 3520, proc: "w2.1", op: history.OpTick, changes: []history.Change{rescue}})
			h := y.tell(append(append(s, again...), sequenceSteps()[9]))
			r := Check(context.Background(), h, Options{})
			if v := propertyOf(r, "P5").Violations; (c.says != "") != (len(v) > 0) || len(v) > 0 && !strings.Contains(v[0].Message, c.says) {
				t.Errorf("want %q: %+v", c.says, v)
			}
			if best := Explain(h, r, Options{}).Best(); c.once && !c.abandoned && !slices.Equal(best, []string{"cut-run-repeated"}) {
				t.Errorf("named %v", best)
			}
		})
	}
}
