package engine

import (
	"slices"

	"fencepost/core/job"
	"fencepost/core/store"
)

// sweep takes a page of ended rows, of which those may go that the inbox does not hold:
// such a job would be copied again once its job row is gone, and run a second time. What
// their jobs have left elsewhere is retired first: if this owner does not come to delete
// the rows, the next one finds them and retires that again.
func (o *owner) sweep(rows []store.Row, failed bool, inInbox map[string]bool) {
	retire, below := o.e.o.Retire, o.m.lowestRun()
	may := slices.IndexFunc(rows, func(r store.Row) bool {
		return inInbox[r.ID] || retire != nil && job.RunID(r.Run) >= below
	})
	if may < 0 {
		may = len(rows)
	}
	if retire == nil || may == 0 {
		o.m.sweep(rows, failed, may)
		return
	}
	ended := make([]job.ID, may)
	for n, row := range rows[:may] {
		ended[n] = job.ID(row.ID)
	}
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
