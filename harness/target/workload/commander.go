package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/harness/record/history"
)

// Commander is what gives commands on jobs and shards; *scheduler.Scheduler is one.
type Commander interface {
	Cancel(ctx context.Context, queue string, id job.ID) error
	Redrive(ctx context.Context, queue string, id job.ID) error
	Hasten(ctx context.Context, queue string, id job.ID) (engine.Receipt, error)
	SetShardPaused(ctx context.Context, id store.ShardID, on bool) (duplicate bool, err error)
	// SetPaused pauses or resumes all shards of a queue. A *scheduler.PartlyError names those that may
	// not be as was asked for.
	SetPaused(ctx context.Context, queue string, on bool) (duplicate bool, err error)
}

// Commands say how often a worker gives each command, per second, whatever the answers.
type Commands struct {
	Cancel  float64 `json:"cancel"`
	Redrive float64 `json:"redrive"`
	// RedriveMany redrives all dead jobs that the worker knows of, several at once.
	RedriveMany float64 `json:"redrive_many"`
	Hasten      float64 `json:"hasten"`
	// Pause pauses a shard for a short time and resumes it.
	Pause float64 `json:"pause"`
	// PauseQueue does that to a whole queue, by one command.
	PauseQueue float64 `json:"pause_queue,omitempty"`
}

// pauses: something is paused.
func (c *Commands) pauses() bool { return c.Pause+c.PauseQueue > 0 }

// Limits of a commander.
const (
	// maxCommands bounds the commands of a worker that wait at once; what would come on top is
	// left out.
	maxCommands = 32
	// known is how many jobs a worker remembers to give commands on.
	known = 64
	// Pauses last from leastPause to mostPause.
	leastPause, mostPause = 200 * time.Millisecond, 700 * time.Millisecond
	// resumeEvery is how often a worker resumes each shard, paused or not: who has paused one may
	// have been killed.
	resumeEvery = 8 * time.Second
)

// commander gives commands at a rate, each kind by itself: an open loop.
type commander struct {
	*process
	to Commander // nil: a scheduler that takes none
	// redriver redrives the dead jobs of a queue by one command, through the API; nil: they are
	// redriven one by one.
	redriver redriver
	names    names

	mu   sync.Mutex
	rng  *rand.Rand
	jobs ring // that were acknowledged to this worker
	dead ring // that this worker has put into the dead letter queue
}

// redriver takes the command to redrive dead jobs, whichever they are; *apiClient is one.
type redriver interface {
	RedriveDead(ctx context.Context, queue string, limit int) ([]history.Answered, error)
}

func newCommander(p *process) *commander {
	return &commander{process: p, names: names{prefix: p.cfg.Life + "/k"}, rng: Rand(p.cfg.Seed, p.cfg.Life+"/commands")}
}

// ring remembers the last jobs that were put in.
type ring struct {
	jobs []jobRef
	n    int
}

func (r *ring) put(j jobRef) {
	if len(r.jobs) < known {
		r.jobs = append(r.jobs, j)
		return
	}
	r.jobs[r.n%known] = j
	r.n++
}

// enqueued remembers a job that was acknowledged.
func (c *commander) enqueued(j jobRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs.put(j)
}

// died remembers a job that is in the dead letter queue.
func (c *commander) died(j jobRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead.put(j)
}

// pick is a random one of the jobs, false if there is none.
func (c *commander) pick(from *ring) (jobRef, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(from.jobs) == 0 {
		return jobRef{}, false
	}
	return from.jobs[c.rng.IntN(len(from.jobs))], true
}

