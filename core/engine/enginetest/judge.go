package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// unfinished names jobs of those asked about that are or may be in the store and have
// not ended, by the store's own rows. Asked about nil it is about schedules' jobs.
func (w *World) unfinished(asked func(*simJob) bool) string {
	var out []string
	about := func(id string) bool { return asked(w.byID[job.ID(id)]) }
	for _, id := range w.shardIDs() {
		_, rows := w.store.ShardRows(id)
		for _, r := range rows {
			if (r.Kind == store.KindPending || r.Kind == store.KindRunning) && about(r.ID) {
				out = append(out, fmt.Sprintf("%s %s", id, r.Key))
			}
		}
		for _, r := range w.store.InboxRows(id) {
			if about(r.ID) {
				out = append(out, fmt.Sprintf("%s inbox %s", id, r.ID))
			}
		}
	}
	sort.Strings(out)
	if len(out) > 4 {
		out = append(out[:4], fmt.Sprintf("and %d more", len(out)-4))
	}
	if len(out) == 0 {
		return ""
	}
	return fmt.Sprint(out)
}

// judge compares what was reported with the store's and the sink's history.
func (w *World) judge() {
	t := w.replay()
	for _, r := range w.ops {
		w.judgeOp(r, t.nonces[r.op.To.Nonce])
	}
	for _, j := range w.jobs {
		w.judgeJob(j, t.jobs[j.job.ID], t)
	}
	for _, s := range w.schedules {
		w.judgeTold(s, t.steps[string(w.scheduleID(s))])
	}
	if w.calendar != nil {
		w.judgeCalendar(t)
	}
	w.judgePauses(t)
	w.judgeQueuePauses(t)
	for _, err := range w.store.Overrun() {
		w.violate("dead", "%v", err)
	}
	for _, c := range w.store.InboxChanges() {
		if !c.Deleted {
			w.counts["inbox-insert"]++
		}
	}
	for _, j := range t.jobs {
		w.counts["job-"+string(j.state())]++
		if j.swept {
			w.counts["swept"]++
		}
	}
}

func (w *World) judgeOp(r *recordedOp, applied int) {
	name := fmt.Sprintf("%s: %s of %s from %s to %s", r.p.name, r.op.Kind, r.op.Shard, r.op.From, r.op.To)
	switch {
	case r.result == nil:
		if !r.p.crashed {
			w.violate("end", "%s never ended", name)
		}
	case r.result.Outcome == store.OK && applied != 1:
		w.violate("ok", "%s was reported ok and applied %d times", name, applied)
	case r.result.Outcome == store.Fail && applied != 0:
		w.violate("fail", "%s was reported fail and applied", name)
	}
}

func (w *World) judgeJob(j *simJob, t *jobTruth, all *truth) {
	id := j.job.ID
	if t == nil || t.inserted == 0 {
		if j.acked {
			w.violate("acked-lost", "job %s was acknowledged and never was in its shard", id)
		}
		return
	}
	first := w.firstSeen(id, t)
	if j.first == nil && !slices.ContainsFunc(j.enqueues, func(e simEnqueue) bool { return e.outcome != store.Fail && !e.begun.After(first) }) {
		w.violate("fail", "job %s was in the store at %s, and every enqueue that had begun by then was reported fail", id, first.Sub(w.begun))
	}
	if !t.state().Ended() {
		w.violate("acked-lost", "job %s ends as %s", id, t.state())
	}
	w.judgeEnd(j, t)
	w.judgeRuns(j, all)
	w.judgeCommands(j, t)
	w.judgeEffects(j, t)
	w.judgeLeft(j, t)
	w.judgeForgotten(j, t)
}

