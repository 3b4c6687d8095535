package engine

import (
	"math"
	"time"

	"fencepost/core/job"
	"fencepost/core/store"
)

// window is the part of the pending rows that is in memory. Rows up to the read
// mark are loaded page by page; what the owner inserts lies above the mark, and is
// kept in memory at once if it is due within the window. Rows up to the mark that are
// not due soon, as an earlier owner's clock was ahead of this one's, are left where
// they are, and read again when the first of them is.
type window struct {
	// read is the read mark; it is raised before the scan up to it begins, so
	// that no insert can fall into a range that is being read.
	read int64
	// cursor is where the scan has come to; complete: it has reached read.
	cursor   store.Key
	complete bool
	// loading: a page is on its way. gone are the jobs that left memory since
	// it was asked for: it may still show their rows.
	loading bool
	gone    map[job.ID]bool
	// void: that page is of what was left since. behind: rows were inserted above the
	// read mark that are due and not in memory, so that it has to rise first.
	void, behind bool
	// scanned is how many pages brought that were not claimed since.
	scanned int
	left    leftRows
	// rescued: all running rows of earlier owners are known.
	rescued   bool
	runCursor store.Key
	runScan   bool
	// pending and running are how many rows of the kind are asked for at once.
	pending, running pageSize
}

// pageSize is how many rows a read asks for: fewer after one that failed, as it may
// have been too much to be answered in time.
type pageSize struct{ now, most int }

func newPageSize(most int) pageSize { return pageSize{most, most} }

// read takes the end of a read, and reports whether it was the last one.
func (p *pageSize) read(rows int, failed bool) (last bool) {
	switch {
	case failed:
		p.now = max(p.now/2, 1)
	case rows < p.now:
		return true
	default:
		p.now = min(2*p.now, p.most)
	}
	return false
}

func (w *window) start(head store.Header, target int64, page int) {
	w.pending, w.running = newPageSize(page), newPageSize(page)
	// The earlier owner's inserts that were due lie directly above its mark.
	w.read = max(head.Read+1, target)
	w.cursor = store.Key{Kind: store.KindPending, At: head.LowPending, ID: afterAll}
	w.runCursor = store.Key{Kind: store.KindRunning, At: head.LowRunning, ID: afterAll}
	w.gone = map[job.ID]bool{}
	w.left = noneLeft
}

// leftRows are rows up to the cursor that were left in the store: at is the first
// place, then when the first wait ends and when the first own time comes.
type leftRows struct {
	at   int64
	then moment
}

var noneLeft = leftRows{math.MaxInt64, moment{math.MaxInt64, math.MaxInt64}}

// leave notes a row that is not due soon.
func (m *machine) leave(at int64, t timing, now moment) {
	l := &m.window.left
	l.at = min(l.at, at)
	if t.ripe > now.mono+m.cfg.horizon {
		l.then.mono = min(l.then.mono, t.ripe)
	} else {
		l.then.wall = min(l.then.wall, t.own)
	}
}

// afterAll is above any job id.
const afterAll = store.AboveAll

// holds reports whether a pending row belongs into memory.
func (w *window) holds(at, due, readAtPlan int64) bool {
	return at <= w.read || due <= readAtPlan
}

func (w *window) forgotten(id job.ID) {
	if w.loading {
		w.gone[id] = true
	}
}

// known is the mark up to which every pending row is in memory.
func (w *window) known() int64 {
	if w.complete {
		return min(w.read, w.left.at-1)
	}
	return min(w.cursor.At, w.left.at) - 1
}

// longestWait is for how long, in ms, an owner reads as far ahead as the clocks of
// earlier ones were ahead of its own: retries that have to wait longer may be found
// late.
const longestWait = int64(time.Hour / time.Millisecond)

// reach is how far, in scan order, pending rows are to be in memory. The waits of
// earlier owners lie where those would have been due by clocks that may have been
// ahead.
func (m *machine) reach(now moment) int64 {
	if now.mono-m.past.at.mono > longestWait {
		return now.wall + m.cfg.horizon
	}
	return now.wall + m.cfg.horizon + m.past.lead
}

