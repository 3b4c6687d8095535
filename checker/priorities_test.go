package checker

import (
	"context"
	"slices"
	"testing"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// priorityStory is a history written by hand: jobs a (priority 0) and b (priority 2) wait while c
// runs, whose start shows the wall clock of their owner. Times are in ms.
type priorityStory struct {
	*sequenceStory
	a, b, again int // the priorities, and that of another enqueue of b
	steps       []sequenceStep
}

// The batches that tests change.
const (
	putThem = iota + 1
	runFirst
	endFirst
	claimOne
	claimOther
	endBoth
)

func newPriorities() *priorityStory {
	y := &priorityStory{sequenceStory: newSequence(), b: 2, again: 2}
	first, second, third := sequenceRun(1, 1), sequenceRun(1, 2), sequenceRun(1, 3)
	tick := func(at int64, changes ...history.Change) sequenceStep {
		return sequenceStep{at: at, proc: "w1.1", op: history.OpTick, changes: changes}
	}
	y.steps = []sequenceStep{
		{at: 1, proc: "w1.1", op: history.OpTake},
		tick(20, enqueued("0-a", "", 20), enqueued("0-b", "", 20), enqueued("0-c", "", 20)),
		tick(100, claimed("0-c", first)),
		tick(150, completed("0-c", first)),
		tick(200, claimed("0-a", second)),
		tick(250, completed("0-a", second), claimed("0-b", third)),
		tick(300, completed("0-b", third)),
		{at: 3500, proc: "w2.1", op: history.OpTake},
		{at: 5600, proc: "w2.1", op: history.OpHandOver},
	}
	return y
}

// insert puts a batch of w1.1 before one.
func (y *priorityStory) insert(before int, at int64, changes ...history.Change) {
	y.steps = slices.Insert(y.steps, before, sequenceStep{at: at, proc: "w1.1", op: history.OpTick, changes: changes})
}

// put has b put into the shard by another batch.
func (y *priorityStory) put(by int, due int64) {
	y.steps[putThem].changes = slices.Delete(y.steps[putThem].changes, 1, 2)
	y.steps[by].changes = append(y.steps[by].changes, enqueued("0-b", "", due))
}

func (y *priorityStory) told() *history.History {
	for i, id := range []string{"0-a", "0-b", "0-c", "0-b"} {
		job := history.Job{Queue: "jobs", Shard: storyShard, Kind: "k", Resource: "job/jobs/" + id, MaxAttempts: 1, Priority: []int{y.a, y.b, 5, y.again}[i]}
		y.op(10+int64(i), 30+int64(i), "w2.1/e"+string(rune('1'+i)), history.OK,
			history.Event{Op: history.OpEnqueue, Key: id, Details: &history.Details{Job: &job}},
			history.Event{Result: []string{past.ResultApplied, past.ResultDuplicate}[i/3]})
	}
	return y.play(y.steps)
}

// TestPriorities: a job that is claimed before one of a higher priority is found and named, and
// nothing is said where the owner need not have known of the other, or where no order is promised.
func TestPriorities(t *testing.T) {
	t.Parallel()
	swapped := func(y *priorityStory) { y.a, y.b, y.again = 2, 0, 0 }
	for name, c := range map[string]struct {
		change func(*priorityStory)
		wrong  bool
	}{
		"the lower one first":               {func(*priorityStory) {}, true},
		"the higher one first":              {swapped, false},
		"negative ones":                     {func(y *priorityStory) { y.a, y.b, y.again = -3, -2, -2 }, true},
		"one priority":                      {func(y *priorityStory) { y.b, y.again = 0, 0 }, false},
		"put there by the batch before":     {func(y *priorityStory) { y.put(endFirst, 20) }, true},
		"put there by the same batch":       {func(y *priorityStory) { y.put(claimOne, 20) }, false},
		"due later":                         {func(y *priorityStory) { y.steps[putThem].changes[1] = enqueued("0-b", "", 230) }, false},
		"due when nobody had seen the time": {func(y *priorityStory) { y.steps[putThem].changes[1] = enqueued("0-b", "", 100) }, false},
		"both in one batch": {func(y *priorityStory) {
			y.steps[claimOne].changes = append(y.steps[claimOne].changes, y.steps[claimOther].changes[1])
			y.steps[claimOther].changes = y.steps[claimOther].changes[:1]
		}, false},
		"the shard was paused meanwhile": {func(y *priorityStory) {
			y.insert(runFirst, 40, history.Change{Do: history.DoPause})
			y.insert(runFirst+1, 60, history.Change{Do: history.DoResume})
		}, false},
		"put there after a pause": {func(y *priorityStory) {
			y.insert(putThem, 8, history.Change{Do: history.DoPause})
			y.insert(putThem+1, 14, history.Change{Do: history.DoResume})
		}, true},
		"enqueues that differ in it": {func(y *priorityStory) { y.again = 1 }, false},
		"a clock that was set": {func(y *priorityStory) {
			y.note(3, "w1.1", history.Event{Op: history.NoteClock, Details: &history.Details{Clock: &history.Clock{OffsetMS: 700}}})
		}, false},
		"another owner, who has to read them": {func(y *priorityStory) {
			y.steps = slices.Delete(y.steps, claimOne, endBoth+1)
			one, two := sequenceRun(2, 1), sequenceRun(2, 2)
			for i, changes := range [][]history.Change{{claimed("0-a", one)}, {completed("0-a", one), claimed("0-b", two)}, {completed("0-b", two)}} {
				y.steps = slices.Insert(y.steps, len(y.steps)-1, sequenceStep{at: 3600 + 50*int64(i), proc: "w2.1", op: history.OpTick, changes: changes})
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newPriorities()
			c.change(y)
			h := y.told()
			r := Check(context.Background(), h, Options{})
			if wrong := slices.Contains(failing(r), "P12"); wrong != c.wrong {
				t.Fatalf("failing %v: %+v", failing(r), propertyOf(r, "P12").Violations)
			}
			if best := Explain(h, r, Options{}).Best(); c.wrong && !slices.Contains(best, "priority-ignored") {
				t.Errorf("named %v", best)
			}
		})
	}
}

func init() { namedAlone["priority-ignored"] = true } // TestPriorities
