package enginetest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
)

// simSchedule is a schedule with what its operators will do, and what they were told.
type simSchedule struct {
	queue, key string
	defs       []schedule.Definition // put in turn
	plan       []simOrder

	// Guarded by World.mu.
	told []simTold
	runs map[job.ID][]*simRun
}

// simOrder is a command that is given some time after the one before it.
type simOrder struct {
	after time.Duration
	cmd   engine.ScheduleCommand
}

// simTold is one call with its answer.
type simTold struct {
	cmd       engine.ScheduleCommand
	begun     time.Time
	returned  time.Time
	outcome   store.Outcome
	duplicate bool
	err       error
}

func (w *World) makeSchedules() {
	if w.cfg.days > 0 {
		w.makeCalendar()
		return
	}
	r := rand.New(rand.NewPCG(w.cfg.seed, 11))
	queues := w.queues()
	for n := range w.cfg.schedules {
		s := &simSchedule{queue: queues[n%len(queues)].Name, key: fmt.Sprint("s", n/len(queues)), runs: map[job.ID][]*simRun{}}
		for range 2 {
			s.defs = append(s.defs, w.drawDefinition(s, r))
		}
		if r.IntN(2) == 0 { // the same times, another job
			s.defs[1].Timing = s.defs[0].Timing
			if s.defs[0].Kind == schedule.FixedDelay || s.defs[1].Misfire == "" {
				s.defs[1].Misfire, s.defs[1].Window, s.defs[1].Overlap = s.defs[0].Misfire, s.defs[0].Window, s.defs[0].Overlap
			}
		}
		order := func(verb engine.Verb, def *schedule.Definition, trigger string) {
			c := engine.ScheduleCommand{Verb: verb, Queue: s.queue, Key: s.key, Definition: def, Trigger: trigger}
			s.plan = append(s.plan, simOrder{time.Duration(r.Int64N(int64(w.cfg.duration / 5))), c})
		}
		order(engine.PutSchedule, &s.defs[0], "")
		for k := range r.IntN(6) {
			switch r.IntN(5) {
			case 0:
				order(engine.PutSchedule, &s.defs[1], "")
			case 1:
				order(engine.DisableSchedule, nil, "")
				if r.IntN(4) > 0 {
					order(engine.EnableSchedule, nil, "")
				}
			case 2:
				order(engine.RemoveSchedule, nil, "")
				order(engine.PutSchedule, &s.defs[r.IntN(2)], "")
			default:
				order(engine.TriggerSchedule, nil, fmt.Sprint("t", k))
			}
		}
		w.schedules = append(w.schedules, s)
	}
}

func (w *World) drawDefinition(s *simSchedule, r *rand.Rand) schedule.Definition {
	ttl := w.cfg.ttl
	whole := func(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) + time.Millisecond }
	until := simEpoch.Add(whole(w.cfg.duration/2 + time.Duration(r.Int64N(int64(w.cfg.duration)))))
	every := whole(time.Second + time.Duration(r.Int64N(int64(time.Second))))
	d := schedule.Definition{Queue: s.queue, Key: s.key}
	switch r.IntN(8) {
	case 0:
		d.Timing = schedule.Timing{Kind: schedule.Now}
	case 1:
		d.Timing = schedule.Timing{Kind: schedule.At, At: simEpoch.Add(whole(time.Duration(r.Int64N(int64(w.cfg.duration)))))}
	case 2, 3:
		d.Timing = schedule.Timing{Kind: schedule.Cron, Cron: fmt.Sprintf("*/%d * * * * *", 1+r.IntN(3)), Zone: "Asia/Ho_Chi_Minh",
			Until: until}
	case 4:
		d.Timing = schedule.Timing{Kind: schedule.FixedDelay, Every: every, Until: until}
	default:
		d.Timing = schedule.Timing{Kind: schedule.FixedRate, Every: every, Until: until}
	}
	d.Misfire = []schedule.Misfire{schedule.MisfireSkip, schedule.MisfireOnce, schedule.MisfireAll}[r.IntN(3)]
	d.Overlap = []schedule.Overlap{schedule.OverlapAllow, schedule.OverlapSkip, schedule.OverlapQueue}[r.IntN(3)]
	if d.Kind == schedule.FixedDelay {
		d.Misfire = schedule.MisfireOnce
		if d.Overlap == schedule.OverlapAllow {
			d.Overlap = schedule.OverlapSkip
		}
	}
	d.Grace = whole(ttl/2 + time.Duration(r.Int64N(int64(3*ttl))))
	if d.Misfire == schedule.MisfireAll {
		d.Window = d.Grace + whole(time.Duration(r.Int64N(int64(4*ttl))))
	}
	step := func() job.Job {
		j := job.Job{Kind: "recurring", MaxAttempts: 1 + r.IntN(3), MaxDuration: 4 * ttl, Retry: job.Exponential(ttl/8, 2, ttl)}
		if r.IntN(3) == 0 {
			j.Rescue = job.AtMostOnce
		}
		if r.IntN(2) == 0 {
			j.OnFailure = job.GoOn
		}
		return j
	}
	d.Job = step()
	for range r.IntN(3) {
		d.Job.Then = append(d.Job.Then, step())
	}
	return d
}

