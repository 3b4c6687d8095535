package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// simOwner is one life's part in one shard: it contends, owns and contends again.
type simOwner struct {
	simClient
	s        *simShard
	head     history.Version
	deadline int64
	over     bool
	seq      int64
	last     int64 // send of the last batch
	queue    []*simEnqueue
	finished []history.Change
	running  map[string]bool
	lanes    int
	refused  map[string]int
	left     bool            // it has given the shard away
	asked    []history.Event // the commands that the next batch carries out
}

type simEnqueue struct {
	j       *simJob
	outcome history.Type
	result  string
}

// owners start a life's contention for all shards.
func (w *world) owners(f *simFile, done func()) {
	left := len(w.shards)
	for i, s := range w.shards {
		o := &simOwner{simClient: simClient{w: w, f: f, proc: fmt.Sprintf("%s/jobs:%d", f.header.Proc, i)}, s: s, refused: map[string]int{}}
		t := w.coroutine(func(t *task) {
			t.sleep(w.between(time.Millisecond, 50*time.Millisecond))
			for !w.done {
				o.contend(t)
			}
			if left--; left == 0 {
				done()
			}
		})
		t.killed = func() bool { return f.dead }
	}
}

func (o *simOwner) valid() bool { return !o.over && !o.f.dead && o.w.now < o.deadline }

// contend watches the header and takes the shard over when it stood still.
func (o *simOwner) contend(t *task) {
	w, s := o.w, o.s
	seen, since := s.head, w.now
	for {
		patience := int64(w.cfg.ttl)
		switch {
		case s.free, w.cfg.bug == bugSilentDead && s.actor != nil && history.Worker(s.actor.proc) == w.planted.gone && w.planted.gone != history.Worker(o.proc):
			patience = 0
		case w.cfg.bug == bugNoWait:
			patience /= 4
		case w.cfg.bug == bugSlowTakeover:
			patience *= 4
		case w.cfg.bug == bugNoTakeover:
			patience *= 1000
		}
		if s.head != seen {
			seen, since = s.head, w.now
			continue
		}
		if w.now-since >= patience {
			break
		}
		if w.done {
			return
		}
		o.sleep(t, w.cfg.ttl/16)
	}
	if w.done {
		return
	}
	to := history.Version{Fence: seen.Fence + 1, Beat: seen.Beat + 1, Attempt: w.uuid()}
	outcome, _, first := o.batch(t, history.OpTake, seen, to, nil)
	if o.deadline = o.trust(first); outcome != history.OK || w.now >= o.deadline {
		o.sleep(t, w.cfg.ttl/8)
		return
	}
	o.own(t, to, first)
}

// own ticks until the shard is lost or handed over.
func (o *simOwner) own(t *task, head history.Version, first int64) {
	w, s := o.w, o.s
	o.head, o.over, o.seq, o.last, o.queue, o.finished, o.running = head, false, 0, first, nil, nil, map[string]bool{}
	s.owner = o
	o.rescue()
	for w.now < o.deadline || w.cfg.bug == bugRevive || w.cfg.bug == bugZombie {
		if w.chance(w.cfg.pause / 20) {
			o.paused = w.now + int64(w.between(w.cfg.ttl/2, cmp.Or(w.cfg.pauseMax, 2*w.cfg.ttl)))
			o.sleep(t, 1)
			continue
		}
		changes, riding := o.plan()
		op := history.OpTick
		switch {
		case w.done && len(o.running) == 0 && len(changes) == 0:
			op = history.OpHandOver
		case len(changes) == 0 && w.now < o.last+int64(w.cfg.ttl)/3:
			o.sleep(t, 6*time.Millisecond)
			continue
		}
		if !o.tick(t, op, changes, riding) {
			break
		}
		if o.left {
			s.owner = nil
			o.sleep(t, time.Duration(o.deadline-w.now))
			o.over, o.left = true, false
			return
		}
		if op == history.OpHandOver {
			o.over = true
			break
		}
	}
	if !o.over {
		o.over = true
		w.record(o.f, history.Event{Proc: o.proc, Type: history.Note, Op: history.NoteLeaseLost, Key: s.name, Token: head.Fence, Error: "deadline"})
	}
	if s.owner == o {
		s.owner = nil
	}
	for _, q := range o.queue {
		q.outcome = history.Fail
	}
}

// rescue queues the end of every run of an earlier owner.
func (o *simOwner) rescue() {
	for _, id := range slices.Sorted(maps.Keys(o.s.rows)) {
		r, j := o.s.rows[id], o.w.jobs[id]
		if r.state != past.StateRunning || past.RunFence(r.run) >= o.head.Fence || o.w.cfg.bug == bugNoRescue {
			continue
		}
		c := history.Change{Job: id, Do: history.DoRescue, Run: r.run, Attempt: o.counts(r), DueMS: max(r.own(j), o.w.wall(o.proc))}
		switch {
		case j.AtMostOnce:
			c.Do, c.DueMS = history.DoAbandon, 0
		case r.spared == past.MaxUncounted, o.w.cfg.bug == bugCountsCut && r.attempt >= j.MaxAttempts:
			c.Do, c.DueMS = history.DoDLQ, 0
		}
		o.finished = append(o.finished, c)
	}
}