// run gives commands until feed ends, and then resumes every shard, unless ctx ends too.
func (c *commander) run(ctx, feed context.Context) {
	rates := c.cfg.Jobs.Commands
	if rates == nil || c.to == nil {
		return
	}
	hasten := history.DoHasten
	if c.cfg.Jobs.API {
		hasten = history.DoRun // which is what the API has instead
	}
	var wg sync.WaitGroup
	for name, of := range map[string]struct {
		rate float64
		do   func(context.Context)
	}{
		history.DoCancel:         {rates.Cancel, func(ctx context.Context) { c.onJob(ctx, history.DoCancel, &c.jobs) }},
		history.DoHasten:         {rates.Hasten, func(ctx context.Context) { c.onJob(ctx, hasten, &c.jobs) }},
		history.DoRedrive:        {rates.Redrive, c.redriveTwice},
		history.DoRedrive + many: {rates.RedriveMany, c.redriveAll},
		history.DoPause:          {rates.Pause, c.pauseShard},
		history.DoPause + whole:  {rates.PauseQueue, c.pauseQueue},
	} {
		rng := Rand(c.cfg.Seed, c.cfg.Life+"/commands/"+name)
		wg.Go(func() { c.often(feed, rng, of.rate, of.do) })
	}
	if rates.pauses() {
		wg.Go(func() { c.resumeAlways(feed) })
	}
	wg.Wait()
	if rates.pauses() && ctx.Err() == nil {
		c.resumeAll(ctx)
	}
}

// many tells the stream of random numbers of a command on many from that of one on one.
const many = "-many"

// whole does the same for pauses of queues and of shards.
const whole = "-queue"

// often does something at a rate until ctx ends, and waits for all of it.
func (c *commander) often(ctx context.Context, rng *rand.Rand, rate float64, do func(context.Context)) {
	if rate <= 0 {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		sleep(ctx, time.Duration(float64(time.Second)/rate*rng.ExpFloat64()))
		if ctx.Err() != nil {
			return
		}
		if c.names.used() < maxCommands {
			wg.Go(func() {
				c.counts.enqueuing.Add(1) // the drain waits for it
				defer c.counts.enqueuing.Add(-1)
				do(context.WithoutCancel(ctx))
			})
		}
	}
}

// onJob gives a command on a job that was remembered, if there is one.
func (c *commander) onJob(ctx context.Context, do string, from *ring) {
	if j, ok := c.pick(from); ok {
		_ = c.job(ctx, do, j) // recorded
	}
}

// redriveTwice redrives a job, and again when that is done, as somebody does who clicks twice: the
// second time it is not dead, unless its attempts are used up already.
func (c *commander) redriveTwice(ctx context.Context) {
	if j, ok := c.pick(&c.dead); ok && c.job(ctx, history.DoRedrive, j) == nil {
		_ = c.job(ctx, history.DoRedrive, j) // recorded
	}
}

// redriveAll redrives the dead jobs that are known, as the API's redrive of many does; or has that
// done.
func (c *commander) redriveAll(ctx context.Context) {
	if c.redriver != nil {
		c.redriveDead(ctx)
		return
	}
	c.mu.Lock()
	dead := append([]jobRef(nil), c.dead.jobs...)
	c.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, j := range dead {
		if i == redriveMost || c.names.used() >= maxCommands {
			return
		}
		wg.Go(func() { _ = c.job(ctx, history.DoRedrive, j) }) // recorded
	}
}

// redriveDead has the first dead jobs of a random queue redriven by one command.
func (c *commander) redriveDead(ctx context.Context) {
	all := c.cfg.Jobs.queues()
	n, _ := c.drawPause(len(all))
	proc := c.names.take()
	defer c.names.give(proc)
	what := history.Command{Queue: all[n], Do: history.DoRedriveDead}
	request := history.Event{Proc: proc, Op: history.OpCommand, Key: what.Queue, Details: &history.Details{Command: &what}}
	_ = c.askMany(ctx, request, func(ctx context.Context) (string, []history.Answered, error) { // recorded
		answers, err := c.redriver.RedriveDead(ctx, what.Queue, redriveMost)
		return "applied", answers, err
	})
}

// redriveMost is how many jobs are redriven at once.
const redriveMost = 8

// job gives a command on a job and records it.
func (c *commander) job(ctx context.Context, do string, j jobRef) error {
	queue, id := j.queue, j.id
	issuer, err := shardIssuer(job.Job{Queue: queue, ID: id})
	if err != nil {
		return err
	}
	return c.give(ctx, string(id), history.Command{Queue: queue, Shard: issuer, Do: do}, func(ctx context.Context) (bool, error) {
		switch do {
		case history.DoCancel:
			return false, c.to.Cancel(ctx, queue, id)
		case history.DoRedrive:
			return false, c.to.Redrive(ctx, queue, id)
		}
		r, err := c.to.Hasten(ctx, queue, id)
		return r.Duplicate, err
	})
}

