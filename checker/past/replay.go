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
	// own are the jobs that wait and that the shard's owner has put there itself, by when its batch was
	// asked for; see judgePriorities.
	own map[*Job]int64
	// refusals are when the store first refused a batch with a job alone, by job; see poisoned.
	refusals map[string]int64
	// refused are the batches that a row in the shard kept from happening, by the
	// stamp that they named.
	refused map[*Version][]*CAS
}

// replay goes through all shards and compares where it ends with the rows.
func (a *Past) replay() {
	a.readWalls()
	for _, l := range a.Rows {
		if !l.Shard {
			continue
		}
		a.Jobs.Counts.Shards++
		r := &Replay{a: a, l: l, Claims: map[int64]*Claim{}, stretch: 1, refused: map[*Version][]*CAS{}, own: map[*Job]int64{}, refusals: l.findRefusals()}
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
	var seen map[string]string // what is done to each job first
	if len(changes) > 1 {
		seen = make(map[string]string, len(changes))
	}
	fired := r.firedBy(changes)
	r.follows(changes)
	r.judgePriorities(w, changes)
	r.pause(w)
	for c := range Each(changes) {
		if Pauses(c) {
			continue
		}
		if c.Job == "" {
			r.applySchedule(w, c, fired)
			continue
		}
		j := r.a.Jobs.of(r.l.Name, c.Job)
		switch before := seen[c.Job]; {
		case before == history.DoEnqueue && c.Do == history.DoClaim:
			seen[c.Job] = c.Do // it may be claimed by the batch that enqueues it
		case before != "":
			r.bad("P2", j, w, "%s it, and changes it twice", Verb(c.Do))
		case seen != nil:
			seen[c.Job] = c.Do
		}
		r.change(j, w, c)
	}
	r.unfired(w, fired)
	r.sequences(w, changes)
	r.forgottenEnds(w, changes)
}

// bad reports a change that is against the rules.
func (r *Replay) bad(property string, j *Job, w *Write, format string, args ...any) {
	c := w.Main()
	events := Events(&c.Op, j.Last())
	r.a.Jobs.add(property, j.ID, events, "job %s: the %s of %s by %s to %s %s",
		j.ID, c.Kind(), r.l.Name, c.Invoke.Proc, r.l.Text(w.To), fmt.Sprintf(format, args...))
}

// change applies one change to its job.
func (r *Replay) change(j *Job, w *Write, c *history.Change) {
	was := j.Now
	r.judgePaused(j, w, c)
	if j.sure == r.stretch || r.stretch == 1 {
		r.judge(j, was, w, c)
	} else if was.Name == "" {
		was = JobState{Name: "?"} // whatever it was
	}
	next := JobState{Name: StateAfter(c.Do, was.Name), Attempt: c.Attempt, Run: c.Run, Due: was.Due, expedited: was.expedited}
	switch c.Do {
	case history.DoEnqueue:
		next = JobState{Name: StatePending, Due: c.DueMS}
	case history.DoClaim:
		r.claim(j, was, w, c)
		if c.DueMS > 0 {
			next.Due = c.DueMS
		}
	case history.DoRetry, history.DoRescue:
		next.Due = c.DueMS
	case history.DoDLQ:
		next.Attempt, next.Run = was.Attempt, was.Run
	case history.DoRedrive:
		next = JobState{Name: StatePending, Run: was.Run, Due: c.DueMS, expedited: was.expedited}
	case history.DoHasten:
		next = JobState{Name: StatePending, Attempt: was.Attempt, Run: was.Run, Due: c.DueMS, expedited: true}
	case history.DoSweep:
		next = JobState{}
	}
	if kind, known := jobChanges[c.Do]; known {
		*kind.count(&r.a.Jobs.Counts)++
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
	r.keep(j, w)
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

// jobChanges are what a batch can do to a job, by history.Change.Do.
var jobChanges = map[string]struct {
	verb  string
	from  []string // the states in which it finds its job
	to    string   // and the one in which it leaves it
	count func(*JobCounts) *int
}{
	history.DoEnqueue:  {"enqueues", []string{""}, StatePending, func(n *JobCounts) *int { return &n.Enqueued }},
	history.DoClaim:    {"claims", []string{StatePending}, StateRunning, func(n *JobCounts) *int { return &n.Claimed }},
	history.DoComplete: {"completes", []string{StateRunning}, StateCompleted, func(n *JobCounts) *int { return &n.Completed }},
	history.DoRetry:    {"retries", []string{StateRunning}, StatePending, func(n *JobCounts) *int { return &n.Retried }},
	history.DoRescue:   {"rescues", []string{StateRunning}, StatePending, func(n *JobCounts) *int { return &n.Rescued }},
	history.DoCancel:   {"cancels", []string{StatePending, StateRunning}, StateCancelled, func(n *JobCounts) *int { return &n.Cancelled }},
	history.DoAbandon:  {"abandons", []string{StateRunning}, StateAbandoned, func(n *JobCounts) *int { return &n.Abandoned }},
	// A job whose row the store refuses goes to the dead letter queue from
	// wherever it is, the inbox included.
	history.DoDLQ:     {"gives up", []string{"", StatePending, StateRunning}, StateDLQ, func(n *JobCounts) *int { return &n.DLQ }},
	history.DoRedrive: {"redrives", []string{StateDLQ}, StatePending, func(n *JobCounts) *int { return &n.Redriven }},
	history.DoHasten:  {"brings forward", []string{StatePending}, StatePending, func(n *JobCounts) *int { return &n.Hastened }},
	history.DoSweep: {"sweeps", []string{StateCompleted, StateCancelled, StateAbandoned}, "",
		func(n *JobCounts) *int { return &n.Swept }},
}

// Verb says a change in words.
func Verb(do string) string { return jobChanges[do].verb }

// StateAfter is the state in which a change leaves its job.
func StateAfter(do, state string) string {
	if kind, known := jobChanges[do]; known {
		return kind.to
	}
	return state
}

// judge holds a change against the state in which it finds its job.
func (r *Replay) judge(j *Job, was JobState, w *Write, c *history.Change) {
	kind, known := jobChanges[c.Do]
	fence := w.To.Fence
	switch {
	case !known:
		r.bad("P2", j, w, "does %q to it, which is no change that a job can have", c.Do)
	case !slices.Contains(kind.from, was.Name):
		r.bad("P2", j, w, "%s it, but it was %s", kind.verb, was)
	case c.Do == history.DoClaim && c.Attempt != was.Attempt+1:
		r.bad("P2", j, w, "claims it as attempt %d after attempt %d", c.Attempt, was.Attempt)
	case namesRun(was, c) && c.Run != was.Run:
		r.bad("P2", j, w, "%s it after run %d, but it was %s", kind.verb, c.Run, was)
	case namesRun(was, c) && c.Attempt != was.Attempt:
		r.bad("P2", j, w, "%s it after attempt %d, but it was %s", kind.verb, c.Attempt, was)
	case was.Name == StateRunning && slices.Contains([]string{history.DoComplete, history.DoRetry, history.DoCancel}, c.Do) &&
		RunFence(c.Run) != fence:
		r.bad("P2", j, w, "%s it after run %d, whose fence is %d: only the owner under whom it ran may", kind.verb, c.Run, RunFence(c.Run))
	case slices.Contains([]string{history.DoRescue, history.DoAbandon}, c.Do) && RunFence(c.Run) >= fence:
		r.bad("P2", j, w, "%s it after run %d of its own fence: only runs of earlier owners are rescued", kind.verb, c.Run)
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
		for x := range Each(c.Invoke.Changes()) {
			found = found || inserts(x) && r.a.Jobs.of(r.l.Name, x.Job).Now.Name != ""
		}
		if !found {
			r.a.Jobs.add("P2", r.l.Name, Events(&c.Op),
				"%s of %s by %s was rejected although the header was as it named, at %s, and no job that it enqueues was in the shard",
				c.Kind(), r.l.Name, c.Invoke.Proc, r.l.Text(at))
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
