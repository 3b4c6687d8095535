package checker

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
)

// The rules of the job engine that a simulation can switch off.
const (
	bugDoubleClaim   bug = "a running job is claimed again"
	bugPlainComplete bug = "a completion is written outside of a batch"
	bugOtherToken    bug = "the token of another shard"
	bugZombie        bug = "an owner goes on under the fence of the next"
	bugOverwrite     bug = "an enqueue overwrites the job that is there"
	bugSweepEarly    bug = "job rows are swept at once"
	bugNoRescue      bug = "running jobs of earlier owners are not rescued"
	bugCountsCut     bug = "runs that were cut short count as attempts"
	bugRetryNow      bug = "a job whose run failed is tried again at once"
)

// simRow is a job's rows in a shard.
type simRow struct {
	state   string
	attempt int
	spared  int // of them, that were cut short
	run     int64
	due     int64
	said    int64 // under which fence that was said
	ended   int64
	// redriven: once is enough, or the run would not end.
	redriven bool
	hastened bool
	by       *simOwner // who changed it last
	ghost    bool      // its pending row is still there
}

// own is the time of its own that the job still has.
func (r *simRow) own(j *simJob) int64 {
	if r.hastened {
		return 0
	}
	return j.DueMS
}

// simShard is a perfect shard: header, rows and inbox.
type simShard struct {
	name   string
	head   history.Version
	free   bool
	paused bool // no run is claimed
	rows   map[string]*simRow
	inbox  map[string]int64
	owner  *simOwner
	actor  *simOwner // whose batch is being done
}

// simJob is a job as it was asked for.
type simJob struct {
	history.Job
	id     string
	poison bool
}

const simWall = int64(1_700_000_000_000) // ms since 1970 when the clock stands at 0

// wall is a life's wall clock; each worker's is a little wrong, or more.
func (w *world) wall(life string) int64 {
	return simWall + w.now/1e6 + int64(life[1]-'0')*(7+w.cfg.apart.Milliseconds())
}

func (w *world) setUpShards() {
	w.jobs = map[string]*simJob{}
	for i := range w.cfg.shards {
		w.shards = append(w.shards, &simShard{
			name: fmt.Sprintf("shard/jobs/%d", i), free: true, rows: map[string]*simRow{}, inbox: map[string]int64{},
			head: history.Version{Attempt: "00000000-0000-0000-0000-000000000000"},
		})
	}
}

// commit executes one copy of a batch.
func (s *simShard) commit(w *world, op history.Op, from, to history.Version, changes []history.Change) casReply {
	old := s.head
	tick := op == history.OpTick
	switch b := w.cfg.bug; {
	case old == from, tick && b == bugPlainTick:
	default:
		return casReply{false, old}
	}
	for _, c := range changes {
		if c.Do == history.DoEnqueue && s.rows[c.Job] != nil && w.cfg.bug != bugOverwrite {
			return casReply{false, old}
		}
	}
	if tick && w.cfg.bug == bugPlainTick && w.cfg.noted {
		s.actor.plainStatement("BEGIN UNLOGGED BATCH UPDATE shards SET fence = ?, tick = ? WHERE queue = ? AND shard = ?; INSERT INTO shards (queue, id) VALUES (?, ?); APPLY BATCH")
	}
	s.head, s.free = to, op == history.OpHandOver || s.actor != nil && s.actor.left
	for _, c := range changes {
		s.apply(w, c)
		if r := s.rows[c.Job]; r != nil && r.state == past.StatePending {
			r.said = to.Fence
		}
	}
	return casReply{true, old}
}

func (s *simShard) apply(w *world, c history.Change) {
	if past.Pauses(&c) {
		s.paused = c.Do == history.DoPause
		return
	}
	r := s.rows[c.Job]
	if r == nil && c.Do != history.DoEnqueue {
		return // of a batch that is done twice
	}
	if r != nil {
		defer func() { r.by = s.actor }()
	}
	end := func(state string) { r.state, r.ended = state, w.now }
	switch c.Do {
	case history.DoEnqueue:
		s.rows[c.Job] = &simRow{state: past.StatePending, due: c.DueMS, by: s.actor}
	case history.DoClaim:
		r.state, r.run, r.attempt, r.ghost = past.StateRunning, c.Run, c.Attempt, w.cfg.bug == bugClaimLeaves && !r.ghost
	case history.DoComplete:
		end(past.StateCompleted)
	case history.DoRedrive:
		r.state, r.due, r.attempt, r.spared, r.redriven = past.StatePending, c.DueMS, 0, 0, true
	case history.DoHasten:
		r.due, r.hastened = c.DueMS, true
	case history.DoRetry:
		r.state, r.due = past.StatePending, c.DueMS
	case history.DoRescue:
		r.state, r.due = past.StatePending, c.DueMS
		r.spared++
	case history.DoDLQ:
		end(past.StateDLQ)
	case history.DoCancel:
		end(past.StateCancelled)
	case history.DoAbandon:
		end(past.StateAbandoned)
	case history.DoSweep:
		delete(s.rows, c.Job)
	}
}

// idle: nothing is left to do.
func (s *simShard) idle() bool {
	for _, r := range s.rows {
		if !past.Ended(r.state) {
			return false
		}
	}
	return len(s.inbox) == 0
}

// producer enqueues jobs until the run ends.
func (c *simClient) producer(t *task) {
	w := c.w
	for !w.done && !w.draining && (w.cfg.maxEvents == 0 || w.n < w.cfg.maxEvents) {
		c.enqueue(t, w.pick(history.Life(c.proc)))
		c.sleep(t, w.between(10*time.Millisecond, 150*time.Millisecond))
	}
}

