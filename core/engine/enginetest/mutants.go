package enginetest

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/mistake"
	"fencepost/core/schedule"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// Plant makes a correct process a broken one: it changes its options, and returns what
// stands before its store.
type Plant func(w *World, s store.Shards, o *engine.Options) store.Shards

// Mutant is a scheduler with one mistake.
type Mutant struct {
	Name string
	// Rules are those of which one must find it.
	Rules []string
	// Under is what a run must be full of for it to show, one of Conditions; "" for nothing
	// in particular.
	Under string
	// Plant puts it into every process, World into what is around them. One may be nil.
	Plant Plant
	World func(c *Config)
}

// Draw draws a run of a seed with the mistake in it; false: this seed's run has troubles of
// its own that would hide it.
func (m Mutant) Draw(seed uint64) (c Config, ok bool) {
	if c = Draw(seed); c.beyond || c.poison {
		return c, false
	}
	if m.Under != "" {
		c.plain()
		conditions[m.Under](&c)
	}
	if c.plant = m.Plant; m.World != nil {
		m.World(&c)
	}
	return c, true
}

// Seeds is within how many seeds it must be found, of at most so many.
func (m Mutant) Seeds(most uint64) uint64 {
	if m.Under == "days" {
		return min(most, 4)
	}
	return most
}

// Mutants are all that need no access to the engine's own parts.
func Mutants() []Mutant {
	all := slices.Concat(batchMutants, rowMutants, commandMutants, observerMutants, otherMutants, storeMutants, calendarMutants, queueMutants, haltMutants, sequenceMutants, againMutants, keyMutants, retryMutants, scheduleMutants)
	for _, m := range mistake.All {
		if m.Locks != nil {
			continue // the lock's
		}
		all = append(all, Mutant{Name: m.ID, Rules: m.Rules, Under: m.Under, Plant: shared(m)})
	}
	return all
}

// shared plants a mistake that real runs have too.
func shared(m mistake.Mistake) Plant {
	return func(_ *World, s store.Shards, o *engine.Options) store.Shards {
		p := mistake.Process{TTL: o.TTL, Members: s.(*sim.Session), Cell: "q"}
		if m.Engine != nil {
			m.Engine(p, o)
		}
		if m.Executor != nil {
			o.Executor = m.Executor(p, o)(o.Executor)
		}
		if m.Shards != nil {
			s = m.Shards(p, s)
		}
		return s
	}
}

// Conditions are the names of what a run can be full of, in order.
func Conditions() []string { return slices.Sorted(maps.Keys(conditions)) }