// plan makes the next batch: what has ended, what is to be enqueued, what is due.
func (o *simOwner) plan() (changes []history.Change, riding []*simEnqueue) {
	w, s := o.w, o.s
	wall := w.wall(o.proc)
	used := map[string]bool{}
	add := func(c history.Change) {
		changes = append(changes, c)
		used[c.Job] = true
	}
	for _, c := range o.finished {
		add(c)
	}
	var wait []*simEnqueue
	for _, q := range o.queue {
		if used[q.j.id] {
			wait = append(wait, q)
			continue
		}
		add(history.Change{Job: q.j.id, Do: history.DoEnqueue, DueMS: max(q.j.DueMS, wall)})
		riding = append(riding, q)
	}
	o.queue = wait
	for _, id := range slices.Sorted(maps.Keys(s.inbox)) {
		if s.rows[id] != nil {
			delete(s.inbox, id) // copied before
		} else if !used[id] && !w.done {
			add(history.Change{Job: id, Do: history.DoEnqueue, DueMS: max(s.inbox[id], wall)})
		}
	}
	if w.done {
		return changes, riding
	}
	paused := s.paused
	switch beat := o.head.Beat % 64; {
	case !w.cfg.pauses:
	case !paused && beat == 20 && !w.draining, paused && (beat == 40 || w.draining):
		if paused = !paused; paused {
			changes = append(changes, history.Change{Do: history.DoPause})
		} else {
			changes = append(changes, history.Change{Do: history.DoResume})
		}
		o.ask(changes[len(changes)-1].Do, s.name)
	}
	if w.cfg.bug == bugNoClaims && w.away {
		paused = true
	}
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		r := s.rows[id]
		claimable := r.state == past.StatePending && o.due(w.jobs[id], r) <= wall || w.cfg.bug == bugDoubleClaim && r.state == past.StateRunning && w.chance(0.05)
		switch {
		case used[id], w.cfg.bug == bugBehindMark && r.by != nil && r.by != o && r.state == past.StatePending && w.jobs[id].DueMS > 0:
		case r.ghost && r.state != past.StateRunning && w.chance(0.02):
			add(o.claim(id, &simRow{}))
			o.running[id] = true
		case r.state == past.StateDLQ && !w.draining && !r.redriven && !w.jobs[id].poison && w.chance(0.02):
			o.ask(history.DoRedrive, id)
			add(history.Change{Job: id, Do: history.DoRedrive, DueMS: max(r.own(w.jobs[id]), wall)})
		case r.state == past.StatePending && r.due > wall+100 && w.chance(0.002):
			o.ask(history.DoCancel, id)
			add(history.Change{Job: id, Do: history.DoCancel, Run: r.run, Attempt: r.attempt})
		case r.state == past.StatePending && r.due > wall+100 && w.chance(0.004):
			o.ask(history.DoHasten, id)
			add(history.Change{Job: id, Do: history.DoHasten, Run: r.run, Attempt: r.attempt, DueMS: wall})
		case w.cfg.bug == bugNotRead && r.by != nil && r.by != o && r.state == past.StatePending && w.chance(0.1):
			add(history.Change{Job: id, Do: history.DoDLQ, Run: r.run, Attempt: r.attempt})
		case claimable && w.jobs[id].poison:
			if o.refused[id] < 2 {
				if len(changes) == 0 {
					o.refused[id]++
					return []history.Change{o.claim(id, r)}, riding
				}
			} else {
				add(history.Change{Job: id, Do: history.DoDLQ, Run: r.run, Attempt: r.attempt})
			}
		case paused:
		case claimable && len(o.running) < 4:
			add(o.claim(id, r))
			o.running[id] = true
		case r.state == past.StateCompleted && (w.now-r.ended > simDedupe*int64(w.cfg.ttl) || w.cfg.bug == bugSweepEarly) && s.inbox[id] == 0:
			add(history.Change{Job: id, Do: history.DoSweep})
		}
	}
	return changes, riding
}

// ask records a command of a client, which the next batch carries out.
func (o *simOwner) ask(do, key string) {
	n := o.f.id()
	e := history.Event{Proc: fmt.Sprintf("%s/k%d", o.f.header.Proc, n), ID: n, Op: history.OpCommand, Key: key}
	inv := e
	inv.Type, inv.Details = history.Invoke, &history.Details{Command: &history.Command{Queue: "jobs", Shard: o.s.name, Do: do}}
	o.w.record(o.f, inv)
	o.asked = append(o.asked, e)
}