// pick makes a job, or takes one that was enqueued before.
func (w *world) pick(life string) *simJob {
	if ids := slices.Sorted(maps.Keys(w.jobs)); len(ids) > 0 && w.chance(0.08) {
		return w.jobs[ids[w.rng.IntN(len(ids))]]
	}
	j := &simJob{id: fmt.Sprintf("j%d", len(w.jobs)+1)}
	j.Queue, j.Shard, j.Kind = "jobs", w.shards[w.rng.IntN(len(w.shards))].name, "count"
	j.MaxAttempts = 1 + w.rng.IntN(4)
	j.Retry = &history.Retry{BaseMS: 60, Factor: 2, MaxMS: 200, Jitter: 0.1}
	if len(w.jobs)%2 == 0 {
		j.Retry = &history.Retry{DelaysMS: []int64{0, 150}}
	}
	j.MaxDurationMS = 10_000
	j.Resource = "job/jobs/" + j.id
	for i := range 1 + w.rng.IntN(2) {
		j.Steps = append(j.Steps, fmt.Sprintf("s%d", i+1))
	}
	if w.chance(0.4) {
		j.DueMS = w.wall(life) + int64(w.rng.IntN(1500))
	}
	j.AtMostOnce, j.poison = w.chance(0.15), w.chance(0.03)
	w.jobs[j.id] = j
	w.sinks[j.Resource] = &simSink{applied: map[string]int64{}}
	return j
}

// enqueue is a client's whole call: by the owner if there is one, else the inbox.
func (c *simClient) enqueue(t *task, j *simJob) {
	w := c.w
	e := history.Event{Proc: c.proc, ID: c.f.id(), Type: history.Invoke, Op: history.OpEnqueue, Key: j.id}
	inv := e
	inv.OwnDetails().Job = &j.Job
	w.record(c.f, inv)
	s := w.shard(j.Shard)
	if o := s.owner; o != nil && o.valid() && !w.done && w.chance(0.85) {
		q := &simEnqueue{j: j}
		o.queue = append(o.queue, q)
		until := w.now + 3*int64(w.cfg.ttl)
		lost := w.chance(w.cfg.noise / 4)
		for q.outcome == "" && w.now < until {
			c.sleep(t, 2*time.Millisecond)
		}
		e.Type, e.Result = q.outcome, q.result
		if q.outcome == "" || lost {
			e.Type, e.Result, e.Error = history.Unknown, "", "no answer of the owner"
		} else if q.outcome != history.OK {
			e.Error = "shard lost"
		}
		w.record(c.f, e)
		return
	}
	r := c.request(t, 3, w.cfg.ttl/6, func() any {
		if _, there := s.inbox[j.id]; there {
			return past.ResultDuplicate
		}
		s.inbox[j.id] = j.DueMS
		return past.ResultInbox
	})
	e.Sends = r.sends
	switch {
	case r.refused:
		e.Type, e.Error = history.Fail, "not sent"
	case !r.answered:
		e.Type, e.Error = history.Unknown, "timeout"
	default:
		e.Type, e.Result = history.OK, r.result.(string)
	}
	w.record(c.f, e)
}

func (w *world) shard(name string) *simShard {
	for _, s := range w.shards {
		if s.name == name {
			return s
		}
	}
	return nil
}

// drain waits until every job has come to its end.
func (w *world) drain(t *task) {
	w.draining = true
	for range 4000 {
		t.sleep(w.cfg.ttl / 4)
		if !slices.ContainsFunc(w.shards, func(s *simShard) bool { return !s.idle() }) {
			return
		}
	}
}

// sealShards is the harness's last look at shards and their jobs' resources.
func (w *world) sealShards() {
	for _, s := range w.shards {
		from := s.head
		to := history.Version{Fence: from.Fence + 1, Beat: from.Beat + 1, Attempt: w.uuid()}
		e := history.Event{Proc: history.Harness, ID: w.host.id(), Type: history.Invoke, Op: history.OpSeal, Key: s.name, From: &from, To: &to}
		w.record(w.host, e)
		s.head = to
		w.record(w.host, history.Event{Proc: history.Harness, ID: e.ID, Type: history.OK, Op: history.OpSeal, Key: s.name})
		r := history.Event{Proc: history.Harness, ID: w.host.id(), Type: history.Invoke, Op: history.OpRead, Key: s.name}
		w.record(w.host, r)
		r.Type, r.Row = history.OK, &to
		w.record(w.host, r)
		for _, id := range slices.Sorted(maps.Keys(s.rows)) {
			r := s.rows[id]
			row := func(x history.JobRow) {
				w.record(w.host, history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteRow, Key: id, Issuer: s.name, Details: &history.Details{JobRow: &x}})
			}
			row(history.JobRow{Kind: history.RowJob, State: r.state, Attempt: r.attempt, Run: r.run})
			row(history.JobRow{Kind: past.RowKindOf(r.state), Attempt: r.attempt, Run: r.run, DueMS: r.due})
		}
		for _, id := range slices.Sorted(maps.Keys(s.inbox)) {
			w.record(w.host, history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteRow, Key: id, Issuer: s.name, Details: &history.Details{JobRow: &history.JobRow{Kind: history.RowInbox, DueMS: s.inbox[id]}}})
		}
		w.record(w.host, history.Event{Proc: history.Harness, Type: history.Note, Op: history.NoteRowsEnd, Issuer: s.name})
	}
	for _, id := range slices.Sorted(maps.Keys(w.jobs)) {
		w.finalRead(w.jobs[id].Resource)
	}
}
