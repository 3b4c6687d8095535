package checker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// recurringStory is a history written by hand: a schedule on one shard fires each
// second from 20 on; its owner is killed at 2500, and another takes the shard over,
// fires what has come due since then, and goes on until the schedule is disabled. Its
// jobs stay pending. Times are in ms.
type recurringStory struct {
	*tiny
	head history.Version
	n    int
	pend []history.Change // enqueued
	skip func(history.Change) bool
	// asked and window are what clients say of the schedule.
	asked  string
	window int64
	// form changes what the n-th put asks for.
	form func(n int, s *history.Schedule)
	puts int
	// change is applied to each batch's changes and wall clock, by when it is sent.
	change func(at int64, e *history.Event)
	// extra are batches of the first owner beside the story's, and of the second after it has taken the
	// shard, by when they are sent.
	extra map[int64][]history.Change
}

const (
	storyShard = "shard/jobs/0"
	storyKey   = "every-0"
	storyFirst = 20 // of the nominal times
)

func storyWall(at int64) int64 { return simWall + at }

// batch is one that takes effect.
func (y *recurringStory) batch(at int64, proc string, op history.Op, changes ...history.Change) {
	from := y.head
	y.n++
	to := history.Version{Fence: from.Fence, Beat: from.Beat + 1, Attempt: fmt.Sprint("n", y.n)}
	e := history.Event{Op: op, Key: storyShard, From: &from, To: &to, Details: &history.Details{Changes: changes}}
	if op == history.OpTake {
		to.Fence++
		e.OwnDetails().TTLMS = tinyTTL
	}
	if len(changes) > 0 {
		e.OwnDetails().WallMS = storyWall(at)
	}
	if y.change != nil {
		y.change(at, &e)
	}
	for _, c := range e.Changes() {
		if c.Do == history.DoEnqueue {
			y.pend = append(y.pend, c)
		}
	}
	y.op(at, at+5, proc+"/jobs:0", history.OK, e, history.Event{Sends: []int64{(at+1)*1e6 + 1e9}})
	y.head = to
}

// fire is what a batch does that fires the n-th nominal times.
func fire(ns ...int64) (out []history.Change) {
	var last int64
	for _, n := range ns {
		last = storyWall(storyFirst + 1000*n)
		out = append(out, history.Change{Job: fmt.Sprint("0-", n), Do: history.DoEnqueue, DueMS: last, Schedule: storyKey, NominalMS: last})
	}
	return append(out, history.Change{Do: history.DoFire, Schedule: storyKey, LastMS: last})
}

// command is a client's call that is answered.
func (y *recurringStory) command(from, to int64, do, result string) {
	s := &history.Schedule{Queue: "jobs", Shard: storyShard, Do: do}
	if do == history.DoPut {
		s.EveryMS, s.WindowMS = 1000, y.window
		s.Job = &history.Job{Queue: "jobs", Shard: storyShard, Kind: "k", Resource: "job/jobs/", MaxAttempts: 3}
		if y.form != nil {
			y.form(y.puts, s)
		}
		y.puts++
	}
	y.op(from, to, fmt.Sprintf("w2.1/s%d", from), history.OK, history.Event{Op: history.OpSchedule, Key: y.asked, Details: &history.Details{Schedule: s}}, history.Event{Result: result})
}

// also is a batch of extra.
func (y *recurringStory) also(at int64, proc string) {
	if c := y.extra[at]; len(c) > 0 {
		y.batch(at, proc, history.OpTick, c...)
	}
}

