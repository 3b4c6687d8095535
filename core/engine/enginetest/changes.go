package enginetest

import (
	"slices"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// changes compares what was reported to the Observer about a batch with what the batch does to
// the rows as they were before it: every change, and nothing else.
func (t *truth) changes(s *shardTruth, c sim.ShardChange) {
	v := t.w.violate
	if size := (store.Batch{Ops: c.Ops}).Bytes(); size > t.w.cfg.maxBytes {
		v("bytes", "%s at %s: a batch of %d bytes, at most %d are allowed", c.Shard, c.To.Stamp, size, t.w.cfg.maxBytes)
	}
	r := t.told[c.To.Nonce]
	if r == nil {
		v("changes", "%s: the batch to %s was applied and was not reported", c.Shard, c.To.Stamp)
		return
	}
	told := map[job.ID][]engine.Change{}
	bodies := map[string][]byte{}
	for _, op := range c.Ops {
		if op.Kind == store.Put && (op.Row.Kind == store.KindPending || op.Row.Kind == store.KindRunning) {
			bodies[op.Row.ID] = op.Row.Body
		}
	}
	for _, x := range r.op.Changes {
		if x.Job == "" {
			continue // of a schedule, or of the shard
		}
		told[x.Job] = append(told[x.Job], x)
	}
	for _, op := range c.Ops {
		if op.Row.Kind != store.KindJob {
			continue
		}
		id := job.ID(op.Row.ID)
		before, there := s.rows[op.Row.Key]
		if there && op.Kind == store.Put && moved(before, op.Row) {
			continue
		}
		want := changesOf(before, there, op, c.To.Fence)
		if j, err := job.Decode(bodies[op.Row.ID]); err == nil && want[0].Kind == engine.StepEnqueue {
			want[0].After, want[0].Occurrence = j.After, j.Occurrence
		}
		if got := told[id]; !slices.Equal(got, want) {
			v("changes", "%s at %s: told %+v, and the batch does %+v", c.Shard, c.To.Stamp, got, want)
		}
		delete(told, id)
	}
	for _, x := range told {
		v("changes", "%s at %s: told %+v, and the batch does nothing to that job", c.Shard, c.To.Stamp, x)
	}
	if ops := len(c.Ops); r.op.Rows != ops {
		v("changes", "%s at %s: %d rows reported, and there are %d", c.Shard, c.To.Stamp, r.op.Rows, ops)
	}
}

// changesOf is what an operation on a job's row does, by the row before it: the one that inserts it may
// claim it too.
func changesOf(before store.Row, there bool, op store.Op, fence int64) []engine.Change {
	last := changeOf(before, there, op, fence)
	if op.Kind == store.PutNew && last.Kind == engine.StepClaim {
		return []engine.Change{{Kind: engine.StepEnqueue, Job: last.Job, Due: last.Due}, last}
	}
	return []engine.Change{last}
}

// changeOf is what an operation on a job's row does, by the row before it.
func changeOf(before store.Row, there bool, op store.Op, fence int64) engine.Change {
	row := op.Row
	out := engine.Change{Job: job.ID(row.ID), Run: job.RunID(row.Run), Attempt: row.Attempt}
	if op.Kind == store.Delete {
		return engine.Change{Kind: engine.StepSweep, Job: out.Job}
	}
	switch job.State(row.State) {
	case job.Running:
		out.Kind, out.Due = engine.StepClaim, row.Due
	case job.Completed:
		out.Kind = engine.StepComplete
	case job.DLQ:
		out.Kind = engine.StepDLQ
	case job.Cancelled:
		out.Kind = engine.StepCancel
	case job.Abandoned:
		out.Kind = engine.StepAbandon
	case job.Pending:
		out.Due = row.Due
		switch {
		case !there:
			out.Kind = engine.StepEnqueue
		case before.State == string(job.Pending):
			out.Kind = engine.StepHasten
		case before.State == string(job.DLQ):
			return engine.Change{Kind: engine.StepRedrive, Job: out.Job, Due: row.Due}
		case job.RunID(before.Run).Fence() < fence:
			out.Kind = engine.StepRescue
		default:
			out.Kind = engine.StepRetry
		}
	}
	return out
}