// nominal is the oracle: the nominal times of a definition in (after, upTo]. Of a
// fixed delay they depend on more than that.
func nominal(d schedule.Definition, created, after, upTo int64) (out []int64) {
	first, every := created, int64(1)
	if !d.At.IsZero() {
		first = d.At.UnixMilli()
	}
	switch d.Kind {
	case schedule.Now, schedule.At:
		upTo = min(upTo, first)
	case schedule.FixedRate:
		every = d.Every.Milliseconds()
	case schedule.Cron:
		_, _ = fmt.Sscanf(d.Cron, "*/%d", &every)
		every *= 1000
		first = 0 // all minutes begin alike in its zone
		for minute := (after/60000 - 1) * 60000; minute <= upTo; minute += 60000 {
			for t := minute; t < minute+60000; t += every {
				out = append(out, t)
			}
		}
	}
	for t := first; t <= upTo && d.Kind != schedule.Cron; t += every {
		out = append(out, t)
	}
	return slices.DeleteFunc(out, func(t int64) bool {
		return t <= after || t > upTo || !d.Until.IsZero() && t >= d.Until.UnixMilli()
	})
}

// planner gives the orders for one schedule.
func (w *World) planner(ctx context.Context, s *simSchedule, r *rand.Rand) {
	for _, o := range s.plan {
		sleep(ctx, o.after+time.Duration(r.Int64N(int64(w.cfg.ttl/10)+1)))
		for try := 0; ctx.Err() == nil && (try < 12 || w.cfg.days > 0); try++ {
			if w.order(ctx, s, o.cmd, r) {
				break
			}
			sleep(ctx, time.Duration(1+r.Int64N(int64(w.cfg.ttl/2))))
		}
	}
}

// order gives a command once, and reports whether the answer is the last word.
func (w *World) order(ctx context.Context, s *simSchedule, c engine.ScheduleCommand, r *rand.Rand) bool {
	shard := shardIn(s.queue, w.scheduleID(s))
	p := w.near(shard, 8, r)
	rctx, stop := context.WithTimeout(ctx, w.cfg.ttl/10+time.Duration(r.Int64N(int64(3*w.cfg.ttl))))
	defer stop()
	told := simTold{cmd: c, begun: time.Now()}
	var rec engine.Receipt
	if addr := p.eng.OwnerAddr(shard); addr != "" {
		rec, told.err = p.client.Schedule(rctx, addr, c)
	} else {
		rec, told.err = p.eng.Schedule(rctx, c)
	}
	told.returned, told.duplicate, told.outcome = time.Now(), rec.Duplicate, store.OutcomeOf(told.err)
	if !p.answered() {
		told.outcome, told.err = store.Unknown, errCrashed // nobody heard the answer
	} else if told.err != nil && !errors.As(told.err, new(*engine.CommandError)) {
		w.violate("error", "a command on a schedule returned %T: %v", told.err, told.err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.told = append(s.told, told)
	w.counts["schedule-"+string(c.Verb)+"-"+told.outcome.String()]++
	if errors.Is(told.err, schedule.ErrOverlap) {
		w.counts["overlap"]++
	}
	return told.outcome == store.OK || errors.Is(told.err, engine.ErrUnknownSchedule)
}

func (w *World) scheduleID(s *simSchedule) job.ID {
	return job.ScheduleID(s.queue, s.key, w.cfg.shards)
}

// scheduleOf is the schedule of whose occurrences a job is one.
func (w *World) scheduleOf(j job.Job) *simSchedule {
	for _, s := range w.schedules {
		if s.queue == j.Queue && s.key == j.Occurrence.Schedule {
			return s
		}
	}
	return nil
}

// chance is a number that a job has for all its runs.
func chanceOf(id job.ID, salt string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(salt + string(id)))
	return h.Sum64() >> 8
}

// recur is the handler of the schedules' jobs.
func (p *process) recur(ctx context.Context, t *worker.Task) (err error) {
	w, j := p.w, t.Run.Job
	s := w.scheduleOf(j)
	r := &simRun{p: p, run: t.Run.ID, attempt: t.Run.Attempt, begun: time.Now(), valid: t.Valid}
	w.mu.Lock()
	if p.crashed {
		w.mu.Unlock()
		return errCrashed
	}
	s.runs[j.ID] = append(s.runs[j.ID], r)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		r.returned, r.err = time.Now(), err
		w.mu.Unlock()
	}()
	w.onlyOccurrence(s, j)
	if _, err := t.Open(ctx, "done"); err != nil {
		return err
	}
	length := time.Duration(chanceOf(j.ID, "length") % uint64(w.cfg.ttl/2))
	if chanceOf(j.ID, "long")%4 == 0 {
		length *= 4
	}
	if err := p.clock.Sleep(ctx, length+1); err != nil {
		return err
	}
	w.onlyOccurrence(s, j)
	if chanceOf(j.ID, "fails")%5 == 0 && t.Run.Attempt <= int(chanceOf(j.ID, "often")%4) {
		return errors.New("as it should")
	}
	_, err = t.Apply(ctx, sink.Effect{Key: "done", Intent: "do it"})
	return err
}

// onlyOccurrence checks that no two occurrences of a schedule are at work that must
// not overlap.
func (w *World) onlyOccurrence(s *simSchedule, j job.Job) {
	if w.cfg.beyond || !w.alwaysExclusive(s) {
		return
	}
	var at []string
	w.mu.Lock()
	var live []*simRun
	for _, runs := range s.runs {
		for _, r := range runs {
			if !r.p.crashed && r.returned.IsZero() {
				live = append(live, r)
			}
		}
	}
	w.mu.Unlock()
	for _, r := range live {
		if r.valid() {
			at = append(at, r.run.String())
		}
	}
	if len(at) > 1 {
		w.violate("overlap", "%s: runs %s are entitled at once", j.Key, strings.Join(at, ", "))
	}
}

// alwaysExclusive: nothing that the operators do lets occurrences overlap. After a
// removal nobody knows what is at work, and a redriven job does not count.
func (w *World) alwaysExclusive(s *simSchedule) bool {
	for _, o := range s.plan {
		if o.cmd.Verb == engine.RemoveSchedule || o.cmd.Definition != nil && o.cmd.Definition.Overlap == schedule.OverlapAllow {
			return false
		}
	}
	return true
}