// shard pauses or resumes a shard and records it.
func (c *commander) shard(ctx context.Context, id store.ShardID, on bool) error {
	key := engine.Issuer(id)
	return c.give(ctx, key, history.Command{Queue: id.Queue, Shard: key, Do: pausing(on)}, func(ctx context.Context) (bool, error) {
		return c.to.SetShardPaused(ctx, id, on)
	})
}

// pausing is what a pause, or a resumption, does.
func pausing(on bool) string {
	if on {
		return history.DoPause
	}
	return history.DoResume
}

// give gives a command and records it.
func (c *commander) give(ctx context.Context, key string, what history.Command, send func(context.Context) (bool, error)) error {
	proc := c.names.take()
	defer c.names.give(proc)
	request := history.Event{Proc: proc, Op: history.OpCommand, Key: key, Details: &history.Details{Command: &what}}
	return c.ask(ctx, request, func(ctx context.Context) (string, error) {
		if duplicate, err := send(ctx); duplicate || err != nil {
			return "duplicate", err
		}
		return "applied", nil
	})
}

// told is the state by which a command was refused, "" if it was for another reason.
func told(err error) string {
	var state *engine.StateError
	switch {
	case store.OutcomeOf(err) != store.Fail:
	case errors.As(err, &state):
		return string(state.State)
	case errors.Is(err, engine.ErrUnknownJob):
		return history.ToldUnknown
	}
	return ""
}

// drawPause draws one of n, and for how long it is paused.
func (c *commander) drawPause(n int) (int, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n), leastPause + time.Duration(c.rng.Int64N(int64(mostPause-leastPause)))
}

// pauseShard pauses a random shard for a short time.
func (c *commander) pauseShard(ctx context.Context) {
	all := c.cfg.Jobs.shards()
	n, d := c.drawPause(len(all))
	id := all[n]
	if err := c.shard(ctx, id, true); store.OutcomeOf(err) == store.Fail {
		return
	}
	sleep(ctx, d)
	c.resume(ctx, id)
}

// resumeTries bounds how often a shard is resumed whose owner does not answer; others try too.
const resumeTries = 5

// resume resumes a shard, and again while it is not known to be done.
func (c *commander) resume(ctx context.Context, id store.ShardID) {
	for range resumeTries {
		if ctx.Err() != nil || c.shard(context.WithoutCancel(ctx), id, false) == nil {
			return
		}
		sleep(ctx, c.cfg.TTL/10)
	}
}

// resumeAlways resumes one shard after the other.
func (c *commander) resumeAlways(ctx context.Context) {
	all := c.cfg.Jobs.shards()
	for n := 0; ; n = (n + 1) % len(all) {
		sleep(ctx, resumeEvery/time.Duration(len(all)))
		if ctx.Err() != nil {
			return
		}
		c.resume(ctx, all[n])
	}
}

// resumeAll resumes every shard, until that is known or ctx ends.
func (c *commander) resumeAll(ctx context.Context) {
	c.counts.enqueuing.Add(1)
	defer c.counts.enqueuing.Add(-1)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, id := range c.cfg.Jobs.shards() {
		wg.Go(func() {
			for ctx.Err() == nil && c.shard(context.WithoutCancel(ctx), id, false) != nil {
				sleep(ctx, c.cfg.TTL/10)
			}
		})
	}
}

// engineCommander is an engine as a Commander, of the shards that it owns.
type engineCommander struct {
	e      *engine.Engine
	shards int // of each queue
}

// Cancel implements Commander.
func (c engineCommander) Cancel(ctx context.Context, queue string, id job.ID) error {
	_, err := c.e.Command(ctx, engine.CancelJob, queue, id)
	return err
}

// Redrive implements Commander.
func (c engineCommander) Redrive(ctx context.Context, queue string, id job.ID) error {
	_, err := c.e.Command(ctx, engine.RedriveJob, queue, id)
	return err
}

// Hasten implements Commander.
func (c engineCommander) Hasten(ctx context.Context, queue string, id job.ID) (engine.Receipt, error) {
	return c.e.Command(ctx, engine.HastenJob, queue, id)
}

// SetShardPaused implements Commander.
func (c engineCommander) SetShardPaused(ctx context.Context, id store.ShardID, on bool) (bool, error) {
	return c.e.SetPaused(ctx, id, on)
}
