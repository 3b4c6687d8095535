package engine

import (
	"slices"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// lookup is what was read about a job that is not in memory. It is void as soon as a
// batch that touches the job is settled.
type lookup struct {
	done bool
	// state and row are the job's rows in the shard. Only if there is none was its
	// row in the inbox read.
	state, row *store.Row
	inbox      *store.InboxRow
}

// inconclusive: the job is running or pending and not in memory yet, but will be.
func inconclusive(state, row *store.Row) bool {
	if state == nil {
		return false
	}
	s := job.State(state.State)
	return s == job.Running || row == nil && (s == job.Pending || s == job.DLQ)
}

func (i *intent) isCommand() bool {
	return i.kind == doCancel || i.kind == doRedrive || i.kind == doHasten || i.kind == doPause || i.kind == doSchedule
}

// turn is what becomes of a waiting intent when a batch is planned.
type turn int

const (
	rides turn = iota
	waits
	over // its caller has been answered, or will be when its job's run has ended
)

// decide looks at the job of a command when a batch is planned, so that nothing can
// happen to it between the look and the batch.
func (m *machine) decide(i *intent, now moment) turn {
	id := i.job()
	e := m.jobs[id]
	switch {
	case e == nil:
		return m.decideByRows(i, now)
	case i.kind == doRedrive:
		return m.refuse(i, &StateError{Job: id, State: e.state()})
	case e.job.Kind == "":
		return waits // cannot be read: it goes to the dead letter queue first
	case i.kind == doHasten && e.started:
		return m.refuse(i, &StateError{Job: id, State: job.Running})
	case e.running && e.started:
		if !i.wait.rides() {
			return over
		}
		e.cancelled = true
		m.parked = append(m.parked, i)
		m.out = append(m.out, effect{kind: effCancel, i: i, run: job.Run{Job: e.job, ID: e.run}})
		return over
	case e.running:
		return waits // to be rescued, which is ahead of this
	}
	return m.pending(i, e, now)
}

// pending decides a command on a pending job: one that is due is not hastened.
func (m *machine) pending(i *intent, e *entry, now moment) turn {
	i.e = e
	if i.kind == doHasten && e.within(now, 0) {
		m.acknowledge(i, true)
		return over
	}
	return rides
}

func (e *entry) state() job.State {
	if e.running {
		return job.Running
	}
	return job.Pending
}

func (m *machine) decideByRows(i *intent, now moment) turn {
	id := i.job()
	l := m.lookups[id]
	switch {
	case l == nil:
		l = &lookup{}
		m.lookups[id] = l
		m.out = append(m.out, effect{kind: effLookup, i: i, lookup: l})
		return waits
	case !l.done:
		return waits
	}
	delete(m.lookups, id)
	switch {
	case l.state != nil:
	case l.inbox != nil:
		// It is copied first, and looked for again.
		m.out = append(m.out, effect{kind: effCopy, i: i, inbox: l.inbox})
		return waits
	default:
		return m.refuse(i, ErrUnknownJob)
	}
	state := job.State(l.state.State)
	if state != commands[i.kind].finds {
		return m.refuse(i, &StateError{Job: id, State: state})
	}
	e, err := m.read(*l.row, now)
	if err != nil {
		return m.refuse(i, err)
	}
	if i.kind == doRedrive {
		i.e = e
		return rides
	}
	t := m.pending(i, e, now)
	if t == rides {
		// As if the window had brought it.
		m.keep(e)
		m.waiting.add(e)
	}
	return t
}

// found takes the rows of a job. Void ones are ignored, and what can still change by
// itself is looked up again by the next plan.
func (m *machine) found(id job.ID, l, got *lookup, failed bool) {
	if m.lookups[id] != l {
		return
	}
	if failed || !m.asked(id) || inconclusive(got.state, got.row) {
		delete(m.lookups, id)
		return
	}
	*l = *got
	l.done = true
}

func (m *machine) refuse(i *intent, why error) turn {
	m.out = append(m.out, effect{kind: effAck, i: i, err: why})
	return over
}

// parkedFor takes out the cancellations that wait for the end of a job's run.
func (m *machine) parkedFor(id job.ID) (out []*intent) {
	m.parked = slices.DeleteFunc(m.parked, func(i *intent) bool {
		if i.job() == id {
			out = append(out, i)
		}
		return i.job() == id
	})
	return out
}

// runEnded answers the cancellations of a run by where its job has gone.
func (m *machine) runEnded(id job.ID, to job.State) {
	for _, i := range m.parkedFor(id) {
		switch to {
		case job.Cancelled:
			m.acknowledge(i, false)
		case job.Pending:
			// Its result came before the cancellation.
			i.wait.waits()
			m.push(i)
		default:
			m.refuse(i, &StateError{Job: id, State: to})
		}
	}
}

func (m *machine) cancelOps(p *plan, i *intent, now moment) []store.Op {
	e := i.e
	i.waited = m.waiting.remove(e) || i.waited
	m.ending(i, job.Cancelled, now)
	return append(m.endOps(p, i, job.Cancelled, e.attempt, e.run, i.note, nil, now), remove(e.key))
}

// putBack gives the job of a command that did not happen back to those that wait for
// a claim.
func (m *machine) putBack(i *intent) {
	if i.waited {
		i.waited = false
		m.waiting.add(i.e)
	}
}

func (m *machine) redriveOps(i *intent, now moment) []store.Op {
	e := i.e
	i.then, e.tries = now.after(0, ownTime(e.job)), tries{run: e.run}
	return append(m.pendingRows(i, i.then, e.tries, i.note), remove(e.key))
}

// hastenOps: every owner from now on treats the job as due, so its body has no scheduled
// time any more.
func (m *machine) hastenOps(i *intent, now moment) []store.Op {
	e := i.e
	i.waited = m.waiting.remove(e) || i.waited
	i.then = now.asked(0)
	ops := m.pendingRows(i, i.then, e.tries, i.note)
	ops[1].Row.Body = undated(e.job)
	if i.put == e.key {
		return ops // it is due elsewhere, not placed
	}
	return append(ops, remove(e.key))
}

// hastened takes the consequences.
func (m *machine) hastened(p *plan, i *intent) {
	e := i.e
	m.forget(i.job())
	e.body = undated(e.job)
	e.job.Due = time.Time{}
	m.insert(p, i, i.then)
}

// undated is the body of a job without its own time.
func undated(j job.Job) []byte {
	j.Due = time.Time{}
	body, _ := j.Encode() // as it was before
	return body
}
