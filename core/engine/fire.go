package engine

import (
	"bytes"
	"maps"
	"slices"

	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// recurrence is what an intent does to a schedule, and what it enqueues.
type recurrence struct {
	// r is the schedule; of one that is put the one that is to be.
	r *recurring
	// step is decided by the plan that the intent rides in, at wall.
	step schedule.Decision
	wall int64
	// enqueues are the jobs of the occurrences that it fires, or the one that follows
	// a job in its sequence.
	enqueues []*intent
	// followed: that one was there before.
	followed bool
}

// enqueueBytes is the most that the rows of a new job take.
func enqueueBytes(id job.ID, body int) int {
	return 2*(store.RowBytes+len(id)+len(job.Pending)) + body
}

// takeFires plans what schedules fire now, in at most a third of the batch: a long
// list of what was missed must not keep jobs from ending. It reports whether there was
// room for all.
func (m *machine) takeFires(p *plan, now moment) bool {
	most := len(p.batch.Ops) + max(m.cfg.maxOps/3, opsOf)
	room := true
	m.schedules.due(now.wall, func(r *recurring) bool {
		if p.jobs[r.id] {
			return true // the next batch's
		}
		left := min(most, m.cfg.maxOps) - len(p.batch.Ops) - 1
		space := m.cfg.maxBytes - p.bytes - r.stateBytes
		limit := min(left/2, space/r.fireBytes)
		if len(p.batch.Ops) == 0 {
			limit = max(limit, 1) // the store decides
		}
		if limit < 1 {
			room = false
			return false
		}
		i := &intent{kind: doFire, recurrence: recurrence{r: r}}
		m.decideFire(i, now, limit)
		if m.held(p, i) {
			return true
		}
		m.add(p, i, now)
		return true
	})
	return room
}

// decideFire decides what a schedule fires now.
func (m *machine) decideFire(i *intent, now moment, limit int) {
	m.decided(i, m.cfg.decide(i.r.def, i.r.state, now.wall, limit, slices.Collect(maps.Keys(i.r.exists))...), now)
}

// decided takes a step for an intent, and makes the jobs that it enqueues.
func (m *machine) decided(i *intent, d schedule.Decision, now moment) {
	i.step, i.wall, i.enqueues = d, now.wall, nil
	for _, o := range d.Fire {
		i.enqueues = append(i.enqueues, newcomer(i.r.def.JobOf(o), now))
	}
}

// newcomer is the enqueue, at once, of a job that the engine itself makes of parts
// that were encoded before.
func newcomer(j job.Job, now moment) *intent {
	body, _ := j.Encode()
	t := now.asked(0)
	if o := j.Occurrence; !o.IsZero() && j.After == "" {
		t.due = min(t.due, o.Nominal) // what was due first is claimed first
	}
	return &intent{kind: doEnqueue, e: &entry{job: j, body: body, timing: t}}
}

// decideSchedule looks at a command's schedule when a batch is planned.
func (m *machine) decideSchedule(p *plan, i *intent, now moment) turn {
	s, c := &m.schedules, i.command
	if !s.loaded || p.jobs[c.id] {
		return waits
	}
	r := s.byID[c.id]
	switch {
	case c.Verb == PutSchedule:
		return m.decidePut(r, i, now)
	case r == nil:
		return m.refuse(i, ErrUnknownSchedule)
	case c.Verb == RemoveSchedule:
		i.r = r
		return rides
	case r.broken != nil:
		return m.refuse(i, &BrokenError{Schedule: r.name(), Cause: r.broken})
	}
	i.r = r
	d, err := c.step(r.def, r.state, now.wall)
	if err != nil {
		return m.refuse(i, err)
	}
	if len(d.Fire) == 0 && d.State.Disabled == r.state.Disabled && len(d.State.Queue) == len(r.state.Queue) {
		m.acknowledge(i, true)
		return over
	}
	m.decided(i, d, now)
	return rides
}

func (m *machine) decidePut(old *recurring, i *intent, now moment) turn {
	c := i.command
	i.r = newRecurring(c.id, c.def, c.body)
	st := c.def.Start(now.wall)
	switch {
	case old == nil:
	case old.broken != nil:
		st.Last = max(st.Last, old.state.Last)
	case bytes.Equal(old.body, c.body):
		m.acknowledge(i, true)
		return over
	default:
		i.r.exists = old.exists
		st = c.def.Replace(old.def, old.state, now.wall)
	}
	m.decided(i, schedule.Decision{State: st}, now)
	return rides
}

// recurrenceOps are the operations on the rows of an intent's schedule, and of the
// jobs that it enqueues.
func (m *machine) recurrenceOps(p *plan, i *intent, now moment) (ops []store.Op) {
	switch {
	case i.r == nil:
	case i.kind == doSchedule && i.command.Verb == RemoveSchedule:
		ops = []store.Op{remove(i.r.keyAt(AtDefinition)), remove(i.r.keyAt(AtState))}
	case i.kind == doSchedule && i.command.Verb == PutSchedule:
		ops = []store.Op{put(store.Row{Key: i.r.keyAt(AtDefinition), Body: i.r.body}), i.r.stateOp(i.step.State)}
	default:
		ops = []store.Op{i.r.stateOp(i.step.State)}
	}
	if i.r != nil {
		p.jobs[i.r.id] = true
	}
	for _, c := range i.enqueues {
		p.jobs[c.job()] = true
		ops = append(ops, m.enqueueOps(p, c, now)...)
	}
	return ops
}

// ending decides what the end of a job brings beside its own rows: the job that
// follows it, or the end of the occurrence that its schedule waits for.
func (m *machine) ending(i *intent, to job.State, now moment) {
	i.r, i.enqueues = nil, nil
	if next, ok := i.e.job.Next(to, m.cfg.first); ok && i.condemned == "" {
		if !i.followed {
			i.enqueues = []*intent{newcomer(next, now)}
		}
		return
	}
	if r := m.waitsFor(i.e.job); r != nil {
		i.r, i.step, i.wall = r, r.def.Ended(r.state, r.state.Active, i.at(now)), now.wall
	}
}

// at is when the job has ended: not in the future, as the wall clock may have been set
// back since.
func (i *intent) at(now moment) int64 {
	if i.endedAt > 0 {
		return min(i.endedAt, now.wall)
	}
	return now.wall
}

// waitsFor is the schedule whose active occurrence a job stands for; nil: none.
func (m *machine) waitsFor(j job.Job) *recurring {
	if j.Kind == "" {
		for _, r := range m.schedules.byID {
			if a := r.state.Active; r.broken == nil && !a.IsZero() && r.def.JobOf(a).ID == j.ID {
				return r
			}
		}
		return nil
	}
	r := m.schedules.byID[m.scheduleID(j)]
	if j.Occurrence.IsZero() || r == nil || r.broken != nil || r.state.Active != j.Occurrence {
		return nil
	}
	return r
}

func (m *machine) scheduleID(j job.Job) job.ID {
	return job.ScheduleID(j.Queue, j.Occurrence.Schedule, m.cfg.first)
}

// mayRecur: the end of the job may be one that a schedule waits for. What cannot be
// read is known by its id alone.
func mayRecur(j job.Job) bool { return j.Kind == "" || !j.Occurrence.IsZero() }

// held: a change has to wait for the next batch, as a job that it enqueues, or the schedule of the
// job that it ends, rides already, or as that schedule is not known yet. Callers may choose ids:
// one may enqueue by hand what a schedule is to fire, or what follows a job.
func (m *machine) held(p *plan, i *intent) bool {
	if slices.ContainsFunc(i.enqueues, func(c *intent) bool { return p.jobs[c.job()] }) {
		return true
	}
	if i.e == nil {
		return false
	}
	if next, ok := i.e.job.Next(job.Completed, m.cfg.first); ok && p.jobs[next.ID] {
		return true
	}
	if !mayRecur(i.e.job) {
		return false
	}
	if !m.schedules.loaded {
		return true
	}
	r := m.waitsFor(i.e.job)
	return r != nil && p.jobs[r.id]
}

// recurred takes the consequences of a settled batch for an intent's schedule, and
// for the jobs that it has enqueued.
func (m *machine) recurred(p *plan, i *intent) {
	for _, c := range i.enqueues {
		m.out = append(m.out, effect{kind: effDone, i: c, run: c.runOf()})
		m.insert(p, c, c.e.timing)
	}
	switch {
	case i.r == nil:
		return
	case i.kind == doSchedule && i.command.Verb == RemoveSchedule:
		m.schedules.remove(i.r)
		return
	}
	i.r.state = i.step.State
	clear(i.r.exists)
	m.schedules.add(i.r)
	if late, ok := i.lateness(m.cfg.lateAfter); ok {
		m.out = append(m.out, effect{kind: effLate, late: late})
	}
}

// scheduleKey is the key of the schedule that the intent changes; "" if none.
func (i *intent) scheduleKey() string {
	if i.r == nil {
		return ""
	}
	return i.r.name()
}

// lateness says what a step did not do in time.
func (i *intent) lateness(after int64) (Lateness, bool) {
	l := Lateness{Schedule: i.r.name(), Missed: i.step.Missed, Skipped: i.step.Skipped}
	for _, o := range i.step.Fire {
		if by := i.wall - o.Nominal; by > after {
			l.Late = append(l.Late, o)
			l.By = max(l.By, ms(by))
		}
	}
	return l, len(l.Late) > 0 || l.Missed > 0 || l.Skipped > 0
}

// existing: jobs that the intent wanted to enqueue exist. It reports whether it is
// one of theirs, and whether the intent is to be planned again.
func (m *machine) existing(i *intent, exists map[job.ID]bool) (hit, again bool) {
	hit = slices.ContainsFunc(i.enqueues, func(c *intent) bool { return exists[c.job()] })
	switch {
	case !hit:
		return false, true
	case i.kind == doFire:
		for _, c := range i.enqueues {
			if exists[c.job()] {
				i.r.exists[c.e.job.Occurrence] = true
			}
		}
		return true, false // it is decided again
	case i.kind == doSchedule:
		m.acknowledge(i, true) // the trigger had fired before
		return true, false
	}
	i.followed = true
	return true, true
}
