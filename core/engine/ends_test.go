package engine

import (
	"errors"
	"testing"

	"fencepost/core/job"
	"fencepost/core/store"
)

// TestARunEndsOnce: an executor that reports an end once more, or one of a job that is gone,
// changes nothing.
func TestARunEndsOnce(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"the job is gone": nil, "it waits for a retry": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.enqueue(1, 0)
			r.tick(0)
			run := r.runs(1)[0]
			r.m.settled(r.finish(run, err))
			r.m.take()
			if p := r.finish(run, nil); p != nil {
				t.Errorf("it ends once more: %s", what(p))
			}
		})
	}
}

// TestEndsShareARow: jobs that one batch ends are named by one row of the index for up to seven of them,
// with the last of their runs; and are swept by one batch, with that row.
func TestEndsShareARow(t *testing.T) {
	t.Parallel()
	for _, jobs := range []int{1, 2, store.MaxIndexed, store.MaxIndexed + 1, 3 * store.MaxIndexed} {
		r := newRig(t, func(c *machineConfig) { c.maxOps, c.maxRunning = 100, 100 })
		for n := range jobs {
			r.enqueue(n, 0)
		}
		r.tick(0)
		for _, run := range r.runs(jobs) {
			r.m.finished(run.Job.ID, run.ID, nil, r.now, 0)
		}
		p := r.next(0)
		var index []store.Row
		named, last := map[string]bool{}, int64(0)
		for _, op := range p.batch.Ops {
			if op.Kind == store.Put && op.Row.Kind == store.KindEnded {
				index = append(index, op.Row)
				last = max(last, op.Row.Run)
				for _, id := range op.Row.Indexed() {
					named[id] = true
				}
			}
		}
		if rows := (jobs + store.MaxIndexed - 1) / store.MaxIndexed; len(index) != rows || len(named) != jobs || len(p.batch.Ops) != 2*jobs+rows || job.RunID(last).Seq() != uint32(jobs) {
			t.Errorf("%d jobs: %d changes, %d rows of the index with %d jobs, the last run is %d", jobs, len(p.batch.Ops), len(index), len(named), job.RunID(last).Seq())
		}
		if size := (store.Batch{Ops: p.batch.Ops}).Bytes(); size != p.bytes {
			t.Errorf("%d jobs: a batch of %d bytes counts as %d", jobs, size, p.bytes)
		}
		r.m.settled(p)
		r.m.take()
		r.m.sweeps.target = index[0].At
		r.m.sweep(index, false, len(index))
		p = r.next(0)
		gone := map[store.Key]bool{}
		for _, op := range p.batch.Ops {
			gone[op.Row.Key] = op.Kind == store.Delete
		}
		for _, row := range index {
			for _, id := range row.Indexed() {
				if !gone[jobKey(job.ID(id))] || !gone[row.Key] {
					t.Errorf("%d jobs: %s is not swept with its row", jobs, id)
				}
			}
		}
		r.m.settled(p)
		swept := 0
		for _, x := range r.m.take() {
			if x.kind == effDone && named[string(x.run.Job.ID)] {
				swept++
			}
		}
		if swept != jobs || len(p.changes()) != jobs {
			t.Errorf("%d jobs: %d are told to be swept, and %d changes", jobs, swept, len(p.changes()))
		}
	}
}

// TestASweepBesideAnEnqueue: a job that is enqueued again while its row is swept waits for the next batch,
// whichever of the row's jobs it is.
func TestASweepBesideAnEnqueue(t *testing.T) {
	t.Parallel()
	for again := range 3 {
		r := newRig(t)
		var ids []string
		for n := range 3 {
			ids = append(ids, string(r.job(n).ID))
		}
		row := store.Row{Key: store.Key{Kind: store.KindEnded, At: 1, ID: ids[0]}, Body: []byte(ids[1] + " " + ids[2])}
		r.m.sweep([]store.Row{row}, false, 1)
		r.enqueue(again, 0)
		p := r.next(0)
		if len(p.intents) != 1 || p.intents[0].kind != doSweep {
			t.Errorf("job %d: %s", again, what(p))
		}
		r.m.settled(p)
		if p = r.next(0); len(p.intents) != 1 || p.intents[0].kind != doEnqueue {
			t.Errorf("job %d, then: %s", again, what(p))
		}
	}
}
