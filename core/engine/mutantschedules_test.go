package engine_test

import (
	"context"
	"fmt"
	"slices"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

func init() { mutants = append(mutants, scheduleMutants...) }

// recurring plants a mistake where there is much to be seen of schedules.
func recurring(f planter) func(*simConfig) {
	return func(c *simConfig) {
		c.plant, c.schedules, c.maxBytes = f, 4, max(c.maxBytes, 10<<10)
	}
}

// deciding plants another decision of schedules.
func deciding(f func(s schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision) func(*simConfig) {
	return recurring(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return s, o.WithDecide(func(s *schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
			return f(*s, st, now, limit)
		})
	})
}

// without drops operations of batches.
func without(drop func(b store.Batch, op store.Op) bool) func(*simConfig) {
	return recurring(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, commit: func(ctx context.Context, id store.ShardID, b store.Batch, n int) (store.CommitResult, error) {
			whole := b
			b.Ops = slices.DeleteFunc(slices.Clone(b.Ops), func(op store.Op) bool { return drop(whole, op) })
			return s.Commit(ctx, id, b, n)
		}}, o
	})
}

// madeBy is the job that the engine itself inserts with an operation.
func madeBy(b store.Batch, op store.Op) (j job.Job, ok bool) {
	for _, other := range b.Ops {
		if other.Kind == store.Put && other.Row.Kind == store.KindPending && other.Row.ID == op.Row.ID {
			j, err := job.Decode(other.Row.Body)
			return j, err == nil && !j.Occurrence.IsZero()
		}
	}
	return j, false
}

func fires(b store.Batch) bool {
	return has(b, func(op store.Op) bool {
		j, ok := madeBy(b, op)
		return op.Kind == store.PutNew && ok && j.After == ""
	})
}

func isState(op store.Op) bool {
	return op.Kind == store.Put && op.Row.Kind == store.KindSchedule && op.Row.At == 1
}

var scheduleMutants = []mutant{
	{"a schedule that advances without its job", []string{"schedule"}, without(func(b store.Batch, op store.Op) bool {
		j, ok := madeBy(b, op)
		return ok && j.After == "" && fires(b) && (op.Row.Kind == store.KindJob || op.Row.Kind == store.KindPending)
	})},
	{"an occurrence without the advance", []string{"schedule"}, without(func(b store.Batch, op store.Op) bool { return isState(op) && fires(b) })},
	{"a rate counted from now", []string{"schedule"}, deciding(func(s schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
		d := s.Decide(st, now, limit, void...)
		if n := len(d.Fire); n > 0 && s.Kind == schedule.FixedRate {
			d.State.Created = now
		}
		return d
	})},
	{"an occurrence by the time it is fired", []string{"schedule"}, deciding(func(s schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
		d := s.Decide(st, now, limit, void...)
		for n := range d.Fire {
			d.Fire[n].Nominal = now
		}
		return d
	})},
	{"two owners that fire", []string{"twice"}, func(c *simConfig) {
		recurring(noDedupe)(c)
		c.setup = func(s *sim.Store) { s.MatchStamp = func(_, _ store.Stamp) bool { return true } }
	}},
	{"no misfire is too late", []string{"schedule"}, deciding(func(s schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
		s.Misfire, s.Window = schedule.MisfireAll, schedule.MaxSpan
		return s.Decide(st, now, limit, void...)
	})},
	{"a window of half its length", []string{"schedule"}, deciding(func(s schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
		s.Window, s.Grace = s.Window/2, s.Grace/2
		return s.Decide(st, now, limit, void...)
	})},
	{"misfires are dropped", []string{"schedule"}, deciding(func(s schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
		s.Misfire = schedule.MisfireSkip
		return s.Decide(st, now, limit, void...)
	})},
	{"misses that are not counted", []string{"schedule"}, deciding(func(s schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
		d := s.Decide(st, now, limit, void...)
		d.State.Missed, d.Missed = st.Missed, 0
		return d
	})},
	{"occurrences overlap", []string{"schedule", "overlap"}, deciding(func(s schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
		s.Overlap = schedule.OverlapAllow
		return s.Decide(st, now, limit, void...)
	})},
	{"what should wait is skipped", []string{"schedule"}, deciding(func(s schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
		if s.Overlap == schedule.OverlapQueue && len(st.Queue) == 0 {
			s.Overlap = schedule.OverlapSkip
		}
		return s.Decide(st, now, limit, void...)
	})},
	{"half a second early", []string{"schedule"}, deciding(func(s schedule.Schedule, st schedule.State, now int64, limit int, void ...job.Occurrence) schedule.Decision {
		return s.Decide(st, now+500, limit, void...)
	})},
	{"the end of an occurrence is forgotten", []string{"schedule"}, without(func(b store.Batch, op store.Op) bool {
		return isState(op) && !fires(b) && has(b, func(op store.Op) bool { return op.Kind == store.Delete && op.Row.Kind == store.KindRunning })
	})},
	{"a job that should follow is lost", []string{"sequence"}, without(func(b store.Batch, op store.Op) bool {
		j, ok := madeBy(b, op)
		return ok && j.After != "" && has(b, func(o store.Op) bool { return o.Kind == store.PutNew && o.Row.ID == op.Row.ID }) &&
			(op.Row.Kind == store.KindJob || op.Row.Kind == store.KindPending)
	})},
	{"a removed schedule leaves a row", []string{"schedule-rows"}, without(func(_ store.Batch, op store.Op) bool {
		return op.Kind == store.Delete && op.Row.Kind == store.KindSchedule && op.Row.At == 1
	})},
	{"schedules are forgotten by a takeover", []string{"liveness", "schedule"}, recurring(func(_ *world, _ *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
		return altered{Shards: s, scaned: func(_ store.ShardID, rows []store.Row) []store.Row {
			return slices.DeleteFunc(rows, func(r store.Row) bool { return r.Kind == store.KindSchedule })
		}}, o
	})},
	{"schedules as they were when they were first read", []string{"schedule"}, recurring(firstRead)},
	{"a trigger is told before it is settled", []string{"told"}, recurring(earlyAnswers(func(_ *world, _ store.ShardID, b store.Batch) bool { return has(b, isState) && fires(b) }))},
	{"a schedule is told of before it is settled", []string{"told"}, recurring(earlyAnswers(func(_ *world, _ store.ShardID, b store.Batch) bool { return has(b, isState) && !fires(b) }))},
	{"an observer that is not told what fires", []string{"changes"}, recurring(liar(func(c *engine.Change) bool { return c.Kind != engine.StepFire }))},
	{"an observer that is told of other misses", []string{"schedule"}, recurring(liar(func(c *engine.Change) bool {
		if c.Kind == engine.StepFire {
			c.Missed++
		}
		return true
	}))},
	{"an observer that is not told the nominal time", []string{"changes"}, recurring(liar(func(c *engine.Change) bool {
		c.Occurrence.Nominal = 0
		return true
	}))},
}

// firstRead answers with the schedules' rows as the node first read them.
func firstRead(w *world, p *process, s store.Shards, o engine.Options) (store.Shards, engine.Options) {
	return altered{Shards: s, scaned: func(id store.ShardID, list []store.Row) []store.Row {
		w.mu.Lock()
		defer w.mu.Unlock()
		rows := w.firstRows
		for n, r := range list {
			if r.Kind != store.KindSchedule {
				continue
			}
			name := fmt.Sprint(p.node, id, r.Key)
			if first, ok := rows[name]; ok {
				list[n] = first
			} else {
				rows[name] = r
			}
		}
		return list
	}}, o
}
