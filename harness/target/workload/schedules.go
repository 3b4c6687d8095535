package workload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// Recurring is a recurring schedule of the workload: a definition, and what is done to it while
// it fires.
type Recurring struct {
	Key     string           `json:"key"`
	Kind    schedule.Kind    `json:"kind"`
	At      time.Duration    `json:"at_ns,omitempty"`    // instants, from the begin of the run on; 0: none
	Until   time.Duration    `json:"until_ns,omitempty"` // negative: before it
	Every   time.Duration    `json:"every_ns,omitempty"`
	Cron    string           `json:"cron,omitempty"`
	Zone    string           `json:"zone,omitempty"`
	Overlap schedule.Overlap `json:"overlap,omitempty"`
	Misfire schedule.Misfire `json:"misfire,omitempty"`
	Grace   time.Duration    `json:"grace_ns,omitempty"`
	Window  time.Duration    `json:"window_ns,omitempty"`
	// Length is how long each of its jobs takes; 0: as long as the other jobs of the run.
	Length time.Duration `json:"length_ns,omitempty"`
	// Upset is what one worker does to it, and then undoes or repeats, each Pace; "" for nothing.
	Upset Upset         `json:"upset,omitempty"`
	Pace  time.Duration `json:"pace_ns,omitempty"`
}

// Upset is what is done to a schedule while it fires.
type Upset string

// The upsets.
const (
	UpsetChange  Upset = "change"  // it is put with another timing, and as it was again
	UpsetDisable Upset = "disable" // and enabled
	UpsetRemove  Upset = "remove"  // and put again
	UpsetTrigger Upset = "trigger" // it is fired by hand, by new names, twice by each, and by those of the life before
)

// Upsets are all of them.
var Upsets = []Upset{UpsetChange, UpsetDisable, UpsetRemove, UpsetTrigger}

// otherCron is the expression of a changed schedule, and otherEvery by how much its distance grows.
const (
	otherCron  = "*/3 * * * * *"
	otherEvery = time.Second
)

// Definition is what is put, for a job, in a run that began at an instant.
func (r Recurring) Definition(queue string, first job.Job, begin time.Time) schedule.Definition {
	instant := func(d time.Duration) (t time.Time) {
		if d != 0 {
			t = begin.Add(d)
		}
		return t
	}
	return schedule.Definition{
		Queue: queue, Key: r.Key,
		Timing:  schedule.Timing{Kind: r.Kind, At: instant(r.At), Until: instant(r.Until), Every: r.Every, Cron: r.Cron, Zone: r.Zone},
		Misfire: r.Misfire, Window: r.Window, Grace: r.Grace, Overlap: r.Overlap, Job: first,
	}
}

// changed is the definition with another timing; of kind now, which has none, with another grace.
func changed(d schedule.Definition) schedule.Definition {
	switch d.Kind {
	case schedule.Now:
		d.Grace += schedule.DefaultGrace
	case schedule.At:
		d.At = d.At.Add(otherEvery)
	case schedule.Cron:
		d.Cron = otherCron
	default:
		d.Every += otherEvery
	}
	return d
}

// recurrence puts recurring schedules, and disables them when the run drains: one into each
// shard of each queue, which fires at a fixed rate whatever became of the occurrences before, and those that
// the workload lists. Every worker does, as each command may be repeated: so a killed one leaves
// nothing undone.
type recurrence struct {
	*process
	scheduler recurring
	names     names
}

// recurring takes commands on schedules.
type recurring interface {
	Schedule(ctx context.Context, c engine.ScheduleCommand) (engine.Receipt, error)
}

func newRecurrence(p *process, s recurring) *recurrence {
	return &recurrence{process: p, scheduler: s, names: names{prefix: p.cfg.Life + "/s"}}
}

// definition is the same for every worker and life, so that it is put once.
func (j *Jobs) definition(queue, key string) schedule.Definition {
	return schedule.Definition{
		Queue: queue, Key: key, Timing: schedule.Timing{Kind: schedule.FixedRate, Every: j.Every},
		Misfire: schedule.MisfireAll, Window: j.Window, Grace: min(j.Window, schedule.DefaultGrace), Overlap: schedule.OverlapAllow,
		Job: j.occurrence(j.Length),
	}
}

// occurrence is the job of a nominal time, and those that follow it.
func (j *Jobs) occurrence(length time.Duration) job.Job {
	template := j.template(payload{Length: length, Steps: j.steps()}, job.Stop)
	first := template
	for range j.Sequence {
		first.Then = append(first.Then, template)
	}
	return first
}

// definitions are those of all schedules, in a fixed order, with what is done to them.
func (j *Jobs) definitions() (all []schedule.Definition, upset []Recurring) {
	for _, queue := range j.queues() {
		if j.Every > 0 {
			for _, key := range j.keys(queue) {
				all, upset = append(all, j.definition(queue, key)), append(upset, Recurring{})
			}
		}
		for _, r := range j.Schedules {
			length := r.Length
			if length == 0 {
				length = j.Length
			}
			all, upset = append(all, r.Definition(queue, j.occurrence(length), time.UnixMilli(j.Begin))), append(upset, r)
		}
	}
	return all, upset
}

// keys are names of schedules, one for each shard of a queue.
func (j *Jobs) keys(queue string) []string {
	keys := make([]string, j.Shards)
	for n, found := 0, 0; found < j.Shards; n++ {
		key := fmt.Sprintf("every-%d", n)
		if s, err := job.ScheduleID(queue, key, j.Shards).Shard(); err == nil && keys[s] == "" {
			keys[s] = key
			found++
		}
	}
	return keys
}