// judgeEnd checks that the job came to the right end.
func (w *World) judgeEnd(j *simJob, t *jobTruth) {
	bad := func(format string, args ...any) {
		w.violate("end-state", "job %s ended as %s: %s", j.job.ID, t.state(), fmt.Sprintf(format, args...))
	}
	worked, cancelled := false, false
	for _, r := range j.runs {
		if int64(r.run) == t.run && !r.returned.IsZero() {
			worked = worked || r.err == nil
			cancelled = cancelled || job.IsCancel(r.err)
		}
	}
	switch t.state() {
	case job.Completed:
		if !worked {
			bad("its last run %d did not succeed", t.run)
		}
	case job.Cancelled:
		if t.states[len(t.states)-2] == job.Running && (worked || !cancelled && j.cancels.asked == 0) {
			bad("its last run %d did not cancel it; it succeeded: %v", t.run, worked)
		}
	case job.Abandoned:
		if j.job.Rescue != job.AtMostOnce {
			bad("its policy is %s", j.job.Rescue)
		}
	case job.DLQ:
		if n := t.attempt - t.spared; n < j.job.MaxAttempts && t.spared < job.MaxInterruptions && j.poison == "" {
			bad("after %d of %d attempts", n, j.job.MaxAttempts)
		}
	}
	if t.claims-t.spared > j.job.MaxAttempts {
		w.violate("attempts", "job %s was claimed %d times, of which %d do not count; at most %d are allowed", j.job.ID, t.claims,
			t.spared, j.job.MaxAttempts)
	}
}

// judgeRuns checks that handlers ran under committed claims, one a claim.
func (w *World) judgeRuns(j *simJob, t *truth) {
	started := map[job.RunID]bool{}
	hastened := t.jobs[j.job.ID].hastened
	for _, r := range j.runs {
		if r.early > 0 && (len(hastened) == 0 || hastened[0].After(r.begun)) {
			w.violate("early", "job %s: started %s before it was due, by %s's own clock", j.job.ID, r.early, r.p.name)
		}
		at, ok := t.claims[r.run][w.shardOf(j.job.ID)]
		if !ok || at.After(r.begun) {
			w.violate("claim", "job %s: run %s started before its claim was committed", j.job.ID, r.run)
		}
		if started[r.run] {
			w.violate("claim", "job %s: run %s was started twice", j.job.ID, r.run)
		}
		started[r.run] = true
		if n := t.jobs[j.job.ID].attempts[r.run]; r.attempt != n {
			w.violate("attempts", "job %s: run %s is told that it is attempt %d, and was claimed as %d", j.job.ID, r.run, r.attempt, n)
		}
		w.judgeLength(j, r)
		w.judgeBody(j, r, t.jobs[j.job.ID])
	}
}

// judgeEffects checks the sink's ledger.
func (w *World) judgeEffects(j *simJob, t *jobTruth) {
	left, _ := w.sink.Ledger(context.Background(), worker.Resource(j.job))
	ledger := append(slices.Clone(w.retired[worker.Resource(j.job)]), left...)
	n := map[string]int{}
	var highest int64
	for _, e := range ledger {
		if e.Token < highest {
			w.violate("effects", "job %s: token %d was accepted after %d", j.job.ID, e.Token, highest)
		}
		highest = max(highest, e.Token)
		if e.Kind == sink.KindAccept {
			n[e.Key]++
		}
	}
	least, most := w.effects(t)
	for _, k := range j.keys {
		if n[k] < least || n[k] > most {
			w.violate("effects", "job %s, %s after %d other lives: effect %s was accepted %d times", j.job.ID, t.state(), t.lives, k, n[k])
		}
	}
}

// appliedStep is a change of a schedule in the store, and what the schedule is from
// then on.
type appliedStep struct {
	at       time.Time
	kind     engine.StepKind
	trigger  string
	has      bool
	body     string // of the definition
	disabled bool
}

// during returns what a schedule was at any time in [from, to].
func during(steps []appliedStep, from, to time.Time) (out []appliedStep) {
	var last appliedStep
	for _, s := range steps {
		if s.at.After(to) {
			break
		}
		if !s.at.Before(from) {
			out = append(out, s)
		} else {
			last = s
		}
	}
	return append([]appliedStep{last}, out...)
}

var verbSteps = map[engine.Verb]engine.StepKind{engine.PutSchedule: engine.StepPut, engine.RemoveSchedule: engine.StepRemove,
	engine.EnableSchedule: engine.StepEnable, engine.DisableSchedule: engine.StepDisable, engine.TriggerSchedule: engine.StepTrigger}

