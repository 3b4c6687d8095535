package checker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fencepost/harness/record/history"
)

// compareRows holds the rows that were left against where the replay ends (P2): a
// difference is an acknowledged write that is lost, or one that nobody made.
func (a *past) compareRows() {
	unread := map[string]bool{}
	for _, j := range a.jobs.list {
		l := a.row[j.shard]
		switch {
		case j.locked(): // its state is what its row says
			if rows := j.rowsOf(history.RowJob); len(rows) > 1 {
				a.jobs.add("P2", j.id, rows, "there are %d rows of job %s", len(rows), j.id)
			}
			continue
		case l == nil:
			if j.left() {
				a.jobs.add("P2", j.id, j.rows, "%s holds rows of job %s, but no operation on it is recorded", j.shard, j.id)
			}
			continue
		case !l.whole:
			continue // what is missing is P14's
		case !a.rowsRead(j):
			if j.now.name != "" && !unread[j.shard] {
				unread[j.shard] = true
				a.jobs.unread = append(a.jobs.unread, j.shard)
			}
			continue
		}
		if why := j.differs(); why != "" {
			a.jobs.add("P2", j.id, append(both(j.last()), j.rows...), "by the batches that took effect job %s is %s, but the rows of %s say otherwise: %s", j.id, j.now, j.shard, why)
		}
	}
}

// rowsRead says whether what is not among the rows of a job's shard is not there. A harness
// that does not say where they end has read them if there is any.
func (a *past) rowsRead(j *jobLog) bool {
	of := j.shard
	if j.locked() {
		of = ""
	}
	return a.jobs.ends[of] || !a.endsRows() && (a.jobs.rows[of] > 0 || j.locked() && a.jobs.lockedRows > 0)
}

// endsRows says whether the harness notes where the rows of a shard end.
func (a *past) endsRows() bool {
	return slices.ContainsFunc(a.expects, func(e *history.Event) bool { return e.Expect().RowsEnd })
}

// checkRowsEnd is the part of P14 that says which rows were not read.
func (a *past) checkRowsEnd(p *Property) {
	if !a.endsRows() {
		return
	}
	for _, l := range a.rows {
		if l.shard && !a.jobs.ends[l.name] {
			p.add(l.name, nil, "the rows of shard %s were not read to their end after the run (no rows-end note)", l.name)
		}
	}
	if a.jobs.locked > 0 && !a.jobs.ends[""] {
		p.add("", nil, "the rows of the jobs were not read to their end after the run (no rows-end note)")
	}
}

// left says whether the partition of its shard has rows of the job.
func (j *jobLog) left() bool {
	for _, e := range j.rows {
		if e.JobRow().Kind != history.RowInbox {
			return true
		}
	}
	return false
}

// placeOf is the kind of row that a job in a state has beside its job row.
func placeOf(state string) string {
	switch {
	case state == statePending:
		return history.RowPending
	case state == stateRunning:
		return history.RowRunning
	case state == stateDLQ:
		return history.RowDLQ
	case ended(state):
		return history.RowEnded
	}
	return ""
}

// differs says how the rows differ from the job's state, "" if they do not.
func (j *jobLog) differs() string {
	want := map[string]bool{placeOf(j.now.name): true}
	if j.now.name != "" {
		want[history.RowJob] = true
	}
	seen := map[string]int{}
	for _, e := range j.rows {
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

func (j *jobLog) rowDiffers(r *history.JobRow) string {
	s := j.now
	switch r.Kind {
	case history.RowJob:
		if r.State != s.name || r.Attempt != s.attempt || r.Run != s.run {
			return fmt.Sprintf("its job row says %s, attempt %d, run %d; it should say %s, attempt %d, run %d", r.State, r.Attempt, r.Run, s.name, s.attempt, s.run)
		}
	case history.RowRunning:
		if r.Run != s.run || r.Attempt != s.attempt {
			return fmt.Sprintf("its running row is of run %d, attempt %d", r.Run, r.Attempt)
		}
	case history.RowPending:
		if r.DueMS != s.due || r.Attempt != s.attempt {
			return fmt.Sprintf("its pending row is of attempt %d and due at %d instead of attempt %d and %d", r.Attempt, r.DueMS, s.attempt, s.due)
		}
	}
	return ""
}

// replayText says in P2's detail what was done about jobs, "" without jobs.
func (x *jobs) replayText() string {
	if !x.any() {
		return ""
	}
	if x.locked == len(x.list) {
		return x.lockedText()
	}
	out := fmt.Sprintf("; the lives of %s replayed", plural(len(x.list), "job"))
	if n := len(x.unread); n > 0 {
		return out + fmt.Sprintf(", not compared with the rows of %s, which were not read", strings.Join(x.unread[:min(n, 3)], ", "))
	}
	return out + " and compared with the rows that were left"
}