// page returns the next range of pending rows to read, if one is wanted. When memory
// is full none is, unless nothing in it is due: what is may lie behind.
func (m *machine) page(now moment) (store.Range, bool) {
	w := &m.window
	piled := m.piled(store.KindPending) // read on, so that the marks can rise
	if m.head.Pause.On || w.loading || w.scanned >= m.cfg.maxLoaded && !piled || m.full() && m.waiting.due(now) > 0 {
		return store.Range{}, false
	}
	if w.behind {
		w.read, w.behind = max(w.read+1, m.reach(now)), false
	}
	if soon := m.cfg.horizon / 2; w.complete {
		target := m.reach(now)
		switch l := w.left; {
		case l.then.mono <= now.mono+soon || l.then.wall <= now.wall+soon || l != noneLeft && m.lifts():
			w.cursor = store.Key{Kind: store.KindPending, At: l.at - 1, ID: afterAll}
			w.left = noneLeft
		case target-w.read >= soon || piled && m.heldByRead():
			w.cursor = store.Key{Kind: store.KindPending, At: w.read, ID: afterAll}
			w.read = max(w.read+1, target)
		default:
			return store.Range{}, false
		}
		w.complete = false
	}
	w.loading = true
	return store.Range{Kind: store.KindPending, AfterAt: w.cursor.At, AfterID: w.cursor.ID, UpTo: w.read, Limit: w.pending.now}, true
}

// heldByRead: half of the pile of pending rows lies above the read mark, where the owner
// puts what is due at once.
func (m *machine) heldByRead() bool {
	p := &m.piles[store.KindPending]
	return len(p.dead)-p.below(m.window.read) >= m.pileUp()/2
}

// lifts: rows that are not due soon come into memory too, so that they can be moved.
func (m *machine) lifts() bool { return m.piled(store.KindPending) && !m.full() }

// loaded takes a page; failed: it could not be read.
func (m *machine) loaded(rows []store.Row, failed bool, now moment) {
	w := &m.window
	if w.void {
		w.void, w.loading = false, false
		clear(w.gone)
		return
	}
	for _, row := range rows {
		id := job.ID(row.ID)
		if m.jobs[id] != nil || w.gone[id] {
			continue
		}
		e, err := m.read(row, now)
		switch {
		case err != nil:
			m.unreadable(row, err)
		case !e.within(now, m.cfg.horizon) && !m.lifts():
			m.leave(row.At, e.timing, now)
		default:
			m.keep(e)
			m.waiting.add(e)
			e.scanned = true
			w.scanned++
		}
	}
	w.loading = false
	clear(w.gone)
	switch last := w.pending.read(len(rows), failed); {
	case last:
		w.complete = true
	case !failed:
		w.cursor = rows[len(rows)-1].Key
	}
}

// unreadable sends a pending row that holds no job to the dead letter queue, body
// and all: the low mark must not pass a live row.
func (m *machine) unreadable(row store.Row, err error) {
	e := &entry{job: job.Job{ID: job.ID(row.ID)}, body: row.Body, key: row.Key, timing: timing{due: row.Due}, tries: triesOf(row)}
	m.keep(e)
	m.push(&intent{kind: doClaim, e: e, condemned: "its row cannot be read: " + store.NoteOf(err), readable: true})
}

// runs returns the next range of running rows to rescue, if there is one.
func (m *machine) runs() (store.Range, bool) {
	w := &m.window
	if w.rescued || w.runScan {
		return store.Range{}, false
	}
	w.runScan = true
	return store.Range{Kind: store.KindRunning, AfterAt: w.runCursor.At, AfterID: w.runCursor.ID,
		UpTo: int64(job.FirstRunID(m.head.Fence)) - 1, Limit: w.running.now}, true
}

// ranBefore takes a page of running rows.
func (m *machine) ranBefore(rows []store.Row, failed bool, now moment) {
	w := &m.window
	w.runScan = false
	for _, row := range rows {
		m.rescue(row, now)
	}
	switch last := w.running.read(len(rows), failed); {
	case last:
		w.rescued = true
	case !failed:
		w.runCursor = rows[len(rows)-1].Key
	}
}

// marks computes the header's marks from the state before a batch: rows that it
// deletes still count, rows that it inserts lie above. seq is the last run's number
// before it. Low marks may lag, so with many jobs they are computed now and then only.
func (m *machine) marks(h *store.Header, seq uint32) {
	const few, often = 1000, 32
	h.Read = m.window.read
	if len(m.jobs) > few && h.Tick%often != 0 {
		return
	}
	pending, running := m.window.known(), h.LowRunning
	if m.window.rescued {
		running = int64(job.NewRunID(m.head.Fence, seq))
	}
	for _, e := range m.jobs {
		if e.running {
			running = min(running, e.key.At-1)
		} else {
			pending = min(pending, e.key.At-1)
		}
	}
	h.LowPending = max(h.LowPending, pending)
	h.LowRunning = max(h.LowRunning, running)
	h.LowEnded = max(h.LowEnded, m.sweeps.upTo)
}
