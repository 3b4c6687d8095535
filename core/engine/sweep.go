package engine

import (
	"slices"

	"fencepost/core/job"
	"fencepost/core/store"
)

// sweeps forgets ended jobs whose dedupe window is over.
type sweeps struct {
	// upTo: every ended row up to here is gone.
	upTo    int64
	loading bool
	// target is the end of the range that is being swept, cursor where the last page of
	// it ended, and left how many of that page's rows have not been swept.
	target int64
	cursor store.Key
	left   int
	size   pageSize
	// end is the mark when they are.
	end int64
	// asked is the look into the inbox by which was swept last, waits the one that
	// showed jobs which must stay: only a later one can say otherwise.
	asked, waits int64
}

func newSweeps(low int64, page int) sweeps {
	return sweeps{upTo: low, cursor: store.Key{Kind: store.KindEnded, At: low, ID: afterAll}, size: newPageSize(page)}
}

// sweepRange returns the ended rows to sweep next: those whose window was over
// before the last complete look into the inbox began.
func (m *machine) sweepRange(inboxSeen int64) (store.Range, bool) {
	s := &m.sweeps
	target := inboxSeen - m.cfg.dedupe
	if s.loading || s.left > 0 || target <= s.upTo || len(m.singles) > 0 || inboxSeen == s.waits {
		return store.Range{}, false
	}
	s.loading, s.target, s.asked = true, target, inboxSeen
	return store.Range{Kind: store.KindEnded, AfterAt: s.cursor.At, AfterID: s.cursor.ID, UpTo: target, Limit: s.size.now}, true
}

// sweep takes ended rows. The first so many of them may go; what lies behind one that
// may not waits with it: the mark could not rise over it.
func (m *machine) sweep(rows []store.Row, failed bool, may int) {
	s := &m.sweeps
	s.loading = false
	last := s.size.read(len(rows), failed)
	switch {
	case failed:
		return
	case last:
		s.end = s.target
		s.cursor.At, s.cursor.ID = s.target, afterAll
	default:
		s.cursor = rows[len(rows)-1].Key
		s.end = s.cursor.At - 1 // the next page may have more at that place
	}
	if may < len(rows) {
		s.waits, s.end = s.asked, rows[may].At-1
		s.cursor.At, s.cursor.ID = s.end, afterAll
	}
	for _, row := range rows[:may] {
		s.left++
		m.push(&intent{kind: doSweep, ended: row, swept: namedBy(row)})
	}
	m.swept(0)
}

// namedBy are the jobs that rows of the index name.
func namedBy(rows ...store.Row) (out []job.ID) {
	for _, row := range rows {
		for _, id := range row.Indexed() {
			out = append(out, job.ID(id))
		}
	}
	return out
}

// swept: so many rows are gone. The mark rises with each page.
func (m *machine) swept(n int) {
	s := &m.sweeps
	s.left -= n
	if s.left == 0 && !s.loading {
		s.upTo = max(s.upTo, s.end)
	}
}

// sweep takes a page of ended rows, of which those may go that the inbox does not hold:
// such a job would be copied again once its job row is gone, and run a second time. What
// their jobs have left elsewhere is retired first: if this owner does not come to delete
// the rows, the next one finds them and retires that again.
func (o *owner) sweep(rows []store.Row, failed bool, inInbox map[string]bool) {
	retire, below := o.e.o.Retire, o.m.lowestRun()
	may := slices.IndexFunc(rows, func(r store.Row) bool {
		return slices.ContainsFunc(r.Indexed(), func(id string) bool { return inInbox[id] }) || retire != nil && job.RunID(r.Run) >= below
	})
	if may < 0 {
		may = len(rows)
	}
	if retire == nil || may == 0 {
		o.m.sweep(rows, failed, may)
		return
	}
	ended := namedBy(rows[:may]...)
	o.e.wg.Go(func() {
		ctx, stop := o.e.timeout(o.ctx, o.e.o.TTL)
		err := retire(ctx, o.id, below, ended)
		stop()
		o.post(func() {
			if err != nil {
				o.warn("what ended jobs have left cannot be removed: they are remembered until it is", err)
				may = 0
			}
			o.m.sweep(rows, failed, may)
		})
	})
}

// lowestRun is the lowest run of the shard that is at work or may be claimed by the batch
// that is on its way; if there is none, the next one. A run of an earlier owner is none:
// its job waits to be rescued.
func (m *machine) lowestRun() job.RunID {
	low := job.NewRunID(m.head.Fence, m.planned+1)
	for _, e := range m.jobs {
		if e.started {
			low = min(low, e.run)
		}
	}
	return low
}