// run puts the schedules, does to them what is to be done, and disables them when feed ends
// before ctx does.
func (r *recurrence) run(ctx, feed context.Context) {
	all, upset := r.cfg.Jobs.definitions()
	var wg sync.WaitGroup
	defer wg.Wait()
	for n, d := range all {
		wg.Go(func() {
			r.until(feed, order{verb: engine.PutSchedule, of: d})
			if upset[n].Upset != "" && n%r.cfg.Jobs.Workers == r.number() {
				r.upset(feed, upset[n], d)
			}
			<-feed.Done()
			if ctx.Err() == nil {
				r.until(ctx, order{verb: engine.DisableSchedule, of: d})
			}
		})
	}
}

// number is the worker's place among those of the run, from 0.
func (r *recurrence) number() int {
	n, _ := strconv.Atoi(strings.TrimPrefix(r.cfg.Worker, "w")) // of the harness
	return n - 1
}

// order is a command on a schedule.
type order struct {
	verb    engine.Verb
	of      schedule.Definition
	trigger string // of a trigger its name, of an upset the beginning of it
}

// upset does something to a schedule and undoes it, again and again until ctx ends.
func (r *recurrence) upset(ctx context.Context, x Recurring, d schedule.Definition) {
	cycle := map[Upset][]order{
		UpsetChange:  {{verb: engine.PutSchedule, of: changed(d)}, {verb: engine.PutSchedule, of: d}},
		UpsetDisable: {{verb: engine.DisableSchedule, of: d}, {verb: engine.EnableSchedule, of: d}},
		UpsetRemove:  {{verb: engine.RemoveSchedule, of: d}, {verb: engine.PutSchedule, of: d}},
		UpsetTrigger: {
			{verb: engine.TriggerSchedule, of: d, trigger: r.cfg.Life},
			{verb: engine.TriggerSchedule, of: d, trigger: r.cfg.Life},
			// A life before this one has asked for it, if there was one: under another owner.
			{verb: engine.TriggerSchedule, of: d, trigger: r.cfg.Worker},
		},
	}[x.Upset]
	for n := 0; ; n++ {
		sleep(ctx, x.Pace)
		if ctx.Err() != nil {
			return
		}
		o := cycle[n%len(cycle)]
		if o.verb == engine.TriggerSchedule {
			o.trigger = fmt.Sprintf("%s-%d", o.trigger, n/len(cycle))
		}
		r.until(ctx, o)
	}
}

// until gives a command on a schedule until it is carried out, or ctx ends. A trigger that is
// refused, as another occurrence has not ended, is given up: nothing may come of its name unless
// it is asked for again.
func (r *recurrence) until(ctx context.Context, o order) {
	r.counts.enqueuing.Add(1) // the drain waits for it
	defer r.counts.enqueuing.Add(-1)
	proc := r.names.take()
	defer r.names.give(proc)
	for ctx.Err() == nil {
		err := r.once(context.WithoutCancel(ctx), proc, o)
		if err == nil || errors.Is(err, engine.ErrUnknownSchedule) || errors.Is(err, schedule.ErrOverlap) {
			return
		}
		sleep(ctx, r.cfg.TTL/10)
	}
}

// once gives a command on a schedule and records it.
func (r *recurrence) once(ctx context.Context, proc string, o order) error {
	cmd := engine.ScheduleCommand{Verb: o.verb, Queue: o.of.Queue, Key: o.of.Key, Trigger: o.trigger}
	if o.verb == engine.PutSchedule {
		cmd.Definition = &o.of
	}
	request := history.Event{Proc: proc, Op: history.OpSchedule, Key: o.of.Key, Details: &history.Details{Schedule: r.cfg.Jobs.asked(o)}}
	return r.ask(ctx, request, func(ctx context.Context) (string, error) {
		rec, err := r.scheduler.Schedule(ctx, cmd)
		if rec.Duplicate {
			return "duplicate", err
		}
		return "applied", err
	})
}

// doings are the verbs as the history writes them.
var doings = map[engine.Verb]string{engine.PutSchedule: history.DoPut, engine.DisableSchedule: history.DoDisable,
	engine.EnableSchedule: history.DoEnable, engine.RemoveSchedule: history.DoRemove, engine.TriggerSchedule: history.DoTrigger}

// asked is what the history says of a command.
func (j *Jobs) asked(o order) *history.Schedule {
	d := o.of
	id := job.ScheduleID(d.Queue, d.Key, j.Shards)
	n, _ := id.Shard() // of an id that was just made
	s := &history.Schedule{Queue: d.Queue, Shard: engine.Issuer(store.ShardID{Queue: d.Queue, Shard: n}), Do: doings[o.verb], Trigger: o.trigger}
	if o.verb != engine.PutSchedule {
		return s
	}
	d = d.WithDefaults()
	s.Kind, s.Cron, s.Zone, s.Overlap, s.Misfire = string(d.Kind), d.Cron, d.Zone, string(d.Overlap), string(d.Misfire)
	s.EveryMS, s.WindowMS, s.GraceMS = d.Every.Milliseconds(), d.Window.Milliseconds(), d.Grace.Milliseconds()
	s.AtMS, s.UntilMS = instantOf(d.At), instantOf(d.Until)
	body, _ := d.Encode() // of plain fields
	s.Form = formOf(string(body))
	spec := specOf(d.Job, s.Shard, d.Queue)
	s.Job = &spec
	return s
}

// instantOf is an instant in ms since 1970; 0: none.
func instantOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// formOf is a digest of a definition as its row has it.
func formOf(definition string) string {
	if definition == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(definition))
	return hex.EncodeToString(sum[:6])
}
