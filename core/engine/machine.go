package engine

import (
	"fmt"
	"time"

	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
)

// machine is the decision part of a shard's owner: events in, the next batch and
// its consequences out. It does no I/O, reads no clock, draws no random numbers,
// and does not depend on the order of maps. One goroutine uses it.
type machine struct {
	cfg machineConfig
	// head is the header as the last settled batch left it.
	head store.Header
	// seq is the last run's number, planned what it was before the last plan.
	seq, planned uint32
	// jobs holds every job with a running row, and those with a pending row
	// that belong into the window.
	jobs    map[job.ID]*entry
	waiting waiting
	running int
	// bytes is what the bodies take of jobs, and of enqueues that wait or ride.
	bytes int
	queue lines
	// singles are the changes of a batch that was refused, each to be tried alone;
	// probe asks for an empty batch first.
	singles []*intent
	probe   bool
	// turn is what the next batch plans first.
	turn turnOf
	// rejections counts batches in a row that were rejected, but for those of enqueues that are known to be new.
	// onlyNew: the next one takes no others.
	rejections int
	onlyNew    bool

	past      reckoning
	window    window
	sweeps    sweeps
	dead      deadLetters
	schedules schedules
	// parked are cancellations that wait for the end of their job's run.
	parked  []*intent
	lookups map[job.ID]*lookup
	// trimmed are the marks up to which ranges were deleted, piles what was deleted
	// above them row by row.
	trimmed [kinds]int64
	piles   [kinds]pile
	// rows are how many pending rows and dead letters there are.
	rows [kinds]Count

	// out collects consequences until the runtime takes them.
	out []effect
}

const kinds = 7

