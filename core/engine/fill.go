package engine

import "slices"

// turnOf is which kind of work is planned first.
type turnOf int

const (
	endsFirst turnOf = iota // ends of runs, which free slots
	restFirst               // what schedules fire, and what else waits: enqueues, commands, sweeps
	claimsFirst
	turns
)

// fill plans all kinds of work. Each may have a third of the batch before any has more,
// and each is first by turns, so that what is too large to go with others has its
// time: under a flood of enqueues jobs run and end, and the other way round.
func (m *machine) fill(p *plan, in tickInput) {
	m.takePause(p, in.now)
	var ends, rest share
	for _, i := range m.queue {
		if i.kind == doFinish {
			ends.next = append(ends.next, i)
		} else {
			rest.next = append(rest.next, i)
		}
	}
	third := max(m.cfg.maxOps/int(turns), opsOf+2)
	m.takePlaces(p, in.now, third)
	for n := range turns {
		switch (m.turn + n) % turns {
		case endsFirst:
			m.takeShare(p, &ends, in.now, len(p.batch.Ops)+third)
		case restFirst:
			if in.fires {
				m.takeFires(p, in.now)
			}
			m.takeShare(p, &rest, in.now, len(p.batch.Ops)+third)
		case claimsFirst:
			m.takeClaims(p, in, len(p.batch.Ops)+third)
		}
	}
	m.takeShare(p, &ends, in.now, m.cfg.maxOps)
	m.takeClaims(p, in, m.cfg.maxOps)
	m.takeShare(p, &rest, in.now, m.cfg.maxOps)
	m.queue = slices.Concat(ends.left, ends.next, rest.left, m.unknown(rest.next))
	if len(p.batch.Ops) > 0 {
		m.turn = (m.turn + 1) % turns
	}
	if m.fits(p, nil, m.cfg.maxOps) {
		p.trims = m.trims()
		p.put(p.trims)
	}
}

// share is one kind of what waits: next has not been looked at by this plan, left has
// to wait for something else than room.
type share struct{ next, left []*intent }

// takeShare plans what waits until the batch has so many operations. What waits behind
// a change that does not fit waits on, or a large one would never have its turn.
func (m *machine) takeShare(p *plan, s *share, now moment, most int) {
	for ; len(s.next) > 0; s.next = s.next[1:] {
		i, t := s.next[0], rides
		switch {
		case m.duplicate(i):
			continue
		case p.jobs[i.job()]:
			t = waits
		case i.kind == doSchedule:
			t = m.decideSchedule(p, i, now)
		case i.isCommand():
			t = m.decide(i, now)
		}
		switch {
		case t != rides:
		case m.held(p, i):
			t = waits
		case !m.fits(p, i, most):
			return
		}
		switch t {
		case rides:
			m.add(p, i, now)
		case waits:
			s.left = append(s.left, i)
		}
	}
}

// unknown are those that are no duplicates.
func (m *machine) unknown(list []*intent) []*intent {
	return slices.DeleteFunc(list, m.duplicate)
}

// duplicate answers an enqueue whose job is in memory, so that its row exists.
func (m *machine) duplicate(i *intent) bool {
	if i.kind != doEnqueue || m.jobs[i.e.job.ID] == nil {
		return false
	}
	m.acknowledge(i, true)
	return true
}

// takeClaims plans claims of what may run now, until the batch has so many operations.
func (m *machine) takeClaims(p *plan, in tickInput, most int) {
	for !p.batch.To.Pause.On && m.claimable(in.now, in.free-p.slots) > 0 {
		i := &intent{kind: doClaim, e: m.waiting.first()}
		if !m.fits(p, i, most) || i.e.suspect && len(p.batch.Ops) > 0 || p.jobs[i.job()] {
			return
		}
		m.waiting.pop()
		p.alone = i.e.suspect
		m.add(p, i, in.now)
	}
}

// fits reports whether a batch of at most so many operations has room for one more
// intent, or for trims. A change that is larger than a batch should be goes alone: its
// body was taken by a process with another limit, and the store decides.
func (m *machine) fits(p *plan, i *intent, most int) bool {
	return !p.alone && len(p.batch.Ops)+i.ops() <= min(most, m.cfg.maxOps) && (len(p.batch.Ops) == 0 || p.bytes+i.most() <= m.cfg.maxBytes)
}
