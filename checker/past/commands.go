package past

import (
	"fmt"
	"slices"

	"fencepost/checker/phrase"
	"fencepost/harness/record/history"
)

// Commands are the commands that clients gave on jobs and shards.
type Commands struct {
	// OnShards are the pauses and resumptions, by shard.
	OnShards map[string][]*Op
	// OnDead are the redrives of a queue's dead jobs that nobody knows the answer of: each may have
	// been of any of them.
	OnDead []*Op
	// N counts them all, Refused those that were told that their job's state does not allow them.
	N, Refused int
}

// given files a client's command.
func (x *Jobs) given(o *Op) {
	c := o.Invoke.Command()
	x.Commands.N++
	if o.End != nil && o.End.Told() != "" {
		x.Commands.Refused++
	}
	switch {
	case c.Do == history.DoPause || c.Do == history.DoResume:
		if x.Commands.OnShards == nil {
			x.Commands.OnShards = map[string][]*Op{}
		}
		x.Commands.OnShards[c.Shard] = append(x.Commands.OnShards[c.Shard], o)
	case c.Do == history.DoRedriveDead && o.Outcome == history.OK:
		for i := range o.End.Answers() {
			x.redriven(o, &o.End.Answers()[i])
		}
	case c.Do == history.DoRedriveDead && o.Outcome != history.Fail:
		x.Commands.OnDead = append(x.Commands.OnDead, o)
	case c.Do != history.DoRedriveDead:
		j := x.of(c.Shard, o.Invoke.Key)
		j.Commands = append(j.Commands, o)
	}
}

// redriven files the answer for one job of a command on many as if the command had been given on that
// one alone.
func (x *Jobs) redriven(o *Op, said *history.Answered) {
	inv, end := *o.Invoke, *o.End
	inv.Key, inv.Details = said.Job, &history.Details{Command: &history.Command{
		Queue: o.Invoke.Command().Queue, Shard: said.Shard, Do: history.DoRedrive}}
	end.Key, end.Type, end.Details = said.Job, history.Type(said.Outcome), nil
	if end.Type != history.OK {
		end.Result = ""
	}
	j := x.of(said.Shard, said.Job)
	j.Commands = append(j.Commands, &Op{Invoke: &inv, End: &end, Outcome: end.Type})
}

// Carries says whether a change of a job carries a command on it out.
func Carries(command, do string) bool {
	return do == command || command == history.DoRun && (do == history.DoHasten || do == history.DoRedrive)
}

// Text says in P5's detail how many commands were judged, "" without any.
func (c *Commands) Text() string {
	if c.N == 0 {
		return ""
	}
	return fmt.Sprintf("; %s on jobs, shards and queues, %d refused by a job's state", phrase.Plural(c.N, "command"), c.Refused)
}

// stay is a job or a shard in a state, from the earliest instant at which that can have begun to
// the latest at which it can have ended.
type stay struct {
	state    string
	from, to int64
}

func (s stay) within(from, to int64) bool { return s.from <= to && s.to >= from }

// stays are the states of a job in their order. The first is that it was not in the shard.
func (j *Job) stays() []stay {
	out := []stay{{to: history.Forever}}
	state := ""
	for _, s := range j.Steps {
		out[len(out)-1].to = s.Write.Latest
		if state = StateAfter(s.Change.Do, state); s.Change.Do == history.DoSweep {
			state = ""
		}
		out = append(out, stay{state, s.Write.Earliest(), history.Forever})
	}
	return out
}

// Was says whether the job can have been in a state ("": not in its shard) at some time of a
// span.
func (j *Job) Was(state string, from, to int64) bool {
	return slices.ContainsFunc(j.stays(), func(s stay) bool { return s.state == state && s.within(from, to) })
}

// Gone says whether the job can have been unknown at some time of a span: nobody had been told
// before that it was enqueued, or its id was forgotten.
func (j *Job) Gone(from, to int64) bool {
	told := slices.ContainsFunc(j.Calls, func(o *Op) bool { return o.Outcome == history.OK && o.End.TS < from })
	for i, s := range j.stays() {
		if s.state == "" && s.within(from, to) && (i > 0 || !told) {
			return true
		}
	}
	return false
}

// Done is a change of the job that carries a command out and can have taken effect within a span, or nil.
func (j *Job) Done(command string, from, to int64) *JobStep {
	for i := range j.Steps {
		if s := &j.Steps[i]; Carries(command, s.Change.Do) && s.Write.Earliest() <= to && s.Write.Latest >= from {
			return s
		}
	}
	return nil
}

// Asked are the changes of the job that only a command makes: each hastening and redrive, and
// each cancellation while it was pending. A run may end as cancelled by itself.
func (j *Job) Asked(do string) (out []JobStep) {
	state := ""
	for _, s := range j.Steps {
		if s.Change.Do == do && !(do == history.DoCancel && state == StateRunning) {
			out = append(out, s)
		}
		state = StateAfter(s.Change.Do, state)
	}
	return out
}

// WasPaused says whether the shard can have been paused, or not paused, at some time of a span.
func (r *Replay) WasPaused(on bool, from, to int64) bool {
	last := stay{to: history.Forever}
	paused := map[bool]string{true: StatePaused}
	all := []stay{last}
	for _, p := range r.Pauses {
		all[len(all)-1].to = p.w.Latest
		all = append(all, stay{paused[p.on], p.w.Earliest(), history.Forever})
	}
	return slices.ContainsFunc(all, func(s stay) bool { return s.state == paused[on] && s.within(from, to) })
}

// StatePaused is the state of a shard that is paused.
const StatePaused = "paused"

// Switched are the batches that paused the shard, or resumed it.
func (r *Replay) Switched(on bool) (out []*Write) {
	for _, p := range r.Pauses {
		if p.on == on {
			out = append(out, p.w)
		}
	}
	return out
}