func (y *recurringStory) tell() *history.History {
	y.batch(1, "w1.1", history.OpTake)
	y.command(10, 30, history.DoPut, past.ResultApplied)
	y.batch(storyFirst, "w1.1", history.OpTick, history.Change{Do: history.DoPut, Schedule: storyKey, LastMS: storyWall(storyFirst) - 1})
	y.command(40, 50, history.DoPut, past.ResultDuplicate)
	y.batch(60, "w1.1", history.OpTick, fire(0)...)
	y.batch(1025, "w1.1", history.OpTick, fire(1)...)
	y.also(1300, "w1.1")
	y.batch(2022, "w1.1", history.OpTick, fire(2)...)
	y.note(2500, history.Harness, history.Event{Op: history.NoteCrash, Error: "SIGKILL"})
	y.h.Events[len(y.h.Events)-1].Proc = "w1.1"
	y.batch(3500, "w2.1", history.OpTake)
	y.batch(4100, "w2.1", history.OpTick, fire(3, 4)...)
	y.also(4300, "w2.1")
	y.batch(5030, "w2.1", history.OpTick, fire(5)...)
	y.command(5500, 5520, history.DoDisable, past.ResultApplied)
	y.batch(5510, "w2.1", history.OpTick, history.Change{Do: history.DoDisable, Schedule: storyKey, LastMS: storyWall(5020)})
	y.batch(5600, "w2.1", history.OpHandOver)
	y.note(5700, "w2.1", history.Event{Op: history.NoteExit})
	from, to := y.head, history.Version{Fence: y.head.Fence + 1, Beat: y.head.Beat + 1, Attempt: "seal"}
	y.op(5800, 5810, history.Harness, history.OK, history.Event{Op: history.OpSeal, Key: storyShard, From: &from, To: &to}, history.Event{})
	y.op(5820, 5830, history.Harness, history.OK, history.Event{Op: history.OpRead, Key: storyShard}, history.Event{Row: &to})
	for _, c := range y.pend {
		if y.skip != nil && y.skip(c) {
			continue
		}
		for _, row := range []history.JobRow{{Kind: history.RowJob, State: past.StatePending, DueMS: c.DueMS}, {Kind: history.RowPending, DueMS: c.DueMS}} {
			y.note(5840, history.Harness, history.Event{Op: history.NoteRow, Key: c.Job, Issuer: storyShard, Details: &history.Details{JobRow: &row}})
		}
	}
	slices.SortStableFunc(y.h.Events, func(a, b history.Event) int { return int(a.TS - b.TS) })
	for i := range y.h.Events {
		y.h.Events[i].File, y.h.Events[i].Line = "tiny.jsonl", i+2
	}
	return y.h
}

func newStory() *recurringStory {
	y := &recurringStory{tiny: newTiny("w1.1", "w2.1"), head: history.Version{Attempt: "n0"}, asked: storyKey, window: 60_000}
	for i := range y.h.Headers {
		y.h.Headers[i].TS, y.h.Headers[i].WallTime = 1e9, time.UnixMilli(simWall).UTC().Format(time.RFC3339Nano)
	}
	return y
}

// edited changes what the batch of an instant does.
func edited(when int64, f func(e *history.Event)) func(*recurringStory) {
	return func(y *recurringStory) {
		y.change = func(at int64, e *history.Event) {
			if at == when {
				f(e)
			}
		}
	}
}

// hostSet: from 3500 on the owners' wall clock shows so much more, and the harness notes at an
// instant, unless that is 0, by how much somebody has set the host's.
func hostSet(by, at, noted int64) func(*recurringStory) {
	return func(y *recurringStory) {
		y.change = func(at int64, e *history.Event) {
			if at < 3500 || by == 0 {
				return
			}
			if e.WallMS() > 0 {
				e.OwnDetails().WallMS += by
			}
			switch at {
			case 4100:
				e.OwnDetails().Changes = fire(3, 4, 5)
			case 5030:
				e.OwnDetails().Changes = fire(6)
			case 5510:
				e.Changes()[0].LastMS = storyWall(6020)
			}
		}
		if at > 0 {
			y.note(at, history.Harness, history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{OffsetMS: noted}}})
		}
	}
}

// standsStill: the schedule does not fire any more after a fault made a clock so.
func standsStill(c history.Clock) func(*recurringStory) {
	return func(y *recurringStory) {
		y.change = func(at int64, e *history.Event) {
			if at == 4100 || at == 5030 {
				e.OwnDetails().Changes = nil
			} else if at == 5510 {
				e.Changes()[0].LastMS, e.OwnDetails().WallMS = storyWall(2020), e.WallMS()+900
			}
		}
		y.expect(history.Expect{RecoveryBoundMS: 10})
		if c != (history.Clock{}) {
			y.note(2600, "w2.1", history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &c}})
		}
	}
}

