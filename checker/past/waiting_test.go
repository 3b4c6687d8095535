package past

import (
	"slices"
	"strings"
	"testing"

	"fencepost/harness/record/history"
)

func TestRecoveryBound(t *testing.T) {
	t.Parallel()
	a := New(&history.History{}, false)
	if got := a.TakeoverBound(6e9); got != 6e9+750e6+5e9+3e9 {
		t.Errorf("default: %d", got)
	}
	a.Expects = []*history.Event{{Details: &history.Details{Expect: &history.Expect{RecoveryBoundMS: 900}}}}
	if got := a.TakeoverBound(6e9); got != 6e9+750e6+900e6 {
		t.Errorf("named: %d", got)
	}
}

// TestHandOvers: a process that takes or claims later has moved a shard, and goes on contending;
// one that does not has stopped.
func TestHandOvers(t *testing.T) {
	t.Parallel()
	a := New(&history.History{}, false)
	row := func(events ...history.Event) {
		l := &Row{}
		for i := range events {
			events[i].Proc += "/jobs:0"
			l.CAS = append(l.CAS, &CAS{Op: Op{Invoke: &events[i]}})
		}
		a.Rows = append(a.Rows, l)
		for _, e := range events {
			life := history.Life(e.Proc)
			a.Lives[life] = &Life{Recording: true, last: 50}
		}
	}
	claim := &history.Details{Changes: []history.Change{{Job: "0-a", Do: history.DoClaim}}}
	row(history.Event{Proc: "w1.1", Op: history.OpTake, TS: 1}, history.Event{Proc: "w1.1", Op: history.OpHandOver, TS: 5},
		history.Event{Proc: "w2.1", Op: history.OpTake, TS: 6}, history.Event{Proc: "w2.1", Op: history.OpTick, TS: 7, Details: claim},
		history.Event{Proc: "w2.1", Op: history.OpHandOver, TS: 20})
	row(history.Event{Proc: "w1.1", Op: history.OpTake, TS: 2}, history.Event{Proc: "w1.1", Op: history.OpTick, TS: 9, Details: claim},
		history.Event{Proc: "w1.1", Op: history.OpHandOver, TS: 11})
	want := []HandOver{{"w1.1", 5, true}, {"w2.1", 20, false}, {"w1.1", 11, false}}
	if got := a.HandOvers(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	a.Stopped = 100
	until := map[string]int64{}
	for _, w := range a.contending() {
		until[w.Life] = w.To
	}
	if until["w1.1"] != 11 || until["w2.1"] != 20 {
		t.Errorf("they contend until %v", until)
	}
}

// TestAttempts: what P5 says of a job of two attempts that is claimed again, or given up by
// the owner of its last run, by how its runs have ended.
func TestAttempts(t *testing.T) {
	t.Parallel()
	const (
		failed  = "boom"
		stopped = InterruptedPrefix + ": its worker stops"
		foreign = NotHerePrefix + ": no handler"
		cut     = "cut short by a takeover"
		never   = "never began"
		open    = "began, and its end is not known"
	)
	many := func(n int, end string) (ends []string) {
		for range n {
			ends = append(ends, end)
		}
		return ends
	}
	for name, c := range map[string]struct {
		ends   []string
		claims string // what is said of one more claim, "": nothing
		dlq    string // of giving it up with the last of them
	}{
		"failed once":                    {many(1, failed), "", "after 1 of 2 attempts and 0 runs"},
		"failed twice":                   {many(2, failed), "attempt 3 of at most 2", ""},
		"failed once, then interrupted":  {[]string{failed, stopped}, "", "after 1 of 2 attempts and 1 run that"},
		"interrupted, then failed once":  {[]string{stopped, failed}, "", "after 1 of 2 attempts and 1 run that"},
		"interrupted, then failed twice": {[]string{stopped, failed, failed}, "attempt 4 of at most 2, and 1", ""},
		"cut short twice":                {many(2, cut), "", "after 0 of 2 attempts and 2 runs"},
		"not here, never began":          {[]string{foreign, never}, "", "after 0 of 2 attempts and 2 runs"},
		"its end not known":              {many(2, open), "attempt 3 of at most 2", "had not finished"},
		"as often as it may":             {many(20, stopped), "", "after 0 of 2 attempts and 20 runs"},
		"once too often":                 {many(21, stopped), "again after 21 runs", ""},
		"cut short once too often":       {many(21, cut), "again after 21 runs", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := int64(len(c.ends))
			j := &Job{JobRef: JobRef{"shard/q/0", "a"}, Spec: &history.Job{MaxAttempts: 2}, Finishes: map[int64]*history.Event{}}
			batch := func(at, fence int64) *Write {
				return &Write{To: &Version{Version: &history.Version{Fence: fence}}, Ops: []*CAS{{Op: Op{Invoke: &history.Event{TS: 10 * at}, Outcome: history.OK}}}}
			}
			fence := func(n int64) int64 { // of the n-th run: each that is cut short is the last of its owner
				f := int64(1)
				for _, end := range c.ends[:n-1] {
					if end == cut {
						f++
					}
				}
				return f
			}
			steps := []JobStep{{batch(0, 1), &history.Change{Do: history.DoEnqueue}}}
			for n := int64(1); n <= last; n++ {
				end, run := c.ends[n-1], fence(n)<<32|n
				if end != never {
					j.Starts = append(j.Starts, &history.Event{TS: 10*n + 1, Token: run})
				}
				if end != never && end != open && end != cut {
					j.Finishes[run] = &history.Event{TS: 10*n + 2, Token: run, Error: end}
				}
				back := &history.Change{Do: history.DoRetry, Run: run, Attempt: int(n)}
				w := batch(n+1, fence(n))
				if end == cut {
					back.Do, w = history.DoRescue, batch(n+1, fence(n)+1)
				}
				steps = append(steps, JobStep{batch(n, fence(n)), &history.Change{Do: history.DoClaim, Run: run, Attempt: int(n)}}, JobStep{w, back})
			}
			for _, x := range []struct {
				do    string
				steps []JobStep
				was   JobState
				says  string
			}{
				{history.DoClaim, steps, JobState{Name: StatePending, Attempt: int(last)}, c.claims},
				{history.DoDLQ, steps[:len(steps)-1], JobState{Name: StateRunning, Attempt: int(last), Run: steps[len(steps)-1].Change.Run}, c.dlq},
			} {
				a := &Past{Jobs: newJobs()}
				r := &Replay{a: a, l: &Row{Name: "shard/q/0"}, refusals: map[string]int64{}}
				j.Steps = x.steps
				change := *steps[len(steps)-1].Change
				if change.Do = x.do; x.do == history.DoClaim {
					change.Attempt++
				}
				r.judgeEnd(j, x.was, steps[len(steps)-1].Write, &change)
				var got []string
				for _, f := range a.Jobs.Found["P5"] {
					got = append(got, f.Message)
				}
				if said := strings.Join(got, "; "); (said == "") != (x.says == "") || !strings.Contains(said, x.says) {
					t.Errorf("%s: %q, want %q", x.do, said, x.says)
				}
			}
		})
	}
}