// tell answers the commands that a batch with this outcome carries out.
func (o *simOwner) tell(outcome history.Type) {
	for _, e := range o.asked {
		if e.Type, e.Result = history.OK, past.ResultApplied; outcome != history.OK {
			e.Type, e.Result, e.Error = history.Unknown, "", "no answer"
		}
		o.w.record(o.f, e)
	}
	o.asked = nil
}

func (o *simOwner) claim(id string, r *simRow) history.Change {
	o.seq++
	return history.Change{Job: id, Do: history.DoClaim, Run: o.head.Fence<<32 | o.seq, Attempt: o.counts(r) + 1, DueMS: o.due(o.w.jobs[id], r)}
}

// due is when a job is due for this owner: what another's clock said counts for
// nothing, but for the job's own time.
func (o *simOwner) due(j *simJob, r *simRow) int64 {
	if r.said == o.head.Fence {
		return r.due
	}
	return max(min(r.due, o.w.wall(o.proc)), r.own(j))
}

// counts is how many attempts of a job its owner knows of.
func (o *simOwner) counts(r *simRow) int {
	if o.w.cfg.bug == bugAttempts && r.by != nil && r.by != o {
		return 0
	}
	return r.attempt
}

// tick commits a batch and carries out what follows; false: the shard is lost.
func (o *simOwner) tick(t *task, op history.Op, changes []history.Change, riding []*simEnqueue) bool {
	w := o.w
	to := history.Version{Fence: o.head.Fence, Beat: o.head.Beat + 1, Attempt: w.uuid()}
	o.left = w.cfg.bug == bugEarlyHandOver && len(o.running) > 1 && w.chance(0.05)
	outcome, row, first := o.batch(t, op, o.head, to, changes)
	o.tell(outcome)
	o.last = first
	o.left = o.left && outcome == history.OK
	switch {
	case outcome == history.OK:
		o.head = to
		if w.now < o.deadline || w.cfg.bug == bugRevive {
			o.deadline = max(o.deadline, o.trust(first))
			if w.cfg.bug == bugAnchorReply {
				o.deadline = o.trust(w.now)
			}
		}
		o.finished = slices.DeleteFunc(o.finished, func(c history.Change) bool {
			return slices.ContainsFunc(changes, func(x history.Change) bool { return x.Job == c.Job && x.Do == c.Do })
		})
		for _, q := range riding {
			q.outcome, q.result = history.OK, past.ResultApplied
		}
		o.started(changes)
		return true
	case row == o.head: // a job was there
		for _, c := range changes {
			if c.Do == history.DoClaim {
				delete(o.running, c.Job)
			}
		}
		for _, q := range riding {
			if o.s.rows[q.j.id] != nil {
				q.outcome, q.result = history.OK, past.ResultDuplicate
			} else {
				o.queue = append(o.queue, q)
			}
		}
		return true
	case w.cfg.bug == bugZombie && row.Fence > o.head.Fence:
		o.head, o.deadline = row, o.trust(w.now)
		return true
	case outcome == history.Fail && row == (history.Version{}): // certainly not sent, or refused
		for _, c := range changes {
			if c.Do == history.DoClaim {
				delete(o.running, c.Job)
			}
		}
		o.queue = append(o.queue, riding...)
		return true
	}
	for _, q := range riding {
		q.outcome = outcome
	}
	return false
}

// batch is one conditional batch with its copies.
func (o *simOwner) batch(t *task, op history.Op, from, to history.Version, changes []history.Change) (history.Type, history.Version, int64) {
	w, s := o.w, o.s
	e := history.Event{Proc: o.proc, ID: o.f.id(), Type: history.Invoke, Op: op, Key: s.name}
	inv := e
	inv.From, inv.To, inv.OwnDetails().Changes = &from, &to, changes
	if op == history.OpTake {
		inv.OwnDetails().TTLMS = w.cfg.ttl.Milliseconds()
	}
	w.record(o.f, inv)
	poison := slices.ContainsFunc(changes, func(c history.Change) bool { return c.Do == history.DoClaim && w.jobs[c.Job].poison })
	var r reply
	if poison {
		r = reply{refused: true, copies: 1, sends: []int64{w.stamp()}}
		o.sleep(t, 2*time.Millisecond)
	} else {
		tries := 3
		if op != history.OpTake {
			tries = 5 // as long as there is trust
		}
		r = o.request(t, tries, w.cfg.ttl/6, func() any {
			s.actor = o
			return s.commit(w, op, from, to, changes)
		})
	}
	e.Sends = r.sends
	var row history.Version
	switch {
	case r.refused:
		e.Type, e.Error = history.Fail, "refused"
	case !r.answered:
		e.Type, e.Error, e.ServerTimeout = history.Unknown, "timeout", r.server
	default:
		x := r.result.(casReply)
		switch {
		case x.applied || x.row == to:
			e.Type = history.OK
		case r.copies == 1:
			e.Type, row = history.Fail, x.row
			e.Row = &x.row
		default:
			e.Type, row = history.Unknown, x.row
			e.Row = &x.row
		}
	}
	w.record(o.f, e)
	return e.Type, row, r.sends[0]
}
