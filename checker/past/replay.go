package past

import (
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

// Replay is the replay of one shard: its batches that took effect, in the chain's
// order, are the life of every job in it. It is linear in the changes.
type Replay struct {
	a      *Past
	l      *Row
	Claims map[int64]*Claim // by run
	top    *Claim           // of the highest run so far
	// stretch counts the breaks of the chain so far: what a job was before one
	// is not known after it.
	stretch int
	Pauses  []Pause // in the chain's order
	// refusals are when the store first refused a batch with a job, by job; see poisoned.
	refusals map[string]int64
	// refused are the batches that a row in the shard kept from happening, by the
	// stamp that they named.
	refused map[*Version][]*CAS
}

// replay goes through all shards and compares where it ends with the rows.
func (a *Past) replay() {
	for _, l := range a.Rows {
		if !l.Shard {
			continue
		}
		a.Jobs.Counts.Shards++
		r := &Replay{a: a, l: l, Claims: map[int64]*Claim{}, stretch: 1, refused: map[*Version][]*CAS{}, refusals: l.findRefusals()}
		l.Replayed = r
		for _, c := range l.CAS {
			if c.Shown == c.From && IsRenewal(c.Kind()) {
				r.refused[c.Shown] = append(r.refused[c.Shown], c)
			}
		}
		r.run()
	}
	a.Jobs.List = a.Jobs.sorted()
	for _, j := range a.Jobs.List {
		if j.Locked() {
			a.Jobs.Locked++
			a.Jobs.settle(j)
		}
	}
	a.compareRows()
	a.Jobs.findTwice()
}

func (r *Replay) run() {
	broken := map[*Write]bool{}
	for _, b := range r.l.Breaks {
		broken[b.Next] = true
	}
	r.judgeRefused(r.l.Versions[0])
	for _, w := range r.l.Chain {
		if broken[w] {
			r.stretch++
		}
		r.batch(w)
		r.judgeRefused(w.To)
	}
}

func (r *Replay) batch(w *Write) {
	changes := w.Main().Invoke.Changes()
	var seen map[string]bool
	if len(changes) > 1 {
		seen = make(map[string]bool, len(changes))
	}
	fired := r.firedBy(changes)
	r.follows(changes)
	r.pause(w)
	for i := range changes {
		c := &changes[i]
		if Pauses(c) {
			continue
		}
		if c.Job == "" {
			r.applySchedule(w, c, fired)
			continue
		}
		j := r.a.Jobs.of(r.l.Name, c.Job)
		if seen[c.Job] {
			r.bad("P2", j, w, "%s it, and changes it twice", Verbs[c.Do])
		} else if seen != nil {
			seen[c.Job] = true
		}
		r.change(j, w, c)
	}
	r.unfired(w, fired)
	r.sequences(w, changes)
}

// bad reports a change that is against the rules.
func (r *Replay) bad(property string, j *Job, w *Write, format string, args ...any) {
	c := w.Main()
	events := Events(&c.Op, j.Last())
	r.a.Jobs.add(property, j.ID, events, "job %s: the %s of %s by %s to %s %s", j.ID, c.Kind(), r.l.Name, c.Invoke.Proc, r.l.Text(w.To), fmt.Sprintf(format, args...))
}

// change applies one change to its job.
func (r *Replay) change(j *Job, w *Write, c *history.Change) {
	was := j.Now
	r.judgePaused(j, w, c)
	if known := j.sure == r.stretch || r.stretch == 1; known {
		r.judge(j, was, w, c)
	} else if was.Name == "" {
		was = JobState{Name: "?"} // whatever it was
	}
	n := &r.a.Jobs.Counts
	next := JobState{Name: was.Name, Attempt: c.Attempt, Run: c.Run, Due: was.Due, expedited: was.expedited}
	switch c.Do {
	case history.DoEnqueue:
		next = JobState{Name: StatePending, Due: c.DueMS}
		n.Enqueued++
	case history.DoClaim:
		r.claim(j, was, w, c)
		next.Name = StateRunning
		if c.DueMS > 0 {
			next.Due = c.DueMS
		}
		n.Claimed++
	case history.DoComplete:
		next.Name = StateCompleted
		n.Completed++
	case history.DoRetry:
		next.Name, next.Due = StatePending, c.DueMS
		n.Retried++
	case history.DoRescue:
		next.Name, next.Due = StatePending, c.DueMS
		n.Rescued++
	case history.DoDLQ:
		next.Name, next.Attempt, next.Run = StateDLQ, was.Attempt, was.Run
		n.DLQ++
	case history.DoCancel:
		next.Name = StateCancelled
		n.Cancelled++
	case history.DoAbandon:
		next.Name = StateAbandoned
		n.Abandoned++
	case history.DoRedrive:
		next = JobState{Name: StatePending, Run: was.Run, Due: c.DueMS, expedited: was.expedited}
		n.Redriven++
	case history.DoHasten:
		next = JobState{Name: StatePending, Attempt: was.Attempt, Run: was.Run, Due: c.DueMS, expedited: true}
		n.Hastened++
	case history.DoSweep:
		next = JobState{}
		n.Swept++
	}
	if Ended(next.Name) {
		j.EndedAs = next.Name
	}
	if c.Do == history.DoEnqueue || c.Do == history.DoRedrive {
		j.EndedAs = ""
	}
	next.Since = w.Main().Invoke.TS
	j.Now, j.sure = next, r.stretch
	j.Steps = append(j.Steps, JobStep{w, c})
}

// claim files a claim. Run ids rise strictly in a shard, and carry the fence under
// which they were made: that is what makes them fencing tokens.
func (r *Replay) claim(j *Job, was JobState, w *Write, c *history.Change) {
	k := &Claim{j, w, c, was}
	twin := r.Claims[c.Run]
	switch {
	case RunFence(c.Run) != w.To.Fence:
		r.bad("P1", j, w, "claims it as run %d, whose fence is %d: a run id must carry the fence of its batch", c.Run, RunFence(c.Run))
	case twin != nil:
		r.bad("P1", j, w, "claims it as run %d, as job %s was claimed before: run ids are given once", c.Run, twin.Job.ID)
	case r.top != nil && c.Run <= r.top.Change.Run:
		r.bad("P1", j, w, "claims it as run %d after run %d of job %s: run ids must rise strictly", c.Run, r.top.Change.Run, r.top.Job.ID)
	}
	if r.top == nil || c.Run > r.top.Change.Run {
		r.top = k
	}
	if twin == nil {
		r.Claims[c.Run] = k
	}
}

// validStates are the states in which a change finds its job.
var validStates = map[string][]string{
	history.DoEnqueue:  {""},
	history.DoClaim:    {StatePending},
	history.DoComplete: {StateRunning},
	history.DoRetry:    {StateRunning},
	history.DoRescue:   {StateRunning},
	history.DoCancel:   {StatePending, StateRunning},
	history.DoAbandon:  {StateRunning},
	// A job whose row the store refuses goes to the dead letter queue from
	// wherever it is, the inbox included.
	history.DoDLQ:     {"", StatePending, StateRunning},
	history.DoRedrive: {StateDLQ},
	history.DoHasten:  {StatePending},
	history.DoSweep:   {StateCompleted, StateCancelled, StateAbandoned},
}

// Verbs says a change in words.
var Verbs = map[string]string{
	history.DoEnqueue: "enqueues", history.DoClaim: "claims", history.DoComplete: "completes", history.DoRetry: "retries",
	history.DoRescue: "rescues", history.DoCancel: "cancels", history.DoAbandon: "abandons", history.DoDLQ: "gives up", history.DoRedrive: "redrives", history.DoHasten: "brings forward", history.DoSweep: "sweeps",
}

// judge holds a change against the state in which it finds its job.
func (r *Replay) judge(j *Job, was JobState, w *Write, c *history.Change) {
	states, known := validStates[c.Do]
	fence := w.To.Fence
	switch {
	case !known:
		r.bad("P2", j, w, "does %q to it, which is no change that a job can have", c.Do)
	case !slices.Contains(states, was.Name):
		r.bad("P2", j, w, "%s it, but it was %s", Verbs[c.Do], was)
	case c.Do == history.DoClaim && c.Attempt != was.Attempt+1:
		r.bad("P2", j, w, "claims it as attempt %d after attempt %d", c.Attempt, was.Attempt)
	case namesRun(was, c) && c.Run != was.Run:
		r.bad("P2", j, w, "%s it after run %d, but it was %s", Verbs[c.Do], c.Run, was)
	case namesRun(was, c) && c.Attempt != was.Attempt:
		r.bad("P2", j, w, "%s it after attempt %d, but it was %s", Verbs[c.Do], c.Attempt, was)
	case was.Name == StateRunning && slices.Contains([]string{history.DoComplete, history.DoRetry, history.DoCancel}, c.Do) && RunFence(c.Run) != fence:
		r.bad("P2", j, w, "%s it after run %d, whose fence is %d: only the owner under whom it ran may", Verbs[c.Do], c.Run, RunFence(c.Run))
	case slices.Contains([]string{history.DoRescue, history.DoAbandon}, c.Do) && RunFence(c.Run) >= fence:
		r.bad("P2", j, w, "%s it after run %d of its own fence: only runs of earlier owners are rescued", Verbs[c.Do], c.Run)
	default:
		r.judgeEnd(j, was, w, c)
		r.judgeDue(j, was, w, c)
	}
}

// namesRun says whether a change names the last run of the job that it finds.
func namesRun(was JobState, c *history.Change) bool {
	return was.Name == StateRunning || c.Do == history.DoDLQ || c.Do == history.DoCancel || c.Do == history.DoHasten
}

func (s JobState) String() string {
	switch s.Name {
	case "":
		return "not in the shard"
	case StateRunning:
		return fmt.Sprintf("running as run %d, attempt %d", s.Run, s.Attempt)
	}
	return s.Name
}

// judgeRefused: a batch that was rejected although the header was as it named
// must have found the row of a job that it wanted to insert.
func (r *Replay) judgeRefused(at *Version) {
	for _, c := range r.refused[at] {
		found := r.stretch > 1
		for i := range c.Invoke.Changes() {
			x := &c.Invoke.Changes()[i]
			found = found || inserts(x) && r.a.Jobs.of(r.l.Name, x.Job).Now.Name != ""
		}
		if !found {
			r.a.Jobs.add("P2", r.l.Name, Events(&c.Op), "%s of %s by %s was rejected although the header was as it named, at %s, and no job that it enqueues was in the shard", c.Kind(), r.l.Name, c.Invoke.Proc, r.l.Text(at))
		}
	}
}

// Enqueues says whether the batch inserts rows that must not exist: it can then be
// rejected though the header is as it names.
func (c *CAS) Enqueues() bool {
	for i := range c.Invoke.Changes() {
		if inserts(&c.Invoke.Changes()[i]) {
			return true
		}
	}
	return false
}

// inserts: an enqueue, or a job of the inbox that the store refuses to take.
func inserts(c *history.Change) bool {
	return c.Do == history.DoEnqueue || c.Do == history.DoDLQ && c.Run == 0
}
