package engine

// turnOf is which kind of work is planned first.
type turnOf int

const (
	endsFirst turnOf = iota // ends of runs, which free slots
	restFirst               // what schedules fire, and what else waits: enqueues, commands, sweeps
	claimsFirst
	turns
)

// fill plans all kinds of work. Ends and claims may have two fifths of the batch each, and the rest a
// tenth, before any has more: so under a flood no more jobs are taken than are run, what was taken is
// served first, and what has piled up is gone soon. While no job waits for a claim, ends and the rest
// have half of it each: an end makes hardly more changes than an enqueue that is claimed at once, so as
// many jobs come as end. The kinds take turns going first, so that what is too large to go with others
// has its time.
//
// An enqueue whose job is there already has the whole batch rejected. Where many such wait, as copies from an
// inbox that an earlier owner did not get to delete, one rejection must not follow the other until the shard is
// lost: the next batch has only enqueues of which a rejection has shown that they are new, if need be none at all.
// If the one after it is rejected too, each further one takes as many enqueues as it has room for, so that all are seen
// soon. What schedules fire, and what follows a job, goes as ever: a rejection settles one of these for good.
func (m *machine) fill(p *plan, in tickInput) {
	m.takePause(p, in.now)
	ends, commands, rest := newShare(&m.queue.ends), newShare(&m.queue.commands), newShare(&m.queue.rest)
	part := func(tenths int) int { return max(m.cfg.maxOps*tenths/10, mostOps) }
	forEnds, forRest := part(4), part(1)
	if m.waiting.due(in.now) == 0 {
		forEnds, forRest = part(5), part(5)
	}
	m.takePlaces(p, in.now, part(2))
	if m.rejections > 1 && !m.onlyNew {
		m.takeShare(p, &rest, in, m.cfg.maxOps)
	}
	for n := range turns {
		switch (m.turn + n) % turns {
		case endsFirst:
			m.takeShare(p, &ends, in, len(p.batch.Ops)+forEnds)
		case restFirst:
			if in.fires {
				m.takeFires(p, in.now)
			}
			most := len(p.batch.Ops) + forRest
			m.takeShare(p, &commands, in, most)
			m.takeShare(p, &rest, in, most)
		case claimsFirst:
			m.takeClaims(p, in, len(p.batch.Ops)+part(4))
		}
	}
	m.takeShare(p, &ends, in, m.cfg.maxOps)
	m.takeClaims(p, in, m.cfg.maxOps)
	m.takeShare(p, &commands, in, m.cfg.maxOps)
	m.takeShare(p, &rest, in, m.cfg.maxOps)
	left := rest.next()
	p.crowded = left != nil && left.kind == doEnqueue && !(m.onlyNew && left.unknown()) // that is not for want of room
	for _, s := range []*share{&ends, &commands, &rest} {
		s.line.stalled = append(s.line.stalled, s.again...)
	}
	if len(p.batch.Ops) > 0 {
		m.turn = (m.turn + 1) % turns
	}
	if m.fits(p, nil, m.cfg.maxOps) {
		trims := m.trims(p)
		p.trims = trims[:min(len(trims), m.cfg.maxOps-len(p.batch.Ops))]
		p.put(p.trims)
	}
}

// share is one line in a plan: again are those that were stalled and have not been looked
// at by this plan.
type share struct {
	line  *line
	again []*intent
}

func newShare(l *line) share {
	s := share{l, l.stalled}
	l.stalled = nil
	return s
}

// next is the one to look at, nil if there is none.
func (s *share) next() *intent {
	switch {
	case len(s.again) > 0:
		return s.again[0]
	case len(s.line.next) > 0:
		return s.line.next[0]
	}
	return nil
}

func (s *share) pass() {
	if len(s.again) > 0 {
		s.again = s.again[1:]
		return
	}
	s.line.next[0] = nil
	s.line.next = s.line.next[1:]
}

// takeShare plans what waits until the batch has so many operations. What waits behind
// a change that does not fit waits on, or a large one would never have its turn.
func (m *machine) takeShare(p *plan, s *share, in tickInput, most int) {
	for i := s.next(); i != nil; i = s.next() {
		t := m.turnOf(p, i, in.now)
		if t == rides && (!m.fits(p, i, most) || m.onlyNew && i.unknown()) {
			return
		}
		s.pass()
		switch {
		case t == waits:
			s.line.stalled = append(s.line.stalled, i)
		case t == rides && i.wait.rides():
			m.claimAtOnce(p, i, in)
			m.add(p, i, in.now)
		case t == rides:
			m.gone(i)
		}
	}
}

// turnOf looks at what waits.
func (m *machine) turnOf(p *plan, i *intent, now moment) turn {
	t := rides
	switch {
	case i.wait.gone():
		m.gone(i)
		return over
	case m.duplicate(i):
		return over
	case p.has(i):
		return waits
	case i.kind == doSchedule:
		t = m.decideSchedule(p, i, now)
	case i.isCommand():
		t = m.decide(i, now)
	}
	if t == rides && m.held(p, i) {
		return waits
	}
	return t
}

// gone forgets what nobody waits for any more, and what was looked up for it: another command
// may have been asked for since, and the job have come meanwhile.
func (m *machine) gone(i *intent) {
	m.over(i)
	if l := m.queue.of(i); l.gone > 0 {
		l.gone--
	}
	if i.isCommand() {
		delete(m.lookups, i.job())
	}
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
	for !p.batch.To.Pause.On && m.claimable(in.now, in.free, p.slots) > 0 {
		i := &intent{kind: doClaim, e: m.waiting.first()}
		if !m.fits(p, i, most) || i.e.suspect && len(p.batch.Ops) > 0 || p.jobs[i.job()] {
			return
		}
		m.waiting.pop()
		p.alone = i.e.suspect
		m.add(p, i, in.now)
	}
}

// claimAtOnce has the job of an enqueue claimed by the same batch, if it is due, there is a slot, and
// no other job waits for one. So it has no pending row, and starts a tick earlier. While running rows of
// earlier owners are read none is: a page could bring this one.
func (m *machine) claimAtOnce(p *plan, i *intent, in tickInput) {
	if i.kind != doEnqueue || i.condemned != "" || !i.e.within(in.now, 0) || i.e.job.Kind == "" {
		return
	}
	if !m.window.rescued || p.batch.To.Pause.On || m.waiting.due(in.now) > 0 || m.room(in.free, p.slots) <= 0 {
		return
	}
	i.claim = &intent{kind: doClaim, e: i.e, enqueue: i}
}

// comers is how many of the enqueues that wait could be claimed at once.
func (m *machine) comers(now moment) (n int) {
	for _, i := range m.queue.rest.next[:min(len(m.queue.rest.next), m.cfg.maxOps/opsOf)] {
		if i.kind == doEnqueue && i.e.within(now, 0) {
			n++
		}
	}
	return n
}

// fits reports whether a batch of at most so many operations has room for one more
// intent, or for trims. A change that is larger than a batch should be goes alone: its
// body was taken by a process with another limit, and the store decides.
func (m *machine) fits(p *plan, i *intent, most int) bool {
	return !p.alone && len(p.batch.Ops)+i.ops() <= min(most, m.cfg.maxOps) && (len(p.batch.Ops) == 0 || p.bytes+i.most() <= m.cfg.maxBytes)
}