var conditions = map[string]func(*Config){
	// Many processes are struck in one way, and many replies are lost.
	"crash": struck("crash"),
	"stop":  struck("stop"),
	"cut":   struck("cut"),
	// They stand still where a run is about to look at the clock.
	"stands": func(c *Config) {
		struck("pause")(c)
		c.stands = true
	},
	// Machines are suspended.
	"suspend": struck("suspend"),
	// Wall clocks are far apart.
	"clocks": func(c *Config) { c.wrongClocks(rand.New(rand.NewPCG(c.seed, 5)), 10*time.Minute) },
	// There is much to be seen of schedules.
	"schedules": func(c *Config) { c.schedules, c.maxBytes = 4, max(c.maxBytes, 10<<10) },
	// Shards are paused.
	"pauses": func(c *Config) { c.pauses = true },
	// Whole queues are paused, and single shards are not.
	"halts": func(c *Config) { c.wholePauses, c.pauses, c.shards, c.queues = true, false, 3, max(c.queues, 2) },
	// Keys are hard to tell apart.
	"keys": func(c *Config) {
		c.oddKeys, c.queues, c.jobs, c.maxBytes = true, 2, 2*len(oddKeys), max(c.maxBytes, 10<<10)
	},
	// Queues get more shards, and processes come and go.
	"raises": func(c *Config) {
		struck("stop")(c)
		c.raised, c.jobs, c.pauses = 2*c.shards+1, 30, false
	},
	// Jobs are followed by others, and there are no schedules.
	"sequences": func(c *Config) { c.sequences, c.jobs, c.schedules, c.maxBytes = true, 20, 0, max(c.maxBytes, 10<<10) },
	// Jobs are forgotten and enqueued again, and clocks are right.
	"again": func(c *Config) {
		c.quiet(sim.Faults{LoseReply: 0.1})
		c.skew, c.retires, c.jobs = []time.Duration{0}, true, 12
		c.forgets()
	},
	// Each process claims many runs.
	"claims": func(c *Config) { c.jobs, c.duration, c.events, c.crashes = 150, 30*c.ttl, nil, 0 },
	// Shards move all the time, while much is enqueued.
	"moves": func(c *Config) {
		c.quiet(sim.Faults{})
		c.faults.Latency = c.ttl / 20
		c.jobs, c.duration = 150, 30*c.ttl
		c.strikes("move", 60)
	},
	// An outage is longer than the dedupe window, after many jobs have ended: there are many
	// pages to sweep afterwards.
	"sweeps": func(c *Config) {
		c.jobs, c.shards, c.crashes, c.schedules, c.pauses = 220, 1, 0, 0, false
		c.faults = sim.Faults{Latency: time.Millisecond}
		c.duration, c.dedupe = 110*c.ttl, 40*c.ttl
		c.events = []event{{at: 40 * c.ttl, length: 42 * c.ttl, kind: "outage"}}
	},
	// Three queues have the same keys, of jobs and of schedules, and their shards are paused.
	"queues": func(c *Config) {
		c.queues, c.shards, c.jobs, c.pauses, c.schedules, c.maxBytes = 3, 1, 24, true, 6, max(c.maxBytes, 10<<10)
		struck("stop")(c)
	},
	// Jobs are due many at once, and there are few slots.
	"storms": func(c *Config) {
		c.quiet(sim.Faults{})
		c.storms, c.jobs, c.slots, c.shards, c.horizon, c.pauses, c.schedules = true, 40, 1, 1, 4*c.ttl, false, 0
	},
	// Requests arrive twice, and nothing else is wrong.
	"doubled": func(c *Config) { c.quiet(sim.Faults{Twice: 0.2, LateBy: 2 * c.ttl}) },
	// Plain reads show as little as their level allows, and owners come and go.
	"stale": func(c *Config) {
		struck("crash")(c)
		c.faults = sim.Faults{Latency: time.Millisecond, ServerTimeout: 0.1, StaleRead: 0.5}
	},
	// Jobs are forgotten while others run and processes crash.
	"retires": func(c *Config) {
		c.retires, c.jobs, c.shards, c.crashes, c.schedules, c.pauses = true, 150, 1, 3, 0, false
		c.faults = sim.Faults{Latency: time.Millisecond, LoseRequest: 0.1, LoseReply: 0.1, Late: 0.1, LateBy: 2 * c.ttl}
		c.duration, c.dedupe, c.maxDead, c.events = 60*c.ttl, 10*c.ttl, 0, nil
		for n := range 6 {
			c.events = append(c.events, event{at: time.Duration(n+1) * 9 * c.ttl, length: 2 * c.ttl, node: n % c.nodes,
				kind: []string{"crash", "pause", "cut"}[n%3]})
		}
	},
	// Five days, from the one before Berlin changes its clocks.
	"days": func(c *Config) {
		*c = DrawDays(5*c.seed, 5*24*time.Hour)
		c.zones, c.days = []string{"Europe/Berlin"}, 10
	},
}

