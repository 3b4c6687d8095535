package property

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
)

// inOrder are the schedules by shard and key.
func (x *Inquiry) schedulesInOrder() []*past.Schedule {
	return slices.SortedFunc(maps.Values(x.Jobs.Schedules), func(s, t *past.Schedule) int {
		return cmp.Or(cmp.Compare(s.Shard, t.Shard), cmp.Compare(s.Key, t.Key))
	})
}

// scheduleFaults: schedules that come back, overlap or go back.
func (x *Inquiry) scheduleFaults() {
	id := map[string]string{past.Returned: "removal-in-memory", past.Overlapped: "overlap-not-kept", past.SetBack: "schedule-set-back",
		past.Repeated: "trigger-repeated", past.Resumed: "switch-in-memory", past.Stopped: "switch-in-memory",
		past.Again: "once-fires-again", past.Outside: "bounds-ignored"}
	says := map[string]func(s *past.Schedule, f past.ScheduleFault) string{
		past.Returned: func(s *past.Schedule, _ past.ScheduleFault) string {
			return "schedule " + s.Key + " fires, though it was removed"
		},
		past.Overlapped: func(s *past.Schedule, f past.ScheduleFault) string {
			return fmt.Sprintf("schedule %s fires, though its occurrence of %s has not ended", s.Key, f.Of)
		},
		past.SetBack: func(s *past.Schedule, f past.ScheduleFault) string {
			return fmt.Sprintf("schedule %s goes back, though its times up to %d were decided", s.Key, f.Of.Nominal)
		},
		past.Repeated: func(s *past.Schedule, f past.ScheduleFault) string {
			return fmt.Sprintf("schedule %s fires its trigger %s again", s.Key, f.Of.Trigger)
		},
		past.Resumed: func(s *past.Schedule, _ past.ScheduleFault) string {
			return "schedule " + s.Key + " fires, though it is disabled"
		},
		past.Stopped: func(s *past.Schedule, _ past.ScheduleFault) string {
			return "schedule " + s.Key + " is enabled, though it was not disabled"
		},
		past.Again: func(s *past.Schedule, f past.ScheduleFault) string {
			return fmt.Sprintf("schedule %s, which has one nominal time, fires it again: %s", s.Key, f.Of)
		},
		past.Outside: func(s *past.Schedule, f past.ScheduleFault) string {
			return fmt.Sprintf("schedule %s fires at %s, before it begins or after its end", s.Key, f.Of)
		},
	}
	for _, s := range x.schedulesInOrder() {
		for _, f := range s.Wrong {
			if f.Before == nil || !x.chainConsistent(x.RowOf[s.Shard]) {
				continue
			}
			inv, before := f.Write.Main().Invoke, f.Before.Main().Invoke
			text := says[f.Kind](s, f)
			who := "by the same owner"
			if f.Before.To.Fence != f.Write.To.Fence {
				who = fmt.Sprintf("by the owner of fence %d, after the one of fence %d", f.Write.To.Fence, f.Before.To.Fence)
			}
			sus := x.found(id[f.Kind], shown, "%s: %s", text, who)
			sus.show(s.Key, inv.TS, []string{before.Proc, inv.Proc},
				x.before(before, "%s changes schedule %s", before.Proc, s.Key), x.mistake(inv, "%s: %s", inv.Proc, text))
		}
	}
}

// scheduleCommands: commands on schedules that were acknowledged more often than batches do them.
func (x *Inquiry) scheduleCommands() {
	for _, s := range x.schedulesInOrder() {
		if l := x.RowOf[s.Shard]; s.Other || l == nil || !l.Complete {
			continue
		}
		for _, c := range lostCommands(s) {
			o := c.told[len(c.told)-1]
			sus := x.found("command-not-carried-out", shown, "to %s schedule %s was acknowledged %s, and done %s",
				c.do, s.Key, phrase.Times(len(c.told)), phrase.Times(c.done))
			sus.show(s.Key, o.End.TS, []string{o.Invoke.Proc}, x.before(o.Invoke, "%s asks to %s schedule %s", o.Invoke.Proc, c.do, s.Key),
				x.mistake(o.End, "it is told that this is done; not every such answer has a batch"))
		}
	}
}

// overtaken: claims of jobs while others of a higher priority waited.
func (x *Inquiry) overtaken() {
	for _, o := range x.Jobs.Overtaken {
		inv := o.Write.Main().Invoke
		s := x.found("priority-ignored", x.jobWeight(o.Low, shown), "job %s of priority %d is claimed as run %d, and job %s of priority %d, which had been due, is not",
			o.Low.ID, o.Low.Spec.Priority, o.Change.Run, o.High.ID, o.High.Spec.Priority)
		chain := []Step{x.mistake(inv, "%s claims job %s", inv.Proc, o.Low.ID)}
		if n := len(o.High.Steps); n > 0 && o.High.Steps[0].Write.Pos < o.Write.Pos {
			chain = append(chain, x.change(RoleBefore, o.High.Steps[0]))
		}
		s.showAt(o.Low.ID, inv, chain...)
	}
}
