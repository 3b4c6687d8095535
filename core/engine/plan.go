package engine

import (
	"slices"

	"fencepost/core/job"
	"fencepost/core/store"
)

// tickInput is what a plan depends on beside the machine's state.
type tickInput struct {
	now moment
	// free is how many runs the executor has room for.
	free int
	// beat asks for a batch even if it is empty.
	beat bool
	// fires: schedules may fire.
	fires bool
	// owner, addr and the ttl go into the header; owner "" hands the shard over.
	owner, addr string
	nonce       string
}

// plan is a batch with what it means.
type plan struct {
	batch   store.Batch
	intents []*intent
	// readAt is the read mark when the plan was made.
	readAt int64
	// wall is what the owner's wall clock showed then.
	wall  int64
	trims []store.Op
	// slots is how many of the executor's free slots its claims take.
	slots int
	// alone: it is one change of a batch that was refused.
	alone bool
	// crowded: an enqueue waits that had no room.
	crowded bool
	bytes   int

	// jobs are those that it changes, and schedules.
	jobs map[job.ID]bool
	// indexed are those that end: every MaxIndexed of them share a row, the last of which is the
	// operation index.
	indexed, index int
}

// next plans a batch, or returns nil if there is nothing to do. Nothing else may
// be planned until the plan ends in settled, rejected or refused.
func (m *machine) next(in tickInput) *plan {
	p := &plan{readAt: m.window.read, wall: in.now.wall, jobs: map[job.ID]bool{}}
	p.batch.From, p.batch.To = m.head.Stamp, m.head
	h := &p.batch.To
	h.Tick++
	h.Nonce, h.Owner, h.Addr = in.nonce, in.owner, in.addr
	seq := m.seq
	m.planned = seq
	p.crowded = m.queue.rest.len() > 0 // if it is no batch of many
	if !m.probe {
		m.giveBack(in.free)
	}
	switch {
	case m.probe:
	case len(m.singles) > 0 && m.onlyNew && m.singles[0].unknown():
		m.probe = true
	case len(m.singles) > 0:
		p.alone = true
		if i := m.singles[0]; m.again(p, i, in.now) {
			m.add(p, i, in.now)
		}
		m.singles = m.singles[1:]
	default:
		m.fill(p, in)
		// After one rejection an empty batch helps nobody. After more of them it keeps the shard.
		keep := in.beat || m.onlyNew && m.rejections > 1 && m.queue.rest.len() > 0
		if !p.some() && !keep && m.onlyNew {
			m.onlyNew = false
			m.fill(p, in)
		}
		if !p.some() && !keep {
			return nil
		}
	}
	m.marks(h, seq)
	h.Wall = max(h.Wall, in.now.wall)
	return p
}

// some: it is no empty batch.
func (p *plan) some() bool { return len(p.intents) > 0 || len(p.batch.Ops) > 0 }

// unknown: an enqueue whose job may be there already.
func (i *intent) unknown() bool { return i.kind == doEnqueue && !i.isNew }

// needsSlot: it is a claim that starts a run.
func (i *intent) needsSlot() bool { return i.kind == doClaim && i.condemned == "" }

// giveBack takes the claims that are next out of the singles while the executor has no room.
// Nothing may wait behind them: who has the slots may keep them for hours.
// When there are slots again each is tried alone.
func (m *machine) giveBack(free int) {
	for free < 1 && len(m.singles) > 0 && m.singles[0].needsSlot() {
		e := m.singles[0].e
		e.suspect = true
		m.waiting.add(e)
		m.singles = m.singles[1:]
	}
}

// again decides again about a change of a schedule that was refused, and reports
// whether there is still one to make.
func (m *machine) again(p *plan, i *intent, now moment) bool {
	switch i.kind {
	case doFire:
		m.decideFire(i, now, 1)
	case doSchedule:
		return m.decideSchedule(p, i, now) == rides
	}
	return true
}

// opsOf is the most operations that an intent makes on its own job's rows, or on its
// schedule's.
const opsOf = 3

// mostOps is the most that any intent makes: a sweep, of a row of the index and the jobs that it names.
const mostOps = 1 + store.MaxIndexed

// ops is the most operations that an intent makes, whatever it comes to.
func (i *intent) ops() int {
	switch {
	case i != nil && i.kind == doSweep:
		return 1 + len(i.swept)
	case i == nil || i.e == nil:
	case len(i.e.job.Then) > 0:
		return opsOf + 2
	case mayRecur(i.e.job):
		return opsOf + 1
	}
	return opsOf
}

// most is the most bytes that the operations of an intent take, whatever it comes to.
func (i *intent) most() int {
	switch {
	case i == nil:
		return opsOf * store.RowBytes
	case i.kind == doPause:
		return 0
	case i.kind == doSweep:
		return i.ops() * (store.RowBytes + len(i.ended.ID))
	case i.kind == doSchedule:
		return i.command.most(i.r)
	}
	return room(i.e.job, len(i.e.body), max(len(i.note), len(i.condemned)))
}

