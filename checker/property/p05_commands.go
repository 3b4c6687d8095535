package property

import (
	"cmp"
	"slices"

	"fencepost/checker/past"
	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// The answer that a client had to a command is held against the replay. That a job which was cancelled
// is not run, that one which was redriven begins with attempt 1, and that nothing is claimed while
// a shard is paused follows then from the rules of the replay itself: the change that was acknowledged
// is in it, and nothing but another command undoes it.
//
// Every command that a client gives is recorded. What only a command does is so wrong in a history
// without any.

// checkCommands judges the commands on a job.
func (a *Judgement) checkCommands(j *past.Job, p *Property) {
	l := a.RowOf[j.Shard]
	if j.Locked() || l == nil || !l.Complete {
		return
	}
	for _, o := range j.Commands {
		if why := a.commandWrong(j, o); why != "" {
			p.add(j.ID, append(past.Events(o), past.Events(j.Last())...), "the %s of job %s by %s %s", o.Invoke.Command().Do, j.ID, o.Invoke.Proc, why)
		}
	}
	for _, do := range []string{history.DoCancel, history.DoRedrive, history.DoHasten} {
		var done []*past.Write
		for _, s := range j.Asked(do) {
			done = append(done, s.Write)
		}
		unasked(j.ID, "job "+j.ID, do, done, a.askedOf(j, do), p)
	}
}

// askedOf are the commands that may have made a change to a job, in the order of time: those on the
// job, and those on the dead jobs of its queue whose answer nobody knows.
func (a *Judgement) askedOf(j *past.Job, do string) []*past.Op {
	if do != history.DoRedrive || len(a.Jobs.Commands.OnDead) == 0 {
		return j.Commands
	}
	all := slices.Clone(j.Commands)
	for _, o := range a.Jobs.Commands.OnDead {
		if past.OfQueue(j.Shard, o.Invoke.Command().Queue) {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(o, other *past.Op) int { return cmp.Compare(o.Invoke.TS, other.Invoke.TS) })
	return all
}

// commandWrong says what is wrong with the answer to a command on a job, "" if nothing is.
func (a *Judgement) commandWrong(j *past.Job, o *past.Op) string {
	if o.End == nil {
		return ""
	}
	from, to, do := o.Invoke.TS, o.End.TS, o.Invoke.Command().Do
	switch told := o.End.Told(); {
	case o.Outcome == history.OK && o.End.Result == past.ResultDuplicate:
		if do == history.DoRun && j.Was(past.StateRunning, from, to) {
			return ""
		}
		if !j.Was(past.StatePending, from, to) {
			return "was told that there was nothing to do, as the job was due; it was not pending then, and is " + leftAs(j)
		}
		if ahead := a.aheadOf(j, to); ahead > 0 {
			return "was told that there was nothing to do, as the job was due; its own time came " + phrase.MS(ahead*1e6) + " later"
		}
	case o.Outcome == history.OK && j.Done(do, from, to) == nil:
		return "was acknowledged, but no batch that can have taken effect by then does it: the job is " + leftAs(j)
	case o.Outcome != history.Fail || told == "":
	case told == history.ToldUnknown && !j.Gone(from, to):
		return "was told that there is no such job, but it had been enqueued and was not forgotten"
	case told != history.ToldUnknown && !j.Was(told, from, to):
		return "was told that the job is " + told + ", which it was not then; it is " + leftAs(j)
	}
	return ""
}

func leftAs(j *past.Job) string { return cmp.Or(j.Now.Name, "not in its shard") + " at the end" }

// aheadOf is by how much an instant was before the job's own time, in ms; 0 if it was not, or
// nobody can tell, as clocks were set, or the job was hastened.
func (a *Judgement) aheadOf(j *past.Job, at int64) int64 {
	if j.Spec == nil || a.AnyClockSet() || j.Done(history.DoHasten, 0, at) != nil {
		return 0
	}
	if ahead := j.ScheduledMS() - a.WallAt(at); ahead > past.ClocksApart {
		return ahead
	}
	return 0
}

// checkPauses judges the commands on shards.
func (a *Judgement) checkPauses(p *Property) {
	for _, l := range a.Rows {
		if !l.Shard || !l.Complete || l.Replayed == nil {
			continue
		}
		given := a.Jobs.Commands.OnShards[l.Name]
		for _, o := range given {
			if switchedWrong(l, o) {
				p.add(l.Name, past.Events(o), "the %s of %s by %s was acknowledged (%s), but by its batches it was not so at any time of the call",
					o.Invoke.Command().Do, l.Name, o.Invoke.Proc, o.End.Result)
			}
		}
		for _, on := range []bool{true, false} {
			unasked(l.Name, l.Name, map[bool]string{true: history.DoPause, false: history.DoResume}[on], l.Replayed.Switched(on), given, p)
		}
	}
}

// switchedWrong: a pause, or a resumption, was acknowledged, and its shard was not so.
func switchedWrong(l *past.Row, o *past.Op) bool {
	return o.Outcome == history.OK && !l.Replayed.WasPaused(o.Invoke.Command().Do == history.DoPause, o.Invoke.TS, o.End.TS)
}

// pausesInPart: commands on whole queues that were acknowledged, and did not reach a shard.
func (x *Inquiry) pausesInPart() {
	for _, l := range x.Rows {
		if !l.Shard || !x.chainConsistent(l) || l.Replayed == nil {
			continue
		}
		for _, o := range x.Jobs.Commands.OnShards[l.Name] {
			if c := o.Invoke.Command(); c.Whole && switchedWrong(l, o) {
				s := x.found("queue-paused-in-part", shown, "the %s of queue %s was acknowledged, and %s was not so at any time of the call", c.Do, c.Queue, l.Name)
				s.show(l.Name, o.End.TS, []string{o.Invoke.Proc}, x.before(o.Invoke, "%s asks to %s queue %s", o.Invoke.Proc, c.Do, c.Queue),
					x.mistake(o.End, "it is told that this is done; %s was never told", l.Name))
			}
		}
	}
}

// unasked: each change that only a command makes has one that came before it and was not told
// that nothing was done.
func unasked(key, what, do string, done []*past.Write, given []*past.Op, p *Property) {
	var may []*past.Op
	for _, o := range given {
		if c := o.Invoke.Command().Do; (past.Carries(c, do) || c == history.DoRedriveDead) && o.Outcome != history.Fail && (o.End == nil || o.End.Result != past.ResultDuplicate) {
			may = append(may, o)
		}
	}
	for i, w := range done { // both are in the order of time
		c := w.Main()
		switch {
		case i >= len(may):
			p.add(key, append(past.Events(&c.Op), past.Events(given...)...),
				"the %s of %s by %s does %q to %s, which nobody asked for that was not told that it was not done",
				c.Kind(), c.Invoke.Key, c.Invoke.Proc, do, what)
			return
		case may[i].Invoke.TS > w.Latest:
			p.add(key, past.Events(&c.Op, may[i]), "the %s of %s by %s does %q to %s before anybody asked for it",
				c.Kind(), c.Invoke.Key, c.Invoke.Proc, do, what)
			return
		}
	}
}

// commands: commands that were acknowledged and that no batch carries out by then.
func (x *Inquiry) commands() {
	for _, j := range x.Jobs.List {
		l := x.RowOf[j.Shard]
		if l == nil || !l.Complete {
			continue
		}
		for _, o := range j.Commands {
			c := o.Invoke.Command()
			if o.Outcome != history.OK || o.End.Result != past.ResultApplied || j.Done(c.Do, o.Invoke.TS, o.End.TS) != nil {
				continue
			}
			s := x.found("command-not-carried-out", x.jobWeight(j, WeightFits), "the %s of job %s was acknowledged, and no batch had carried it out", c.Do, j.ID)
			chain := []Step{x.before(o.Invoke, "%s asks to %s job %s", o.Invoke.Proc, c.Do, j.ID), x.mistake(o.End, "it is told that this is done")}
			for _, st := range j.Steps {
				if st.Write.Earliest() > o.End.TS {
					chain = append(chain, x.change(RoleHarm, st))
					break
				}
			}
			s.show(j.ID, o.End.TS, []string{o.Invoke.Proc}, chain...)
		}
	}
}
