package property

import (
	"maps"
	"slices"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// checkSteps is the part of P4 that jobs add: a job that is completed has had each of
// its effects exactly once, and no job any that it does not list.
func (a *Judgement) checkSteps(p *Property) {
	owners := map[string][]*past.Job{}
	for _, j := range a.Jobs.List {
		if j.Spec == nil || j.Spec.Resource == "" {
			continue
		}
		owners[j.Spec.Resource] = append(owners[j.Spec.Resource], j)
		if j.EndedAs != past.StateCompleted {
			continue
		}
		s := a.SinkOf[j.Spec.Resource]
		if s != nil && (!s.WasRead() || s.Hole != "") {
			continue // P14
		}
		for _, step := range j.Spec.Steps {
			p.Checked++
			if s == nil || len(s.Accepts[step]) == 0 {
				p.add(j.ID, append(past.Events(j.Last()), j.Starts...), "job %s is completed, but its effect %s on %s was never applied", j.ID, step, j.Spec.Resource)
				continue
			}
			if o, run := j.Completion(); o != nil && !s.DecidedBy(step, run, o.Invoke.TS) {
				p.add(j.ID, append(past.Events(o), j.Starts...), "job %s was completed by %s before its effect %s on %s was decided", j.ID, o.Invoke.Proc, step, j.Spec.Resource)
			}
		}
	}
	for _, res := range slices.Sorted(maps.Keys(owners)) {
		if s := a.SinkOf[res]; s != nil {
			checkListed(s, owners[res], p)
		}
	}
}

func checkListed(s *past.Sink, owners []*past.Job, p *Property) {
	listed := map[string]bool{}
	for _, j := range owners {
		specs := []*history.Job{j.Spec} // asked for by a schedule, or in a sequence
		for _, o := range j.Calls {
			specs = append(specs, o.Invoke.Job())
		}
		for _, spec := range specs {
			for _, step := range slices.Concat(spec.Steps, spec.May) {
				listed[step] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Accepts)) {
		if e := &s.Ledger[s.Accepts[key][0]]; !listed[key] {
			p.add(s.Name, append([]*history.Event{e.Event}, past.FirstEvents(e.By)...), "effect %s was applied to %s, which belongs to job %s, and no job lists it", key, s.Name, owners[0].ID)
		}
	}
}
