package checker

import (
	"fmt"
	"slices"

	"fencepost/harness/record/history"
)

// shardReplay is the replay of one shard: its batches that took effect, in the chain's
// order, are the life of every job in it. It is linear in the changes.
type shardReplay struct {
	a      *past
	l      *rowLog
	claims map[int64]*claim // by run
	top    *claim           // of the highest run so far
	// stretch counts the breaks of the chain so far: what a job was before one
	// is not known after it.
	stretch int
	pauses  []pauseStep // in the chain's order
	// refusals are when the store first refused a batch with a job, by job; see poisoned.
	refusals map[string]int64
	// refused are the batches that a row in the shard kept from happening, by the
	// stamp that they named.
	refused map[*version][]*cas
}

// replay goes through all shards and compares where it ends with the rows.
func (a *past) replay() {
	for _, l := range a.rows {
		if !l.shard {
			continue
		}
		a.jobs.n.Shards++
		r := &shardReplay{a: a, l: l, claims: map[int64]*claim{}, stretch: 1, refused: map[*version][]*cas{}, refusals: l.findRefusals()}
		l.replayed = r
		for _, c := range l.cas {
			if c.row == c.from && isRenewal(c.kind()) {
				r.refused[c.row] = append(r.refused[c.row], c)
			}
		}
		r.run()
	}
	a.jobs.list = a.jobs.sorted()
	for _, j := range a.jobs.list {
		if j.locked() {
			a.jobs.locked++
			a.jobs.settle(j)
		}
	}
	a.compareRows()
	a.jobs.findTwice()
}

func (r *shardReplay) run() {
	broken := map[*write]bool{}
	for _, b := range r.l.breaks {
		broken[b.next] = true
	}
	r.judgeRefused(r.l.versions[0])
	for _, w := range r.l.chain {
		if broken[w] {
			r.stretch++
		}
		r.batch(w)
		r.judgeRefused(w.to)
	}
}

func (r *shardReplay) batch(w *write) {
	changes := w.main().inv.Changes()
	var seen map[string]bool
	if len(changes) > 1 {
		seen = make(map[string]bool, len(changes))
	}
	fired := r.fires(changes)
	r.follows(changes)
	r.pause(w)
	for i := range changes {
		c := &changes[i]
		if pauses(c) {
			continue
		}
		if c.Job == "" {
			r.recur(w, c, fired)
			continue
		}
		j := r.a.jobs.of(r.l.name, c.Job)
		if seen[c.Job] {
			r.bad("P2", j, w, "%s it, and changes it twice", does[c.Do])
		} else if seen != nil {
			seen[c.Job] = true
		}
		r.change(j, w, c)
	}
	r.unfired(w, fired)
	r.sequences(w, changes)
}

// bad reports a change that is against the rules.
func (r *shardReplay) bad(property string, j *jobLog, w *write, format string, args ...any) {
	c := w.main()
	events := both(&c.op, j.last())
	r.a.jobs.add(property, j.id, events, "job %s: the %s of %s by %s to %s %s", j.id, c.kind(), r.l.name, c.inv.Proc, r.l.text(w.to), fmt.Sprintf(format, args...))
}

// change applies one change to its job.
func (r *shardReplay) change(j *jobLog, w *write, c *history.Change) {
	was := j.now
	r.judgePaused(j, w, c)
	if known := j.sure == r.stretch || r.stretch == 1; known {
		r.judge(j, was, w, c)
	} else if was.name == "" {
		was = jobState{name: "?"} // whatever it was
	}
	n := &r.a.jobs.n
	next := jobState{name: was.name, attempt: c.Attempt, run: c.Run, due: was.due, hastened: was.hastened}
	switch c.Do {
	case history.DoEnqueue:
		next = jobState{name: statePending, due: c.DueMS}
		n.Enqueued++
	case history.DoClaim:
		r.claim(j, was, w, c)
		next.name = stateRunning
		if c.DueMS > 0 {
			next.due = c.DueMS
		}
		n.Claimed++
	case history.DoComplete:
		next.name = stateCompleted
		n.Completed++
	case history.DoRetry:
		next.name, next.due = statePending, c.DueMS
		n.Retried++
	case history.DoRescue:
		next.name, next.due = statePending, c.DueMS
		n.Rescued++
	case history.DoDLQ:
		next.name, next.attempt, next.run = stateDLQ, was.attempt, was.run
		n.DLQ++
	case history.DoCancel:
		next.name = stateCancelled
		n.Cancelled++
	case history.DoAbandon:
		next.name = stateAbandoned
		n.Abandoned++
	case history.DoRedrive:
		next = jobState{name: statePending, run: was.run, due: c.DueMS, hastened: was.hastened}
		n.Redriven++
	case history.DoHasten:
		next = jobState{name: statePending, attempt: was.attempt, run: was.run, due: c.DueMS, hastened: true}
		n.Hastened++
	case history.DoSweep:
		next = jobState{}
		n.Swept++
	}
	if ended(next.name) {
		j.end = next.name
	}
	if c.Do == history.DoEnqueue || c.Do == history.DoRedrive {
		j.end = ""
	}
	next.since = w.main().inv.TS
	j.now, j.sure = next, r.stretch
	j.steps = append(j.steps, jobStep{w, c})
}

