package property

import (
	"cmp"
	"maps"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// checkSchedules is the part of P12 that is about whole schedules: what was put is
// there, it fires to the end, and each nominal time that was fired has its job.
func (a *Judgement) checkSchedules(p *Property) (others int) {
	for _, s := range slices.SortedFunc(maps.Values(a.Jobs.Schedules), func(s, t *past.Schedule) int {
		return cmp.Or(cmp.Compare(s.Shard, t.Shard), cmp.Compare(s.Key, t.Key))
	}) {
		l := a.RowOf[s.Shard]
		if s.Other {
			others++
			continue
		}
		if l == nil || !l.Whole {
			continue // P14
		}
		p.Checked += len(s.Jobs)
		checkCommands(s, p)
		if s.Put && !s.Off {
			end := a.Drained().From
			if end == 0 {
				end = a.EndOfWork()
			}
			if f := a.JudgeLeft(s, a.WallAt(end)); f != nil {
				p.add(f.Key, f.Events, "%s", f.Message)
			}
		}
		for _, t := range slices.Sorted(maps.Keys(s.Jobs)) {
			if j := s.Jobs[t]; j.NeverCame(a.Past) {
				p.add(s.Key, past.Events(j.Last()), "the nominal time %d of schedule %s has no job: %s was fired by a batch that took effect, and is not in %s", t, s.Key, j.ID, s.Shard)
			}
		}
	}
	return others
}

// checkCommands: what was acknowledged was done.
func checkCommands(s *past.Schedule, p *Property) {
	told := map[string][]*past.Op{}
	for _, o := range s.Calls {
		if do := o.Invoke.Schedule().Do; o.Outcome == history.OK && o.End.Result == past.ResultApplied {
			told[do] = append(told[do], o)
		}
	}
	for _, do := range slices.Sorted(maps.Keys(told)) {
		if n := s.Done[do]; len(told[do]) > n {
			p.add(s.Key, past.Events(told[do]...), "to %s schedule %s was acknowledged %s, and done %s: what it asks for is lost", do, s.Key, phrase.Times(len(told[do])), phrase.Times(n))
		}
	}
}