// judgeTold compares what operators of a schedule were told with what was done.
func (w *World) judgeTold(s *simSchedule, steps []appliedStep) {
	maybe := map[string]int{}
	name := func(verb engine.StepKind, trigger string) string { return string(verb) + " " + trigger }
	for _, told := range s.told {
		kind := verbSteps[told.cmd.Verb]
		if told.outcome != store.Fail && !told.duplicate {
			maybe[name(kind, told.cmd.Trigger)]++
		}
		meanwhile := during(steps, told.begun, told.returned)
		done := slices.ContainsFunc(meanwhile[1:], func(a appliedStep) bool { return a.kind == kind && a.trigger == told.cmd.Trigger })
		was := func(f func(appliedStep) bool) bool { return slices.ContainsFunc(meanwhile, f) }
		right := true
		switch {
		case errors.Is(told.err, engine.ErrUnknownSchedule):
			right = was(func(a appliedStep) bool { return !a.has })
		case told.outcome != store.OK:
		case !told.duplicate:
			right = done
		case told.cmd.Verb == engine.PutSchedule:
			right = was(func(a appliedStep) bool { return a.has && a.body == w.bodyOf(*told.cmd.Definition) })
		case told.cmd.Verb == engine.TriggerSchedule:
			right = slices.ContainsFunc(steps, func(a appliedStep) bool {
				return a.kind == kind && a.trigger == told.cmd.Trigger && !a.at.After(told.returned)
			})
		default:
			right = was(func(a appliedStep) bool { return a.has && a.disabled == (told.cmd.Verb == engine.DisableSchedule) })
		}
		if !right {
			w.violate("told", "schedule %s: %s %s: told %s, duplicate %v, %v; it was %+v", s.key, told.cmd.Verb, told.cmd.Trigger,
				told.outcome, told.duplicate, told.err, meanwhile)
		}
	}
	for _, a := range steps {
		n := name(a.kind, a.trigger)
		if a.kind == engine.StepFire || a.kind == engine.StepOver {
			continue
		}
		if maybe[n]--; maybe[n] < 0 {
			w.violate("told", "schedule %s: %s was done more often than anybody may have asked for", s.key, n)
		}
	}
}

func (w *World) bodyOf(d schedule.Definition) string {
	s, err := schedule.New(d, w.cfg.shards)
	if err != nil {
		return err.Error()
	}
	body, _ := s.Encode()
	return string(body)
}

// sequences checks that the next job of a sequence is inserted by the very batch that
// ends the one before it, and that a schedule learns of the end of what it waits for.
func (t *truth) sequences(s *shardTruth, c sim.ShardChange, after func() map[store.Key]store.Row) {
	v := t.w.violate
	follows := map[job.ID]bool{}
	for _, op := range c.Ops {
		if op.Row.Kind == store.KindPending {
			if j, err := job.Decode(op.Row.Body); err == nil && j.After != "" {
				if _, old := s.rows[store.Key{Kind: store.KindJob, ID: op.Row.ID}]; !old {
					follows[j.After] = true
				}
			}
		}
	}
	for _, op := range c.Ops {
		if op.Row.Kind != store.KindJob || op.Kind == store.Delete || !job.State(op.Row.State).Ended() {
			continue
		}
		body, ok := t.bodies[op.Row.ID]
		j, err := job.Decode(body)
		if !ok || err != nil {
			continue
		}
		state := job.State(op.Row.State)
		want, has := t.follows(j, state)
		if follows[j.ID] != want {
			v("sequence", "%s: job %s ends as %s, is followed %v, want %v", c.To.Stamp, j.Key, state, follows[j.ID], want)
		}
		what := map[bool]string{true: "plain-"}[j.Occurrence.IsZero()]
		if want {
			t.w.counts[what+"followed-"+op.Row.State]++
		} else if has {
			t.w.counts[what+"stopped-"+op.Row.State]++
		}
		delete(follows, j.ID)
		if j.Occurrence.IsZero() || want {
			continue
		}
		id := string(job.ScheduleID(c.Shard.Queue, j.Occurrence.Schedule, t.w.cfg.shards))
		if r, ok := t.scheduleIn(after(), id); ok && r.state.Active == j.Occurrence {
			v("schedule", "%s: %s has ended and its schedule still waits for it", c.To.Stamp, j.Key)
		}
	}
	for id := range follows {
		v("sequence", "%s: a job follows %s, which has not ended", c.To.Stamp, id)
	}
	for _, op := range c.Ops {
		if op.Kind == store.Put && (op.Row.Kind == store.KindPending || op.Row.Kind == store.KindRunning) {
			t.bodies[op.Row.ID] = op.Row.Body
		}
	}
}
