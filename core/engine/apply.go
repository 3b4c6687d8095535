package engine

import (
	"slices"

	"fencepost/core/job"
	"fencepost/core/store"
)

// settled takes the consequences of a plan that was applied.
func (m *machine) settled(p *plan) {
	m.head = p.batch.To
	m.probe = false
	if !m.onlyNew {
		m.rejections = 0
	}
	m.onlyNew = false
	m.buried(p)
	m.counted(p)
	for _, i := range p.intents {
		delete(m.lookups, i.job()) // it shows what was before
		for _, c := range i.enqueues {
			delete(m.lookups, c.job())
		}
		switch i.kind {
		case doPlace:
			i.e.key = i.put
			continue
		case doSweep:
			for _, id := range i.swept {
				delete(m.lookups, id)
				m.out = append(m.out, effect{kind: effDone, i: i, run: job.Run{Job: job.Job{ID: id}}})
			}
			m.swept(1)
			continue
		}
		m.out = append(m.out, effect{kind: effDone, i: i, run: i.runOf()})
		switch i.kind {
		case doEnqueue:
			switch {
			case i.claim != nil:
				m.keep(i.e)
			case i.condemned == "":
				m.insert(p, i, i.e.timing)
			}
			m.acknowledge(i, false)
		case doClaim:
			m.claimed(i)
		case doFinish:
			m.ended(p, i)
		case doCancel:
			m.forget(i.job())
			m.acknowledge(i, false)
		case doRedrive:
			m.insert(p, i, i.then)
			m.acknowledge(i, false)
		case doHasten:
			m.hastened(p, i)
			m.acknowledge(i, false)
		case doPause:
			m.paused()
			m.acknowledge(i, false)
		case doSchedule:
			m.acknowledge(i, false)
		}
		m.recurred(p, i)
	}
}

func (i *intent) runOf() job.Run {
	switch i.kind {
	case doFire, doSchedule, doPause:
		return job.Run{}
	case doClaim:
		return job.Run{Job: i.e.job, ID: i.run, Attempt: i.attempt, Due: i.e.due, First: i.first}
	}
	return job.Run{Job: i.e.job, ID: i.e.run, Attempt: i.e.attempt}
}

// insert keeps a job whose pending row was inserted in memory, if it belongs there.
// The scan may have brought it already. While the shard is paused none does.
func (m *machine) insert(p *plan, i *intent, t timing) {
	e := i.e
	if m.jobs[e.job.ID] != nil || m.head.Pause.On {
		return
	}
	if !m.window.holds(i.put.At, t.due, p.readAt) {
		return
	}
	e.key, e.timing, e.said, e.note = i.put, t, t.due, i.note
	m.keep(e)
	m.waiting.add(e)
}

func (m *machine) claimed(i *intent) {
	e := i.e
	if i.condemned != "" {
		m.forget(e.job.ID)
		return
	}
	m.leaves(e)
	e.suspect, e.strikes = false, 0
	e.key, e.attempt, e.run, e.running, e.started = i.put, i.attempt, i.run, true, true
	m.running++
	m.out = append(m.out, effect{kind: effStart, i: i, run: i.runOf()})
}

func (m *machine) ended(p *plan, i *intent) {
	e := i.e
	e.running, e.started, e.cancelled = false, false, false
	m.running--
	m.forget(e.job.ID)
	if i.to == job.Pending {
		if i.spared {
			e.spared++
		}
		m.insert(p, i, i.then)
	}
	m.runEnded(e.job.ID, i.to)
}

// acknowledge answers an enqueue: its job is in the shard.
func (m *machine) acknowledge(i *intent, duplicate bool) {
	m.over(i)
	switch {
	case i.wait != nil:
		m.out = append(m.out, effect{kind: effAck, i: i, duplicate: duplicate})
	case i.inbox != nil:
		m.out = append(m.out, effect{kind: effCopied, i: i, duplicate: duplicate})
	}
}

