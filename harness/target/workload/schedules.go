package workload

import (
	"context"
	"fmt"
	"sync"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/scheduler"
	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// recurrence puts a recurring schedule into each shard, which fires at a fixed rate
// whatever became of the occurrences before, and disables them when the run drains.
// Every worker does, as each command may be repeated: so a killed one leaves nothing
// undone.
type recurrence struct {
	*process
	scheduler *scheduler.Scheduler
	names     names
}

func newRecurrence(p *process, s *scheduler.Scheduler) *recurrence {
	return &recurrence{process: p, scheduler: s, names: names{prefix: p.cfg.Life + "/s"}}
}

// definition is the same for every worker and life, so that it is put once.
func (j *Jobs) definition(key string) schedule.Definition {
	template := j.template(payload{Length: j.Length, Steps: j.steps()}, job.Stop)
	first := template
	for range j.Sequence {
		first.Then = append(first.Then, template)
	}
	return schedule.Definition{
		Queue: j.Queue, Key: key, Timing: schedule.Timing{Kind: schedule.FixedRate, Every: j.Every},
		Misfire: schedule.MisfireAll, Window: j.Window, Grace: min(j.Window, schedule.DefaultGrace), Overlap: schedule.OverlapAllow,
		Job: first,
	}
}

// keys are names of schedules, one for each shard.
func (j *Jobs) keys() []string {
	keys := make([]string, j.Shards)
	for n, found := 0, 0; found < j.Shards; n++ {
		key := fmt.Sprintf("every-%d", n)
		if s, err := job.ScheduleID(j.Queue, key, j.Shards).Shard(); err == nil && keys[s] == "" {
			keys[s] = key
			found++
		}
	}
	return keys
}

// run puts the schedules, and disables them when feed ends before ctx does.
func (r *recurrence) run(ctx, feed context.Context) {
	if r.cfg.Jobs.Every <= 0 {
		return
	}
	r.all(feed, engine.PutSchedule)
	<-feed.Done()
	if ctx.Err() == nil {
		r.all(ctx, engine.DisableSchedule)
	}
}

// all gives a command on each schedule until it is carried out, or ctx ends.
func (r *recurrence) all(ctx context.Context, verb engine.Verb) {
	r.counts.enqueuing.Add(1) // the drain waits for it
	defer r.counts.enqueuing.Add(-1)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, key := range r.cfg.Jobs.keys() {
		proc := r.names.take()
		wg.Go(func() {
			defer r.names.give(proc)
			for ctx.Err() == nil && r.once(context.WithoutCancel(ctx), proc, verb, key) != nil {
				sleep(ctx, r.cfg.TTL/10)
			}
		})
	}
}

// once gives a command on a schedule and records it.
func (r *recurrence) once(ctx context.Context, proc string, verb engine.Verb, key string) error {
	cmd := engine.ScheduleCommand{Verb: verb, Queue: r.cfg.Jobs.Queue, Key: key}
	if verb == engine.PutSchedule {
		d := r.cfg.Jobs.definition(key)
		cmd.Definition = &d
	}
	request := history.Event{Proc: proc, Op: history.OpSchedule, Key: key, Details: &history.Details{Schedule: r.cfg.Jobs.asked(verb, key)}}
	return r.ask(ctx, request, func(ctx context.Context) (string, error) {
		rec, err := r.scheduler.Schedule(ctx, cmd)
		if rec.Duplicate {
			return "duplicate", err
		}
		return "applied", err
	})
}

// doings are the verbs as the history writes them.
var doings = map[engine.Verb]string{engine.PutSchedule: history.DoPut, engine.DisableSchedule: history.DoDisable}

// asked is what the history says of a command.
func (j *Jobs) asked(verb engine.Verb, key string) *history.Schedule {
	id := job.ScheduleID(j.Queue, key, j.Shards)
	n, _ := id.Shard() // of an id that was just made
	s := &history.Schedule{Queue: j.Queue, Shard: engine.Issuer(store.ShardID{Queue: j.Queue, Shard: n}), Do: doings[verb]}
	if verb != engine.PutSchedule {
		return s
	}
	d := j.definition(key)
	s.EveryMS, s.WindowMS = d.Every.Milliseconds(), d.Window.Milliseconds()
	spec := specOf(d.Job, s.Shard, j.Queue)
	s.Job = &spec
	return s
}