// Harmless takes out of a condition's runs what alone shows the mistakes under it.
var Harmless = map[string]func(*Config){
	"doubled":   func(c *Config) { c.faults.Twice = 0 },
	"stale":     func(c *Config) { c.faults.StaleRead = 0 },
	"queues":    func(c *Config) { c.queues = 1 },
	"keys":      func(c *Config) { c.oddKeys = false },
	"sequences": func(c *Config) { c.sequences = false },
	"raises":    func(c *Config) { c.raised = 0 },
	"again":     func(c *Config) { c.again, c.dedupe = false, 14*c.ttl },
	"halts":     func(c *Config) { c.wholePauses, c.pauses = false, true },
}

// quiet has a run without other faults.
func (c *Config) quiet(f sim.Faults) {
	f.Latency = time.Millisecond
	c.faults, c.events, c.crashes = f, nil, 0
}

func struck(kind string) func(*Config) {
	return func(c *Config) {
		c.drift, c.rates = 0.01, nil
		c.faults = sim.Faults{Latency: time.Millisecond, LoseReply: 0.3}
		c.events = nil
		c.strikes(kind, 9)
	}
}

// strikes has so many processes struck, in turn and evenly over the run.
func (c *Config) strikes(kind string, times int) {
	for n := range times {
		c.events = append(c.events, event{at: time.Duration(n+1) * c.duration / time.Duration(times+1), length: 2 * c.ttl, node: n % c.nodes, kind: kind})
	}
}

// commandMutants are wrong about what operators ask for.
var commandMutants = []Mutant{
	{Name: "a cancellation is told before it is settled", Rules: []string{"command"}, Plant: earlyAnswers(func(_ *World,
		c mistake.Copy) bool {
		return mistake.Has(c.Batch, func(op store.Op) bool { return op.Kind == store.Put && op.Row.State == string(job.Cancelled) })
	})},
	{Name: "a cancellation beats success", Rules: []string{"end-state"}, Plant: ends(func(ctx context.Context, err error) error {
		if err == nil && errors.Is(context.Cause(ctx), job.ErrCancelled) {
			err = job.ErrCancelled
		}
		return err
	})},
	{Name: "a cancellation is told and forgotten", Rules: []string{"command"}, Plant: operations(func(op *store.Op) {
		if op.Row.Kind == store.KindJob && op.Row.State == string(job.Cancelled) {
			op.Row.State = string(job.Completed)
		}
	})},
	{Name: "a job that is brought forward is told so before it is settled", Rules: []string{"command"},
		Plant: earlyAnswers(func(_ *World, c mistake.Copy) bool { return len(hastened(c.Batch)) > 0 })},
	{Name: "a job that is brought forward keeps its own time", Rules: []string{"liveness"}, Under: "clocks",
		Plant: batches(func(w *World, c *mistake.Copy) {
			c.Each(func(op *store.Op) {
				if j := w.byID[job.ID(op.Row.ID)]; j != nil && op.Row.Body != nil {
					op.Row.Body, _ = j.job.Encode()
				}
			})
		})},
	{Name: "a job that is brought forward starts over", Rules: []string{"attempts", "changes"},
		Plant: ofHastened(func(op *store.Op) { op.Row.Attempt = 0 })},
	{Name: "a job that is brought forward waits twice", Rules: []string{"state"}, Plant: ofHastened(func(op *store.Op) {
		if op.Kind == store.Delete {
			op.Row.ID = "none"
		}
	})},
	{Name: "a redrive is told before it is settled", Rules: []string{"command"},
		Plant: earlyAnswers(func(_ *World, c mistake.Copy) bool { return mistake.Has(c.Batch, leavesDLQ) })},
	{Name: "a redriven job keeps its attempts", Rules: []string{"attempts"}, Plant: batches(func(_ *World, c *mistake.Copy) {
		again := mistake.Has(c.Batch, leavesDLQ)
		c.Each(func(op *store.Op) {
			if again && op.Row.Kind == store.KindPending && op.Row.Attempt == 0 && op.Row.Run > 0 {
				op.Row.Attempt = 2
			}
		})
	})},
	{Name: "a redriven job stays in the dead letter queue", Rules: []string{"state"}, Plant: operations(func(op *store.Op) {
		if leavesDLQ(*op) {
			op.Row.ID = "none"
		}
	})},
	{Name: "a command that does not look into the inbox", Rules: []string{"command"},
		Plant: func(_ *World, s store.Shards, _ *engine.Options) store.Shards {
			return mistake.Shards{Shards: s, OnInboxRow: func(*store.InboxRow) *store.InboxRow { return nil }}
		}},
	{Name: "priorities that are taken and not stored", Rules: []string{"priority"}, Under: "storms",
		World: func(c *Config) { c.arrives = func(_ *World, j *job.Job) { j.Priority = 0 } }},
	// Pauses of shards.
	{Name: "a takeover forgets the pause", Rules: []string{"paused"}, Under: "pauses",
		Plant: looks(func(h *store.Header) { h.Pause = store.Pause{} })},
	{Name: "an owner that claims from a paused shard", Rules: []string{"paused"}, Under: "pauses", Plant: heedless},
	{Name: "a pause is told before it is settled", Rules: []string{"told"}, Under: "pauses", Plant: earlyAnswers(func(w *World,
		c mistake.Copy) bool {
		h, _ := w.store.ShardRows(c.Shard)
		return c.Batch.To.Fence == h.Fence && c.Batch.To.Pause != h.Pause
	})},
	{Name: "what came while a shard was paused is forgotten", Rules: []string{"liveness"}, Under: "pauses", Plant: forgetful},
}