// TestScheduleTimes: P12 passes what a schedule did right, and says what it did wrong.
func TestScheduleTimes(t *testing.T) {
	t.Parallel()
	last := func(f func(c *history.Change)) func(e *history.Event) {
		return func(e *history.Event) { f(&e.Changes()[len(e.Changes())-1]) }
	}
	for name, c := range map[string]struct {
		change func(*recurringStory)
		says   string // "": all is well
	}{
		"as it should be":                        {func(*recurringStory) {}, ""},
		"an owner whose clock is a little ahead": {edited(1025, func(e *history.Event) { e.OwnDetails().WallMS += 500 }), ""},
		"late by less than the window":           {edited(4100, func(e *history.Event) { e.OwnDetails().WallMS -= 70 }), ""},
		"missed, too late for the window": {func(y *recurringStory) {
			edited(4100, func(e *history.Event) {
				e.OwnDetails().Changes = fire(4)
				e.Changes()[1].Missed = 1
			})(y)
			y.window = 500
		}, ""},
		"fired too late for the window":      {func(y *recurringStory) { y.window = 500 }, "more than 500 are to be missed"},
		"a nominal time that is left out":    {edited(4100, func(e *history.Event) { e.OwnDetails().Changes = fire(4) }), "has 2 nominal times"},
		"missed in time":                     {edited(4100, func(e *history.Event) { e.OwnDetails().Changes = fire(4); e.Changes()[1].Missed = 1 }), "misses its nominal time"},
		"more missed than there are":         {edited(4100, func(e *history.Event) { e.OwnDetails().Changes = fire(3, 4); e.Changes()[2].Missed = 90 }), "misses its nominal time"},
		"fired by a clock that is far ahead": {edited(2022, func(e *history.Event) { e.OwnDetails().WallMS += 1500 }), "was planned when its owner's clock showed"},
		"fired before its time":              {edited(2022, func(e *history.Event) { e.OwnDetails().WallMS -= 10 }), "8 ms early by its owner's own clock"},
		"a time between two":                 {edited(1025, func(e *history.Event) { e.Changes()[0].NominalMS -= 300 }), "the next one is"},
		"the same times by the next owner":   {edited(4100, func(e *history.Event) { e.OwnDetails().Changes = fire(2, 3, 4) }), "again, which had job 0-2"},
		"one time with two jobs": {edited(1025, func(e *history.Event) {
			e.OwnDetails().Changes = append([]history.Change{{Job: "0-x", Do: history.DoEnqueue, DueMS: 1, Schedule: storyKey, NominalMS: storyWall(1020)}}, e.Changes()...)
		}), "has 1 nominal times"},
		"a mark that goes back":          {edited(1025, last(func(c *history.Change) { c.LastMS -= 2000 })), "goes back from"},
		"a mark beyond what is fired":    {edited(2022, last(func(c *history.Change) { c.LastMS += 1 })), ""},
		"a job without the mark":         {edited(2022, func(e *history.Event) { e.OwnDetails().Changes = e.Changes()[:1] }), "does not change, but its nominal time"},
		"a mark without its job":         {edited(2022, func(e *history.Event) { e.OwnDetails().Changes = e.Changes()[1:] }), "has 1 nominal times"},
		"a job that is not in the shard": {func(y *recurringStory) { y.skip = func(c history.Change) bool { return c.Job == "0-2" } }, "has no job: 0-2"},
		"a schedule that nobody put":     {func(y *recurringStory) { y.asked = "other" }, "is one that nobody put"},
		"put again": {edited(1025, func(e *history.Event) {
			e.OwnDetails().Changes = []history.Change{{Do: history.DoPut, Schedule: storyKey, LastMS: e.WallMS() - 1}}
		}), "is put, though it is there"},
		"a change that there is not": {edited(1025, last(func(c *history.Change) { c.Do = "melt" })), "by \"melt\", which"},
		"begins late":                {edited(storyFirst, last(func(c *history.Change) { c.LastMS++ })), "but was put at"},
		"fired when it is disabled": {edited(5030, func(e *history.Event) {
			e.OwnDetails().Changes = append([]history.Change{{Do: history.DoDisable, Schedule: storyKey, LastMS: storyWall(4020)}}, e.Changes()...)
		}), "though it is disabled"},
		"disabled with another mark":             {edited(5510, last(func(c *history.Change) { c.LastMS += 1000 })), "but stood at"},
		"a put that was acknowledged and is not": {func(y *recurringStory) { y.command(100, 110, history.DoPut, past.ResultApplied) }, "what it asks for is lost"},
		"a schedule that stands still":           {standsStill(history.Clock{}), "was never fired"},
		"and a machine slept":                    {standsStill(history.Clock{Suspended: true}), "was never fired"},
		"and a wall clock was set":               {standsStill(history.Clock{OffsetMS: 10_000}), ""},
		"a host's clock that was set":            {hostSet(1500, 3000, 1500), ""},
		"and nobody has noted it":                {hostSet(1500, 0, 0), "was planned when its owner's clock showed"},
		"and it was less":                        {hostSet(1500, 3000, 400), "1100 ms before that"},
		"and it was a little later":              {hostSet(1500, 4150, 1500), ""},
		"and it was later":                       {hostSet(1500, 5200, 1500), "was planned when its owner's clock showed"},
		"a host's clock that was set back":       {hostSet(0, 3000, -1500), "1500 ms before that"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newStory()
			c.change(y)
			r := Check(context.Background(), y.tell(), Options{})
			p := propertyOf(r, "P12")
			said := c.says == ""
			for _, v := range p.Violations {
				said = said || strings.Contains(v.Message, c.says)
			}
			if want := map[bool]Status{true: StatusPass, false: StatusFail}[c.says == ""]; p.Status != want || !said {
				t.Errorf("P12 is %s, want %s saying %q: %s %+v", p.Status, want, c.says, p.Detail, p.Violations)
			}
			if c.says == "" && len(failing(r)) > 0 {
				t.Errorf("%v fail: %s", failing(r), r.Summary)
			}
		})
	}
}