// room is the most that a change of a job takes, with a body and a note of so many
// bytes: its own rows, and the job that follows it or its schedule.
func room(j job.Job, body, note int) int {
	n := frame(j.ID, note) + body + len(j.Request)
	if len(j.Then) > 0 {
		n += enqueueBytes(j.ID, body+followRoom+len(j.Queue))
	}
	if !j.Occurrence.IsZero() {
		n += stateRoom(j.Occurrence.Schedule)
	}
	return n
}

// followRoom is the most by which the body of a job that follows is longer than
// that of the job before it: ids, and defaults that its template does not have.
const followRoom = 300

// frame is the most that a change of a job takes beside its body, with a note of so
// many bytes in two of the rows.
func frame(id job.ID, note int) int {
	const state = len(job.Completed)
	return opsOf*(store.RowBytes+len(id)+state) + 2*note
}

// enqueues is how many callers wait for a job that the plan enqueues.
func (p *plan) enqueues() (n int64) {
	for _, i := range p.intents {
		if i.kind == doEnqueue && i.wait != nil {
			n++
		}
	}
	return n
}

func (p *plan) put(ops []store.Op) {
	for _, op := range ops {
		p.bytes += op.Bytes()
	}
	p.batch.Ops = append(p.batch.Ops, ops...)
}

// claimable is how many of the ready entries may be claimed, beside so many that a plan has.
func (m *machine) claimable(now moment, free, planned int) int {
	if m.head.Pause.On {
		return 0
	}
	return min(m.waiting.due(now), m.room(free, planned))
}

// room is how many runs may begin, beside so many that a plan has.
func (m *machine) room(free, planned int) int {
	return min(free-planned, m.cfg.maxRunning-m.running-planned, job.MaxSeq-int(m.seq))
}

// wanted is how many slots a plan could use now.
func (m *machine) wanted(now moment) int {
	switch {
	case len(m.singles) > 0 && m.singles[0].needsSlot():
		return 1
	case len(m.singles) > 0, m.head.Pause.On:
		return 0
	}
	return max(0, min(m.waiting.due(now)+m.comers(now), m.room(m.cfg.maxRunning, 0)))
}

// has reports whether the plan changes a job that an intent would change too.
func (p *plan) has(i *intent) bool {
	return p.jobs[i.job()] || slices.ContainsFunc(i.swept, func(id job.ID) bool { return p.jobs[id] })
}

func (m *machine) add(p *plan, i *intent, now moment) {
	p.jobs[i.job()] = true
	p.intents = append(p.intents, i)
	var ops []store.Op
	switch i.kind {
	case doEnqueue:
		ops = m.enqueueOps(p, i, now)
	case doClaim:
		ops = m.claimOps(p, i, now)
	case doFinish:
		ops = m.finishOps(p, i, now)
	case doCancel:
		ops = m.cancelOps(p, i, now)
	case doRedrive:
		ops = m.redriveOps(i, now)
	case doHasten:
		ops = m.hastenOps(i, now)
	case doPlace:
		ops = m.placeOps(i)
	case doPause:
		p.batch.To.Pause = i.after(m.head.Pause, now)
	case doFire, doSchedule:
	case doSweep:
		ops = []store.Op{remove(i.ended.Key)}
		for _, id := range i.swept {
			p.jobs[id] = true
			ops = append(ops, remove(jobKey(id)))
		}
	}
	p.put(append(ops, m.recurrenceOps(p, i, now)...))
	if i.claim != nil {
		m.add(p, i.claim, now)
	}
}

func jobKey(id job.ID) store.Key { return store.Key{Kind: store.KindJob, ID: string(id)} }

func put(r store.Row) store.Op    { return store.Op{Kind: store.Put, Row: r} }
func remove(k store.Key) store.Op { return store.Op{Kind: store.Delete, Row: store.Row{Key: k}} }

// pendingRows are the state of a job that waits, and its place. Nothing is inserted at
// or behind the read mark: a row there would never be read, and its range is deleted.
func (m *machine) pendingRows(i *intent, t timing, n tries, why string) []store.Op {
	i.put = store.Key{Kind: store.KindPending, At: max(t.due, m.window.read+1), ID: string(i.e.job.ID)}
	return []store.Op{
		put(store.Row{Key: jobKey(i.e.job.ID), State: string(job.Pending), Due: t.due, Place: i.put.At, Attempt: n.attempt, Run: int64(n.run), Note: why, Body: i.e.job.Request}),
		put(store.Row{Key: i.put, Due: t.due, Wait: t.wait, Attempt: n.attempt, Place: int64(n.spared), Run: int64(n.run), Note: why, Body: i.e.body}),
	}
}