// leavesDLQ: the operation takes a job out of the dead letter queue.
func leavesDLQ(op store.Op) bool { return op.Kind == store.Delete && op.Row.Kind == store.KindDLQ }

// hastened are the jobs that a batch brings forward, by the note that it leaves.
func hastened(b store.Batch) map[string]bool {
	ids := map[string]bool{}
	for _, op := range b.Ops {
		if op.Kind == store.Put && op.Row.Kind == store.KindJob && op.Row.State == string(job.Pending) && op.Row.Note == "brought forward" {
			ids[op.Row.ID] = true
		}
	}
	return ids
}

// ofHastened changes the operations on jobs that are brought forward.
func ofHastened(f func(op *store.Op)) Plant {
	return batches(func(_ *World, c *mistake.Copy) {
		ids := hastened(c.Batch)
		c.Each(func(op *store.Op) {
			if ids[op.Row.ID] {
				f(op)
			}
		})
	})
}

// scheduleMutants are wrong about schedules and sequences; those that decide wrongly are in
// the tests of the engine, which has the place for another decision.
var scheduleMutants = []Mutant{
	{Name: "an occurrence without the advance", Rules: []string{"schedule"}, Under: "schedules",
		Plant: without(func(b store.Batch, op store.Op) bool { return isState(op) && fires(b) })},
	{Name: "two owners that fire", Rules: []string{"twice"}, Under: "schedules", Plant: noDedupe, World: func(c *Config) {
		c.setup = func(s *sim.Store) { s.MatchStamp = func(_, _ store.Stamp) bool { return true } }
	}},
	{Name: "the end of an occurrence is forgotten", Rules: []string{"schedule"}, Under: "schedules",
		Plant: without(func(b store.Batch, op store.Op) bool {
			return isState(op) && !fires(b) && mistake.Has(b, func(op store.Op) bool {
				return op.Kind == store.Delete &&
					op.Row.Kind == store.KindRunning
			})
		})},
	{Name: "a removed schedule leaves a row", Rules: []string{"schedule-rows"}, Under: "schedules",
		Plant: without(func(_ store.Batch, op store.Op) bool {
			return op.Kind == store.Delete && op.Row.Kind == store.KindSchedule && op.Row.At == engine.AtState
		})},
	{Name: "schedules are forgotten by a takeover", Rules: []string{"liveness", "schedule"}, Under: "schedules",
		Plant: func(_ *World, s store.Shards, _ *engine.Options) store.Shards {
			return mistake.Shards{Shards: s, OnRows: func(_ store.ShardID, rows []store.Row) []store.Row {
				return slices.DeleteFunc(rows, func(r store.Row) bool { return r.Kind == store.KindSchedule })
			}}
		}},
	{Name: "schedules as they were when they were first read", Rules: []string{"schedule"}, Under: "schedules", Plant: firstRead},
	{Name: "a trigger is told before it is settled", Rules: []string{"told"}, Under: "schedules",
		Plant: earlyAnswers(func(_ *World, c mistake.Copy) bool { return mistake.Has(c.Batch, isState) && fires(c.Batch) })},
	{Name: "a schedule is reported before it is settled", Rules: []string{"told"}, Under: "schedules",
		Plant: earlyAnswers(func(_ *World, c mistake.Copy) bool { return mistake.Has(c.Batch, isState) && !fires(c.Batch) })},
	// Over days in which clocks are changed.
	{Name: "time zones that nobody looks at", Rules: []string{"calendar"}, Under: "days", World: zoned("UTC")},
	{Name: "standard time all year", Rules: []string{"calendar"}, Under: "days", World: zoned("Etc/GMT-1")}, // east of Greenwich
	{Name: "a minute early", Rules: []string{"schedule", "calendar"}, Under: "days", Plant: options(func(o *engine.Options) {
		wall := o.Wall
		o.Wall = func() time.Time { return wall().Add(time.Minute) }
	})},
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
	return mistake.Has(b, func(op store.Op) bool {
		j, ok := madeBy(b, op)
		return op.Kind == store.PutNew && ok && j.After == ""
	})
}

