package engine

import (
	"fencepost/core/job"
	"fencepost/core/store"
)

// window is the part of the pending rows that is in memory. Rows up to the read
// mark are loaded page by page; what the owner inserts lies above the mark, and is
// kept in memory at once if it is due within the window.
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
	// rescued: all running rows of earlier owners are known.
	rescued   bool
	runCursor store.Key
	runScan   bool
}

func (w *window) start(head store.Header, target int64) {
	// The earlier owner's inserts that were due lie directly above its mark.
	w.read = max(head.Read+1, target)
	w.cursor = store.Key{Kind: store.KindPending, At: head.LowPending, ID: afterAll}
	w.runCursor = store.Key{Kind: store.KindRunning, At: head.LowRunning, ID: afterAll}
	w.gone = map[job.ID]bool{}
}

// afterAll is above any job id.
const afterAll = "\x7f"

// holds reports whether a pending row belongs into memory.
func (w *window) holds(at, due, readAtPlan int64) bool {
	return at <= w.read || due <= readAtPlan
}

func (w *window) forgotten(id job.ID) {
	if w.loading {
		w.gone[id] = true
	}
}

// scanned is the mark up to which every pending row is in memory.
func (w *window) scanned() int64 {
	if w.complete {
		return w.read
	}
	return w.cursor.At - 1
}

// page returns the next range of pending rows to read, if one is wanted.
func (m *machine) page(wall int64) (store.Range, bool) {
	w := &m.window
	if w.loading || len(m.jobs) >= m.cfg.maxLoaded {
		return store.Range{}, false
	}
	if w.complete {
		target := wall + m.cfg.horizon
		if target-w.read < m.cfg.horizon/2 {
			return store.Range{}, false
		}
		w.cursor = store.Key{Kind: store.KindPending, At: w.read, ID: afterAll}
		w.read, w.complete = target, false
	}
	w.loading = true
	return store.Range{Kind: store.KindPending, AfterAt: w.cursor.At, AfterID: w.cursor.ID, UpTo: w.read, Limit: m.cfg.page}, true
}

// loaded takes a page; failed: it could not be read.
func (m *machine) loaded(rows []store.Row, failed bool) {
	w := &m.window
	for _, row := range rows {
		id := job.ID(row.ID)
		if m.jobs[id] != nil || w.gone[id] {
			continue
		}
		e, err := m.read(row)
		if err != nil {
			m.unreadable(row, err)
			continue
		}
		m.jobs[id] = e
		m.waiting.add(e)
	}
	w.loading = false
	clear(w.gone)
	switch {
	case failed:
	case len(rows) < m.cfg.page:
		w.complete = true
	default:
		w.cursor = rows[len(rows)-1].Key
	}
}

// unreadable sends a pending row that holds no job to the dead letter queue, body
// and all: the low mark must not pass a live row.
func (m *machine) unreadable(row store.Row, err error) {
	e := &entry{job: job.Job{ID: job.ID(row.ID)}, body: row.Body, key: row.Key, due: row.Due, attempt: row.Attempt, run: job.RunID(row.Run)}
	m.jobs[e.job.ID] = e
	m.queue = append(m.queue, &intent{kind: doClaim, e: e, condemned: "its row cannot be read: " + note(err), readable: true})
}

// runs returns the next range of running rows to rescue, if there is one.
func (m *machine) runs() (store.Range, bool) {
	w := &m.window
	if w.rescued || w.runScan {
		return store.Range{}, false
	}
	w.runScan = true
	return store.Range{Kind: store.KindRunning, AfterAt: w.runCursor.At, AfterID: w.runCursor.ID,
		UpTo: int64(job.FirstRunID(m.head.Fence)) - 1, Limit: m.cfg.page}, true
}

// ranBefore takes a page of running rows.
func (m *machine) ranBefore(rows []store.Row, failed bool, wall int64) {
	w := &m.window
	w.runScan = false
	for _, row := range rows {
		m.rescue(row, wall)
	}
	switch {
	case failed:
	case len(rows) < m.cfg.page:
		w.rescued = true
	default:
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
	pending, running := m.window.scanned(), h.LowRunning
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

// trims returns range deletions up to the marks of the settled header, which no
// later batch can fall behind.
func (m *machine) trims() []store.Op {
	var ops []store.Op
	for _, t := range []struct {
		kind store.Kind
		low  int64
	}{{store.KindPending, m.head.LowPending}, {store.KindRunning, m.head.LowRunning}, {store.KindEnded, m.head.LowEnded}} {
		if m.deleted[t.kind] >= int64(m.cfg.trimEvery) && t.low > m.trimmed[t.kind] {
			ops = append(ops, store.Op{Kind: store.DeleteUpTo, Row: store.Row{Key: store.Key{Kind: t.kind, At: t.low}}})
		}
	}
	return ops
}

// sweeps forgets ended jobs whose dedupe window is over.
type sweeps struct {
	// upTo: every ended row up to here is gone.
	upTo    int64
	loading bool
	// target is the end of the range that is being swept, left how many of
	// its rows are.
	target int64
	left   int
	more   bool
}

// sweepRange returns the ended rows to sweep next: those whose window was over
// before the last complete look into the inbox began.
func (m *machine) sweepRange(inboxSeen int64) (store.Range, bool) {
	s := &m.sweeps
	target := inboxSeen - m.cfg.dedupe
	if s.loading || s.left > 0 || target <= s.upTo || len(m.groups) > 0 {
		return store.Range{}, false
	}
	s.loading, s.target = true, target
	return store.Range{Kind: store.KindEnded, AfterAt: s.upTo, AfterID: afterAll, UpTo: target, Limit: m.cfg.page}, true
}

// sweep takes ended rows. inInbox are the jobs that the inbox holds: such a row
// would be copied again once its job row is gone, and run a second time.
func (m *machine) sweep(rows []store.Row, failed bool, inInbox map[string]bool) {
	s := &m.sweeps
	s.loading = false
	if failed {
		return
	}
	s.more = len(rows) == m.cfg.page
	kept := false
	for _, row := range rows {
		if inInbox[row.ID] {
			kept = true
			continue
		}
		s.left++
		m.queue = append(m.queue, &intent{kind: doSweep, ended: row})
	}
	s.more = s.more || kept
	m.swept(0)
}

func (m *machine) swept(n int) {
	s := &m.sweeps
	s.left -= n
	if s.left == 0 && !s.loading && !s.more {
		s.upTo = max(s.upTo, s.target)
	}
}