// claim files a claim. Run ids rise strictly in a shard, and carry the fence under
// which they were made: that is what makes them fencing tokens.
func (r *shardReplay) claim(j *jobLog, was jobState, w *write, c *history.Change) {
	k := &claim{j, w, c, was}
	twin := r.claims[c.Run]
	switch {
	case runFence(c.Run) != w.to.Fence:
		r.bad("P1", j, w, "claims it as run %d, whose fence is %d: a run id must carry the fence of its batch", c.Run, runFence(c.Run))
	case twin != nil:
		r.bad("P1", j, w, "claims it as run %d, as job %s was claimed before: run ids are given once", c.Run, twin.j.id)
	case r.top != nil && c.Run <= r.top.c.Run:
		r.bad("P1", j, w, "claims it as run %d after run %d of job %s: run ids must rise strictly", c.Run, r.top.c.Run, r.top.j.id)
	}
	if r.top == nil || c.Run > r.top.c.Run {
		r.top = k
	}
	if twin == nil {
		r.claims[c.Run] = k
	}
}

// mayBe are the states in which a change finds its job.
var mayBe = map[string][]string{
	history.DoEnqueue:  {""},
	history.DoClaim:    {statePending},
	history.DoComplete: {stateRunning},
	history.DoRetry:    {stateRunning},
	history.DoRescue:   {stateRunning},
	history.DoCancel:   {statePending, stateRunning},
	history.DoAbandon:  {stateRunning},
	// A job whose row the store refuses goes to the dead letter queue from
	// wherever it is, the inbox included.
	history.DoDLQ:     {"", statePending, stateRunning},
	history.DoRedrive: {stateDLQ},
	history.DoHasten:  {statePending},
	history.DoSweep:   {stateCompleted, stateCancelled, stateAbandoned},
}

// does says a change in words.
var does = map[string]string{
	history.DoEnqueue: "enqueues", history.DoClaim: "claims", history.DoComplete: "completes", history.DoRetry: "retries",
	history.DoRescue: "rescues", history.DoCancel: "cancels", history.DoAbandon: "abandons", history.DoDLQ: "gives up", history.DoRedrive: "redrives", history.DoHasten: "brings forward", history.DoSweep: "sweeps",
}

// judge holds a change against the state in which it finds its job.
func (r *shardReplay) judge(j *jobLog, was jobState, w *write, c *history.Change) {
	states, known := mayBe[c.Do]
	fence := w.to.Fence
	switch {
	case !known:
		r.bad("P2", j, w, "does %q to it, which is no change that a job can have", c.Do)
	case !slices.Contains(states, was.name):
		r.bad("P2", j, w, "%s it, but it was %s", does[c.Do], was)
	case c.Do == history.DoClaim && c.Attempt != was.attempt+1:
		r.bad("P2", j, w, "claims it as attempt %d after attempt %d", c.Attempt, was.attempt)
	case shows(was, c) && c.Run != was.run:
		r.bad("P2", j, w, "%s it after run %d, but it was %s", does[c.Do], c.Run, was)
	case shows(was, c) && c.Attempt != was.attempt:
		r.bad("P2", j, w, "%s it after attempt %d, but it was %s", does[c.Do], c.Attempt, was)
	case was.name == stateRunning && slices.Contains([]string{history.DoComplete, history.DoRetry, history.DoCancel}, c.Do) && runFence(c.Run) != fence:
		r.bad("P2", j, w, "%s it after run %d, whose fence is %d: only the owner under whom it ran may", does[c.Do], c.Run, runFence(c.Run))
	case slices.Contains([]string{history.DoRescue, history.DoAbandon}, c.Do) && runFence(c.Run) >= fence:
		r.bad("P2", j, w, "%s it after run %d of its own fence: only runs of earlier owners are rescued", does[c.Do], c.Run)
	default:
		r.judgeEnd(j, was, w, c)
		r.judgeDue(j, was, w, c)
	}
}

// shows says whether a change names the last run of the job that it finds.
func shows(was jobState, c *history.Change) bool {
	return was.name == stateRunning || c.Do == history.DoDLQ || c.Do == history.DoCancel || c.Do == history.DoHasten
}

func (s jobState) String() string {
	switch s.name {
	case "":
		return "not in the shard"
	case stateRunning:
		return fmt.Sprintf("running as run %d, attempt %d", s.run, s.attempt)
	}
	return s.name
}

// judgeRefused: a batch that was rejected although the header was as it named
// must have found the row of a job that it wanted to insert.
func (r *shardReplay) judgeRefused(at *version) {
	for _, c := range r.refused[at] {
		found := r.stretch > 1
		for i := range c.inv.Changes() {
			x := &c.inv.Changes()[i]
			found = found || inserts(x) && r.a.jobs.of(r.l.name, x.Job).now.name != ""
		}
		if !found {
			r.a.jobs.add("P2", r.l.name, both(&c.op), "%s of %s by %s was rejected although the header was as it named, at %s, and no job that it enqueues was in the shard", c.kind(), r.l.name, c.inv.Proc, r.l.text(at))
		}
	}
}

// enqueues says whether the batch inserts rows that must not exist: it can then be
// rejected though the header is as it names.
func (c *cas) enqueues() bool {
	for i := range c.inv.Changes() {
		if inserts(&c.inv.Changes()[i]) {
			return true
		}
	}
	return false
}

// inserts: an enqueue, or a job of the inbox that the store refuses to take.
func inserts(c *history.Change) bool {
	return c.Do == history.DoEnqueue || c.Do == history.DoDLQ && c.Run == 0
}