func isState(op store.Op) bool {
	return op.Kind == store.Put && op.Row.Kind == store.KindSchedule && op.Row.At == engine.AtState
}

// zoned has cron schedules put with another zone, and nobody else knows.
func zoned(zone string) func(*Config) {
	return func(c *Config) {
		c.twist = func(d *schedule.Definition) {
			if d.Kind == schedule.Cron {
				d.Zone = zone
			}
		}
	}
}

// observerMutants tell their observers something else than they do.
var observerMutants = []Mutant{
	untold("of sweeps", "changes", "", engine.StepSweep),
	untold("what is brought forward", "changes", "", engine.StepHasten),
	untold("of a pause", "paused", "pauses", engine.StepPause),
	untold("what fires", "changes", "schedules", engine.StepFire),
	mistold("of a rescue as a retry", "changes", "", func(c *engine.Change) {
		if c.Kind == engine.StepRescue {
			c.Kind = engine.StepRetry
		}
	}),
	mistold("of the attempt before", "changes", "", func(c *engine.Change) { c.Attempt = max(c.Attempt-1, 0) }),
	mistold("another due time", "changes", "", func(c *engine.Change) { c.Due = min(c.Due, 1) }),
	mistold("of other misses", "schedule", "schedules", func(c *engine.Change) {
		if c.Kind == engine.StepFire {
			c.Missed++
		}
	}),
	{Name: "an observer that is not told the nominal time", Rules: []string{"changes"}, Under: "schedules",
		Plant: liar(func(c *engine.Change) bool { c.Occurrence.Nominal = 0; return true })},
}

func untold(what, rule, under string, kind engine.StepKind) Mutant {
	return Mutant{Name: "an observer that is not told " + what, Rules: []string{rule}, Under: under,
		Plant: liar(func(c *engine.Change) bool { return c.Kind != kind })}
}

func mistold(what, rule, under string, f func(c *engine.Change)) Mutant {
	return Mutant{Name: "an observer that is told " + what, Rules: []string{rule}, Under: under,
		Plant: liar(func(c *engine.Change) bool { f(c); return true })}
}
