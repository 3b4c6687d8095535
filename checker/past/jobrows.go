package past

import (
	"fmt"
	"maps"
	"slices"

	"fencepost/harness/record/history"
)

// compareRows holds the rows that were left against where the replay ends (P2): a
// difference is an acknowledged write that is lost, or one that nobody made.
func (a *Past) compareRows() {
	unread := map[string]bool{}
	for _, j := range a.Jobs.List {
		l := a.RowOf[j.Shard]
		switch {
		case j.Locked(): // its state is what its row says
			if rows := j.rowsOf(history.RowJob); len(rows) > 1 {
				a.Jobs.add("P2", j.ID, rows, "there are %d rows of job %s", len(rows), j.ID)
			}
			continue
		case l == nil:
			if j.hasRows() {
				a.Jobs.add("P2", j.ID, j.Rows, "%s holds rows of job %s, but no operation on it is recorded", j.Shard, j.ID)
			}
			continue
		case !l.Complete:
			continue // what is missing is P14's
		case !a.RowsRead(j):
			if j.Now.Name != "" && !unread[j.Shard] {
				unread[j.Shard] = true
				a.Jobs.Unread = append(a.Jobs.Unread, j.Shard)
			}
			continue
		}
		if why := j.Differs(); why != "" {
			a.Jobs.add("P2", j.ID, append(Events(j.Last()), j.Rows...),
				"by the batches that took effect job %s is %s, but the rows of %s say otherwise: %s", j.ID, j.Now, j.Shard, why)
		}
	}
}

// RowsRead says whether what is not among the rows of a job's shard is not there. A harness
// that does not say where they end has read them if there is any.
func (a *Past) RowsRead(j *Job) bool {
	of := j.Shard
	if j.Locked() {
		of = ""
	}
	return a.Jobs.Ends[of] || !a.NotesRowsEnd() && (a.Jobs.rows[of] > 0 || j.Locked() && a.Jobs.lockedRows > 0)
}

// NotesRowsEnd says whether the harness notes where the rows of a shard end.
func (a *Past) NotesRowsEnd() bool {
	return slices.ContainsFunc(a.Expects, func(e *history.Event) bool { return e.Expect().RowsEnd })
}

// hasRows says whether the partition of its shard has rows of the job.
func (j *Job) hasRows() bool {
	return slices.ContainsFunc(j.Rows, func(e *history.Event) bool { return e.JobRow().Kind != history.RowInbox })
}

// RowKindOf is the kind of row that a job in a state has beside its job row.
func RowKindOf(state string) string {
	switch {
	case state == StatePending:
		return history.RowPending
	case state == StateRunning:
		return history.RowRunning
	case state == StateDLQ:
		return history.RowDLQ
	case Ended(state):
		return history.RowEnded
	}
	return ""
}

// Differs says how the rows differ from the job's state, "" if they do not.
func (j *Job) Differs() string {
	want := map[string]bool{RowKindOf(j.Now.Name): true}
	if j.Now.Name != "" {
		want[history.RowJob] = true
	}
	seen := map[string]int{}
	for _, e := range j.Rows {
		kind := e.JobRow().Kind
		if kind == history.RowInbox {
			continue // a copy whose deletion is lost does no harm
		}
		if seen[kind]++; !want[kind] {
			return fmt.Sprintf("there is a row of kind %s", kind)
		}
		if seen[kind] > 1 {
			return fmt.Sprintf("there are two rows of kind %s", kind)
		}
		if why := j.rowDiffers(e.JobRow()); why != "" {
			return why
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(want)) {
		if kind != "" && seen[kind] == 0 {
			return fmt.Sprintf("there is no row of kind %s", kind)
		}
	}
	return ""
}

func (j *Job) rowDiffers(r *history.JobRow) string {
	s := j.Now
	switch r.Kind {
	case history.RowJob:
		if r.State != s.Name || r.Attempt != s.Attempt || r.Run != s.Run {
			return fmt.Sprintf("its job row says %s, attempt %d, run %d; it should say %s, attempt %d, run %d",
				r.State, r.Attempt, r.Run, s.Name, s.Attempt, s.Run)
		}
	case history.RowRunning:
		if r.Run != s.Run || r.Attempt != s.Attempt {
			return fmt.Sprintf("its running row is of run %d, attempt %d", r.Run, r.Attempt)
		}
	case history.RowPending:
		if r.DueMS != s.Due || r.Attempt != s.Attempt {
			return fmt.Sprintf("its pending row is of attempt %d and due at %d instead of attempt %d and %d", r.Attempt, r.DueMS, s.Attempt, s.Due)
		}
	}
	return ""
}