// rejected: job rows that the plan wanted to insert exist, and nothing happened.
// Only an enqueue whose own row came back is a duplicate, and only what wanted to
// enqueue it is planned differently. It reports false if no row
// of the plan did, which no rejection can be like.
func (m *machine) rejected(p *plan, exists []store.Key) bool {
	dup := map[job.ID]bool{}
	for _, k := range exists {
		if k == jobKey(job.ID(k.ID)) {
			dup[job.ID(k.ID)] = true
		}
	}
	var left, duplicates []*intent
	hit := false
	for _, i := range p.parted() {
		if i.kind == doEnqueue && dup[i.job()] {
			duplicates = append(duplicates, i)
			hit = true
			continue
		}
		one, again := m.existing(i, dup)
		hit = hit || one
		if again {
			left = append(left, i)
		}
	}
	if !hit {
		return false
	}
	m.rejections++
	m.onlyNew = true
	for _, i := range left {
		i.isNew = i.kind == doEnqueue
	}
	for _, i := range duplicates {
		m.acknowledge(i, true)
	}
	m.undo(p, left)
	return true
}

// parted are the intents of a plan that did not happen, without the claims of what it was to
// enqueue: they are decided again.
func (p *plan) parted() []*intent {
	out := make([]*intent, 0, len(p.intents))
	for _, i := range p.intents {
		if i.enqueue != nil {
			continue
		}
		i.claim = nil
		out = append(out, i)
	}
	return out
}

// undo puts intents of a plan that did not happen back to where they came from.
func (m *machine) undo(p *plan, intents []*intent) {
	m.freeSlots(p)
	if p.alone {
		m.singles = append(intents, m.singles...)
		return
	}
	var queued []*intent
	for _, i := range intents {
		switch {
		case i.kind == doClaim && i.condemned == "":
			m.waiting.add(i.e)
			continue
		case i.kind == doFire:
			continue // it is still due
		case i.kind == doPlace:
			m.piles[i.e.key.Kind].look = 0
			continue // it is found again
		}
		m.putBack(i)
		i.wait.waits()
		queued = append(queued, i)
	}
	slices.Reverse(queued)
	for _, i := range queued {
		l := m.queue.of(i)
		l.stalled = slices.Insert(l.stalled, 0, i) // ahead of all others
	}
}

func (m *machine) freeSlots(p *plan) {
	for range p.slots {
		m.out = append(m.out, effect{kind: effSlot})
	}
}

// strikesToCondemn is how often a change must be refused alone, each time after an
// empty batch was applied: a store that is in trouble refuses now this, now that.
const strikesToCondemn = 3

// refused: the store has refused each of several copies of the plan with certainty.
// Either it refuses everything at the moment, or a row in the plan is poison: an
// empty batch that is applied tells them apart, and then each change goes alone.
func (m *machine) refused(p *plan, why error) {
	m.freeSlots(p)
	m.probe = true
	if !p.alone || len(p.intents) == 0 {
		m.singles = append(p.parted(), m.singles...)
		return
	}
	i := p.intents[0]
	strikes := i.counter()
	*strikes++
	if *strikes < strikesToCondemn {
		m.singles = append(m.singles, i)
		return
	}
	*strikes = 0
	m.condemn(i, why)
}

// counter is of strikes. A claim's outlives it: it may lose its slot between two of them.
func (i *intent) counter() *int {
	if i.kind == doClaim {
		return &i.e.strikes
	}
	return &i.strikes
}

// condemn ends what the store refuses though it takes other batches.
func (m *machine) condemn(i *intent, why error) {
	switch {
	case i.kind == doEnqueue && i.inbox == nil, i.isCommand():
		m.putBack(i)
		m.over(i)
		m.out = append(m.out, effect{kind: effAck, i: i, err: why})
		return
	case i.kind == doPlace:
		return // it stays where it is
	case i.kind == doFire:
		// It is left as it is, for another definition or a later owner.
		m.schedules.stop(i.r)
		m.out = append(m.out, effect{kind: effLate, late: Lateness{Schedule: i.r.name(), Err: why}})
		return
	case i.readable:
		i.readable = false
		m.singles = append(m.singles, i)
		return
	case i.condemned != "" || i.kind == doSweep:
		// Even the shortest form is refused; the row stays as it is, and a
		// later owner will try again. The marks still count it, the drain
		// does not.
		if i.kind == doFinish {
			m.running--
			for _, c := range m.parkedFor(i.job()) {
				m.refuse(c, why)
			}
		}
		m.over(i)
		m.out = append(m.out, effect{kind: effDone, i: i, err: why})
		return
	}
	i.condemned = "the store refuses its row: " + store.NoteOf(why)
	m.singles = append(m.singles, i)
}