// runningRows are the state of a job that runs, and its place: the run's id, or a later
// number of the same ownership.
func (m *machine) runningRows(i *intent, place uint32, n tries) []store.Op {
	e := i.e
	i.put = store.Key{Kind: store.KindRunning, At: int64(job.NewRunID(m.head.Fence, place)), ID: string(e.job.ID)}
	return []store.Op{
		put(store.Row{Key: i.put, Due: e.due, Attempt: n.attempt, Place: int64(n.spared), Run: int64(n.run), Body: e.body}),
		put(store.Row{Key: jobKey(e.job.ID), State: string(job.Running), Due: e.due, Place: i.put.At, Attempt: n.attempt, Run: int64(n.run), Body: e.job.Request}),
	}
}

// endOps writes the state of a job that has ended. It is named in the index by which it is swept, or in
// the dead letter queue, which is swept by people only.
func (m *machine) endOps(p *plan, i *intent, to job.State, attempt int, run job.RunID, why string, body []byte, now moment) []store.Op {
	at := max(now.wall, m.head.LowEnded+1, m.sweeps.target+1, m.dead.upTo+1)
	row := store.Row{Key: jobKey(i.e.job.ID), State: string(to), Attempt: attempt, Run: int64(run), Place: at, Note: why, Body: i.e.job.Request}
	if to != job.DLQ {
		p.ends(i, at, run)
		return []store.Op{put(row)}
	}
	dead := store.Row{Key: store.Key{Kind: store.KindDLQ, At: at, ID: string(i.e.job.ID)}, Attempt: attempt, Run: int64(run), Note: why, Body: body}
	i.put = dead.Key
	return []store.Op{put(row), put(dead)}
}

// ends has the index of ended jobs name the job of an intent, in the row of the one before it if there
// is room.
func (p *plan) ends(i *intent, at int64, run job.RunID) {
	id := string(i.e.job.ID)
	if p.indexed++; p.indexed%store.MaxIndexed == 1 {
		p.index = len(p.batch.Ops)
		i.put = store.Key{Kind: store.KindEnded, At: at, ID: id}
		p.put([]store.Op{put(store.Row{Key: i.put, Run: int64(run)})})
		return
	}
	row := &p.batch.Ops[p.index].Row
	before := len(row.Body)
	row.Run, row.Body, i.put = max(row.Run, int64(run)), append(append(row.Body, id...), ' '), row.Key
	p.bytes += len(row.Body) - before
}

func (m *machine) enqueueOps(p *plan, i *intent, now moment) []store.Op {
	if i.condemned != "" {
		// Only a row of the inbox comes here: its job was acknowledged.
		var body []byte
		if i.readable {
			body = i.e.body
		}
		ops := m.endOps(p, i, job.DLQ, 0, 0, i.condemned, body, now)
		ops[0].Kind = store.PutNew
		return ops
	}
	if i.claim != nil {
		return nil // which writes its rows
	}
	ops := m.pendingRows(i, i.e.timing, tries{}, "")
	ops[0].Kind = store.PutNew
	return ops
}

func (m *machine) claimOps(p *plan, i *intent, now moment) []store.Op {
	e := i.e
	if i.condemned != "" {
		var body []byte
		if i.readable {
			body = e.body
		}
		m.ending(i, job.DLQ, now)
		return append(m.endOps(p, i, job.DLQ, e.attempt, e.run, i.condemned, body, now), remove(e.key))
	}
	m.seq++
	p.slots++
	i.attempt, i.run, i.first = e.attempt+1, job.NewRunID(m.head.Fence, m.seq), e.run == 0
	ops := m.runningRows(i, m.seq, tries{i.attempt, e.spared, i.run})
	if i.enqueue != nil {
		ops[1].Kind = store.PutNew
		return []store.Op{ops[1], ops[0]}
	}
	return append(ops, remove(e.key))
}

func (m *machine) finishOps(p *plan, i *intent, now moment) []store.Op {
	e, why, body := i.e, i.note, i.e.body
	if i.condemned != "" {
		// Its note or its body is what the store refuses.
		why, body = i.condemned, nil
		if i.to == job.Pending {
			i.to = job.DLQ
		}
	}
	if i.to != job.Pending {
		m.ending(i, i.to, now)
		if i.to == job.DLQ && (len(i.enqueues) > 0 || i.followed) {
			body = alone(e.job) // or a redrive would have it followed once more
		}
		return append(m.endOps(p, i, i.to, e.attempt, e.run, why, body, now), remove(e.key))
	}
	n := e.tries
	if i.spared {
		n.spared++
	}
	return append(m.pendingRows(i, i.then, n, why), remove(e.key))
}

// alone is the body of a job that nothing follows.
func alone(j job.Job) []byte {
	j.Then = nil
	body, _ := j.Encode()
	return body
}