type machineConfig struct {
	// maxOps bounds a batch, maxRunning the runs of the shard, trimEvery is
	// the number of deleted rows after which their range is deleted.
	maxOps, maxRunning, trimEvery int
	// maxBytes bounds the rows of a batch.
	maxBytes int
	// horizon is how far the window of pending rows reaches ahead, in ms;
	// maxLoaded bounds how many it holds.
	horizon   int64
	maxLoaded int
	// page is the most rows that a read asks for.
	page int
	// full reports whether memory is.
	full func() bool
	// dedupe is for how long job rows outlive their jobs, in ms.
	dedupe int64
	// first is how many shards the queue had at first. lateAfter is how late, in ms, an occurrence
	// is reported. decide is the schedule's own Decide.
	first     int
	lateAfter int64
	// lateJobs: jobs that wait for longer than that are reported too.
	lateJobs bool
	decide   func(s *schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision
}

// entry is a job in memory.
type entry struct {
	job  job.Job
	body []byte
	key  store.Key // of its pending or running row
	timing
	// said is when its pending row says that it is due, note why its last attempt failed.
	said int64
	note string
	tries
	running bool
	// started: the executor has it; a row of an earlier owner's run never is.
	started bool
	// cancelled: its run was told to end.
	cancelled bool
	// toldLate: somebody was told that it has waited for too long.
	toldLate bool
	// scanned: a page brought it, and it was not claimed since.
	scanned bool
	// suspect: it is among claims that the store refused, and lost its slot before it
	// was tried alone. strikes is how often its claim was refused alone.
	suspect bool
	strikes int
	// since is when it became due here, by the monotonic clock.
	since int64
	place int // in the heap that it is in
}

// tries are the claims of a job.
type tries struct {
	// attempt is how many there were. Of these spared do not count against its
	// MaxAttempts, as nobody knows that its handler failed.
	attempt, spared int
	run             job.RunID // the last one
}

func triesOf(row store.Row) tries {
	return tries{row.Attempt, int(row.Place), job.RunID(row.Run)}
}

// counted are the attempts that count.
func (t tries) counted() int { return t.attempt - t.spared }

type intentKind int

const (
	doEnqueue intentKind = iota + 1
	doClaim
	doFinish
	doSweep
	doCancel
	doRedrive
	doHasten
	doPlace // its row is moved, and nothing else changes
	doPause
	doFire
	doSchedule
)

// intent is one change that waits for a batch or rides in one. A batch holds at
// most one for each job.
type intent struct {
	kind intentKind
	e    *entry
	// doEnqueue: who waits for it, or the inbox row that it copies. Commands have a
	// waiter too.
	wait  *waiter
	inbox *store.InboxRow
	// doFinish: where the job goes. then: when it may run, if that is pending. endedAt:
	// when its run did, by the wall clock.
	to      job.State
	then    timing
	endedAt int64
	note    string
	rescue  bool
	// spared: the attempt that has ended does not count.
	spared bool
	// doSweep: a row of the index, and the jobs that it names.
	ended store.Row
	swept []job.ID
	// condemned: the store refuses this change; the job ends with that as its reason.
	condemned string
	strikes   int // of a claim the entry's count
	// readable: the store takes the body, it is we who do not.
	readable bool

	// Set by the plan that it rides in: the row that it inserts, and the run
	// that it claims.
	put     store.Key
	attempt int
	first   bool // no run of the job was ever claimed before
	run     job.RunID
	// waited: it took its entry from those that wait for a claim.
	waited bool
	// isNew: an enqueue of which a rejection has shown that its job is not there.
	isNew bool
	// claim is that of an enqueue whose job is claimed by the same batch, and of that its enqueue.
	claim, enqueue *intent

	// A command on a job: which. Its caller reads that when he gives up, while the owner may find
	// another entry of that job.
	about job.ID

	// doPause: whether the shard is to be paused.
	pause bool
	shard store.ShardID

	// doSchedule
	command *scheduleCommand
	recurrence
}

// job is the id of the job that it changes, or of the schedule; of a sweep that of the first one.
func (i *intent) job() job.ID {
	switch i.kind {
	case doSweep:
		return job.ID(i.ended.ID)
	case doFire:
		return i.r.id
	case doSchedule:
		return i.command.id
	case doPause:
		return "" // of no job: one a batch
	}
	if i.about != "" {
		return i.about
	}
	return i.e.job.ID
}

type effectKind int

const (
	// effAck answers a waiter: duplicate, or err, or done.
	effAck effectKind = iota + 1
	// effStart hands a settled claim to the executor; effSlot gives a slot back.
	effStart
	effSlot
	// effCopied: the inbox row's job is in the shard for certain.
	effCopied
	// effDone reports a settled change to the observer.
	effDone
	// effCancel ends a run's context; effLookup asks for a job's rows, effCopy to
	// take its row from the inbox.
	effCancel
	effLookup
	effCopy
	// effLate reports what a schedule did not do in time.
	effLate
	// effLateJob reports a job that has waited for too long.
	effLateJob
)

// effect is a consequence of a settled batch.
type effect struct {
	kind      effectKind
	i         *intent
	run       job.Run
	duplicate bool
	err       error
	lookup    *lookup
	inbox     *store.InboxRow
	late      Lateness
	lateJob   LateJob
}

func newMachine(cfg machineConfig, head store.Header, now moment) *machine {
	m := &machine{cfg: cfg, head: head, jobs: map[job.ID]*entry{}, waiting: newWaiting(), lookups: map[job.ID]*lookup{}, schedules: newSchedules()}
	m.waiting.watched = cfg.lateJobs
	m.reckon(now, job.FirstRunID(head.Fence))
	m.window.start(head, m.reach(now), cfg.page)
	m.sweeps = newSweeps(head.LowEnded, cfg.page)
	m.dead = deadLetters{low: -1, upTo: -1, from: -1}
	m.rows[store.KindPending].More, m.rows[store.KindDLQ].More = true, true
	m.trimmed[store.KindPending], m.trimmed[store.KindRunning], m.trimmed[store.KindEnded], m.trimmed[store.KindDLQ] = head.LowPending, head.LowRunning, head.LowEnded, m.dead.low
	return m
}

func (m *machine) take() []effect {
	out := m.out
	m.out = nil
	return out
}

// enqueue takes a job from a caller, or from the inbox.
func (m *machine) enqueue(j job.Job, body []byte, now moment, wait *waiter, inbox *store.InboxRow) {
	e := &entry{job: j, body: body, timing: now.asked(ownTime(j))}
	m.bytes += len(body)
	m.push(&intent{kind: doEnqueue, e: e, wait: wait, inbox: inbox})
}

// refuseRow takes a row of the inbox that holds no job: it goes to the dead letter
// queue, body and all.
func (m *machine) refuseRow(row store.InboxRow, why error) {
	e := &entry{job: job.Job{ID: job.ID(row.ID)}, body: row.Body}
	m.bytes += len(row.Body)
	m.push(&intent{kind: doEnqueue, e: e, inbox: &row, condemned: "its row in the inbox is no job: " + store.NoteOf(why), readable: true})
}

// over: an enqueue does not wait or ride any more.
func (m *machine) over(i *intent) {
	if i.kind == doEnqueue {
		m.bytes -= len(i.e.body)
	}
}

// finished takes the end of a run that the executor had.
func (m *machine) finished(id job.ID, run job.RunID, err error, now moment, jitter float64) {
	e := m.jobs[id]
	if e == nil || !e.running || e.run != run {
		return
	}
	i := &intent{kind: doFinish, e: e, to: job.Completed, endedAt: now.wall}
	if err != nil {
		i.note = store.NoteOf(err)
		var wait time.Duration
		switch {
		case e.cancelled, job.IsCancel(err):
			i.to = job.Cancelled
		case job.IsPermanent(err):
			i.to = job.DLQ
		case isInterrupted(err):
			i.spare()
		case job.IsNotHere(err):
			wait = e.job.Retry.Delay(e.spared+1, jitter)
			i.spare()
		case e.counted() >= e.job.MaxAttempts:
			i.to = job.DLQ
		default:
			i.to, wait = job.Pending, e.job.Retry.Delay(e.counted(), jitter)
		}
		i.then = now.after(millis(wait), ownTime(e.job))
		i.then.own = 0 // it had come
		m.past.fails(id, run)
	}
	m.push(i)
}

// spare lets a job wait for another run without counting the one that has ended: it was
// interrupted, or never began. That has an end too, or a job that kills its process would
// do so for ever.
func (i *intent) spare() {
	if i.e.spared >= job.MaxInterruptions {
		i.to, i.note = job.DLQ, fmt.Sprintf("interrupted %d times: %s", i.e.spared+1, i.note)
		return
	}
	i.to, i.spared = job.Pending, true
}

// rescue takes a running row of an earlier ownership: every one of them, even if its
// owner seems alive. Its job's own time had come by that owner's clock; by this one's it may
// not have.
func (m *machine) rescue(row store.Row, now moment) {
	if job.RunID(row.Run) >= job.FirstRunID(m.head.Fence) || m.jobs[job.ID(row.ID)] != nil {
		return
	}
	e, err := m.read(row, now)
	if err != nil {
		e = &entry{job: job.Job{ID: job.ID(row.ID), MaxAttempts: 1}, body: row.Body, key: row.Key, tries: triesOf(row)}
	}
	e.running = true
	m.keep(e)
	m.running++
	i := &intent{kind: doFinish, e: e, then: now.after(0, ownTime(e.job)), endedAt: now.wall, rescue: true, note: "its owner lost the shard while it was running"}
	switch {
	case err != nil:
		i.to, i.note = job.DLQ, store.NoteOf(err)
	case e.job.Rescue == job.AtMostOnce:
		i.to = job.Abandoned
	default:
		i.spare()
	}
	m.push(i)
}

// read makes an entry of a pending or running row.
func (m *machine) read(row store.Row, now moment) (*entry, error) {
	j, err := job.Decode(row.Body)
	if err != nil {
		return nil, err
	}
	return &entry{job: j, body: row.Body, key: row.Key, timing: m.resumed(row, j, now), said: row.Due, note: row.Note, tries: triesOf(row)}, nil
}

// idle reports that nothing waits for a batch and nothing runs.
func (m *machine) idle() bool {
	return m.queue.len() == 0 && len(m.singles) == 0 && m.running == 0
}

// keep takes a job into memory.
func (m *machine) keep(e *entry) {
	m.jobs[e.job.ID] = e
	m.bytes += len(e.body)
}

// full reports whether memory is; a machine alone has no bound.
func (m *machine) full() bool { return m.cfg.full != nil && m.cfg.full() }

// forget removes a job from memory.
func (m *machine) forget(id job.ID) {
	if e := m.jobs[id]; e != nil {
		m.leaves(e)
		m.bytes -= len(e.body)
	}
	delete(m.jobs, id)
	m.window.forgotten(id)
}

// leaves: an entry is not one of those that pages brought any more.
func (m *machine) leaves(e *entry) {
	if e.scanned {
		e.scanned = false
		m.window.scanned--
	}
}

func millis(d time.Duration) int64 { return d.Milliseconds() }

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
