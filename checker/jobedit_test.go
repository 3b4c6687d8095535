package checker

import (
	"slices"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// jobEdit is an edit of a history with jobs, with what the checker knows of it. The
// changes and events that it finds are the history's own.
type jobEdit struct {
	*edit
	a *past.Past
}

func (e *edit) jobs() *jobEdit { return &jobEdit{e, past.New(e.h, false)} }

// jobPlace is one step of a job.
type jobPlace struct {
	x *jobEdit
	j *past.Job
	i int // in its steps
}

func (p jobPlace) c() *history.Change { return p.j.Steps[p.i].Change }

func (p jobPlace) w() *past.Write { return p.j.Steps[p.i].Write }

func (p jobPlace) inv() *history.Event { return p.w().Main().Invoke }

// later is the step after, or nil.
func (p jobPlace) later() *history.Change {
	if p.i+1 < len(p.j.Steps) {
		return p.j.Steps[p.i+1].Change
	}
	return nil
}

// said is the fence of the owner that said when the job was due.
func (p jobPlace) said() int64 { return p.j.Steps[p.i-1].Write.To.Fence }

// redate makes the job due at another time, as the run that follows shows it too.
func (p jobPlace) redate(due int64) {
	p.c().DueMS = due
	if next := p.later(); next != nil && next.Do == history.DoClaim {
		next.DueMS = due
		for _, s := range p.j.Starts {
			if s.Token == next.Run {
				s.OwnDetails().DueMS = due
			}
		}
	}
}

// step finds a change of a kind in a batch that was acknowledged, from a drawn place on.
func (e *jobEdit) step(do string, fits func(jobPlace) bool) (jobPlace, bool) {
	var all []jobPlace
	for _, j := range e.a.Jobs.List {
		for i, s := range j.Steps {
			p := jobPlace{e, j, i}
			if s.Change.Do == do && s.Write.OK() != nil && (fits == nil || fits(p)) {
				all = append(all, p)
			}
		}
	}
	if len(all) == 0 {
		return jobPlace{}, false
	}
	return all[e.draw(len(all))], true
}

// once fits the places of a job that was claimed once, completed and not swept.
func once(p jobPlace) bool {
	return len(p.j.Steps) == 3 && p.j.Now.Name == past.StateCompleted && p.j.Spec != nil && len(p.j.Starts) == 1 && len(p.j.Calls) == 1 && p.j.Calls[0].Outcome == history.OK
}

// start is the start of the run that a place claims.
func (p jobPlace) start() *history.Event {
	for _, e := range p.j.Starts {
		if e.Token == p.c().Run {
			return e
		}
	}
	return nil
}

// tickAfter is an acknowledged batch of the shard that comes well after the place.
func (p jobPlace) tickAfter() *past.Write {
	chain := p.w().Main().Row.Chain
	for _, w := range chain[min(p.w().Pos+3, len(chain)):] {
		if w.OK() != nil && w.Main().Kind() == history.OpTick && w.To.Fence == p.w().To.Fence {
			return w
		}
	}
	return nil
}

// step changes a history at a drawn change of a kind that fits.
func step(do string, fits func(jobPlace) bool, change func(jobPlace)) func(*edit) bool {
	return stepIf(do, fits, func(p jobPlace) bool { change(p); return true })
}

// stepIf is step with a change that may find nothing to change.
func stepIf(do string, fits, change func(jobPlace) bool) func(*edit) bool {
	return func(e *edit) bool {
		p, ok := e.jobs().step(do, fits)
		return ok && change(p)
	}
}

func lastChange(p jobPlace) bool { return p.later() == nil }

func lastChangeThenTick(p jobPlace) bool { return p.later() == nil && p.tickAfter() != nil }

func thenClaimed(p jobPlace) bool { return p.later() != nil && p.later().Do == history.DoClaim }

// onceAndLong fits the claim of such a job whose run lasted for several ticks.
func onceAndLong(p jobPlace) bool { return once(p) && p.j.Steps[2].Write.Pos > p.w().Pos+1 }

// follows: its batch comes later, of the same owner.
func (p jobPlace) follows(o jobPlace) bool {
	return p.j.Shard == o.j.Shard && p.w().To.Fence == o.w().To.Fence && p.w().Pos > o.w().Pos
}

// extend adds a change to a batch.
func extend(w *past.Write, c history.Change) {
	inv := w.Main().Invoke
	inv.OwnDetails().Changes = append(slices.Clone(inv.Changes()), c)
}

// remove takes a change out of its batch.
func (p jobPlace) remove() {
	inv := p.inv()
	inv.OwnDetails().Changes = slices.DeleteFunc(slices.Clone(inv.Changes()), func(c history.Change) bool { return c.Job == p.j.ID && c.Do == p.c().Do })
}

// rerun gives runs of a shard other numbers, wherever they are shown.
func (e *jobEdit) rerun(shard string, to func(int64) int64) {
	owner := map[string]string{}
	for _, j := range e.a.Jobs.List {
		if j.Spec != nil {
			owner[j.Spec.Resource] = j.Shard
		}
	}
	for i := range e.h.Events {
		ev := &e.h.Events[i]
		if ev.Key == shard {
			ev.OwnDetails().Changes = slices.Clone(ev.Changes())
			for k := range ev.Changes() {
				ev.Changes()[k].Run = to(ev.Changes()[k].Run)
			}
		}
		if ev.Issuer == shard {
			ev.Token = to(ev.Token)
			if ev.JobRow() != nil {
				r := *ev.JobRow()
				r.Run = to(r.Run)
				ev.OwnDetails().JobRow = &r
			}
		}
		if ev.Ledger() != nil && ev.Ledger().Issuer == shard {
			l := *ev.Ledger()
			l.Token = to(l.Token)
			ev.OwnDetails().Ledger = &l
		}
		if ev.Seen != 0 && owner[ev.Key] == shard {
			ev.Seen = to(ev.Seen)
		}
	}
}

// respec changes what a place's job was asked to be.
func respec(change func(jobPlace, *history.Job)) func(jobPlace) {
	return func(p jobPlace) {
		for _, o := range p.j.Calls {
			spec := *o.Invoke.Job()
			spec.Steps = slices.Clone(spec.Steps)
			change(p, &spec)
			o.Invoke.OwnDetails().Job = &spec
		}
	}
}

// rewrite changes a row that was left.
func rewrite(j *past.Job, kind string, change func(*history.JobRow)) bool {
	e := j.Row(kind)
	if e == nil {
		return false
	}
	r := *e.JobRow()
	change(&r)
	e.OwnDetails().JobRow = &r
	return true
}

// otherLife is a life that took a shard and is not this one.
func (e *jobEdit) otherLife(life string) string {
	for _, head := range e.h.Headers {
		if head.Proc != history.Harness && head.Proc != life {
			return head.Proc
		}
	}
	return ""
}

// ask inserts an enqueue of a job like j under another name.
func (e *jobEdit) ask(j *past.Job, id, result string) {
	like := j.Calls[0]
	inv, end := *like.Invoke, *like.End
	spec := *inv.Job()
	spec.Resource = "job/jobs/" + id
	inv.Key, inv.ID, inv.Proc, inv.OwnDetails().Job = id, e.nextID(inv.Proc), history.Life(inv.Proc)+"/e9", &spec
	end.Key, end.ID, end.Proc, end.Type, end.Result, end.Error, end.Sends = id, inv.ID, inv.Proc, history.OK, result, "", nil
	inv.TS, end.TS = inv.TS+1, inv.TS+2
	e.insert(inv, end)
}

// answeredAfter has the call of a job answered no earlier than a batch.
func (e *edit) answeredAfter(id string, w *past.Write) {
	answered := w.OK().End.TS
	for _, o := range e.ops {
		if o.inv.Op == history.OpEnqueue && o.inv.Key == id {
			o.end.TS = max(o.end.TS, answered)
		}
	}
	e.index()
}
