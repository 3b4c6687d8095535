package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/orders"
)

// JobKind is the kind of the workload's jobs.
const JobKind = "effects"

// payload is what a job of the workload does.
type payload struct {
	Length time.Duration `json:"length_ns"`
	Steps  []string      `json:"steps"`
	Fail   int           `json:"fail,omitempty"` // so many attempts fail
	// Overrun: the first run takes longer than it may.
	Overrun bool `json:"overrun,omitempty"`
}

func decodePayload(b []byte) (payload, error) {
	var p payload
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("payload: %w", err)
	}
	return p, nil
}

// Limits of an enqueuer.
const (
	// maxEnqueuing bounds the enqueues of a worker that wait at once; what would
	// come on top is left out, as a client that is full does. It is more than come while
	// nobody answers: a workload that is left out tests nothing (P14).
	maxEnqueuing = 2048
	// enqueueTries bounds how often a job is enqueued whose outcome is unknown, or that is refused.
	enqueueTries = 4
	// again is one in so many: enqueues of a job that is known to be there.
	again = 50
)

// enqueuer enqueues at a rate whatever the answers: an open loop. It can be told to enqueue something
// else.
type enqueuer struct {
	*process
	scheduler submits
	issuer    func(job.Job) (string, error) // of a job's tokens
	draw      draw
	rng       *rand.Rand // used by run only

	// sizes are how many shards the queues have, as their scheduler says; nil: as the configuration.
	sizes func() []store.Queue
	reask

	names        names
	done         atomic.Pointer[job.Job] // one that was acknowledged
	acknowledged func(jobRef)            // is called with each such job
	arrivals     history.Arrivals        // used by run only
	drawn        int                     // jobs, used by run only
	lastKey      string                  // used by run only
	most         int                     // enqueues that may wait at once
	offered      chan control.Load       // the latest
}

// draw draws the job with a key in a queue.
type draw func(e *enqueuer, queue, key string) job.Job

func newEnqueuer(p *process, s submits, issuer func(job.Job) (string, error), draw draw) *enqueuer {
	return &enqueuer{
		process: p, scheduler: s, issuer: issuer, draw: draw, acknowledged: func(jobRef) {}, most: maxEnqueuing, offered: make(chan control.Load, 1),
		names: names{prefix: p.cfg.Life + "/e"}, rng: Rand(p.cfg.Seed, p.cfg.Life+"/enqueue"),
	}
}

// run enqueues what the workload says, or what it is told to (offer), until ctx ends.
func (e *enqueuer) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer e.note()
	own := control.Load{Rate: e.cfg.Jobs.Rate}
	for now, tries := own, enqueueTries; ctx.Err() == nil; {
		stage, end := context.WithCancel(ctx)
		var told control.Load
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			select {
			case told = <-e.offered:
				end()
			case <-stage.Done():
			}
		}()
		ended := context.WithoutCancel(ctx) // what is under way is finished
		if now.Open > 0 {
			e.keepOpen(stage, now.Open, func(j job.Job, done func()) { e.begin(ended, &wg, j, tries, done) })
		} else {
			e.arrive(stage, now.Rate, func(j job.Job) { e.begin(ended, &wg, j, tries, func() {}) })
		}
		end()
		<-heard
		now, tries = told, enqueueTries
		switch {
		case told == control.Load{}:
			now = own
		case told.Rate > 0:
			tries = 1
		}
	}
}

// offer changes what is enqueued from now on. Only the latest load counts.
func (e *enqueuer) offer(l control.Load) {
	for {
		select {
		case e.offered <- l:
			return
		default:
		}
		select {
		case <-e.offered:
		default:
		}
	}
}

// arrive has jobs come at a rate, by a Poisson process, whatever becomes of those before: an open loop.
// A process that is late makes up for it; one that was stopped does not.
func (e *enqueuer) arrive(ctx context.Context, rate float64, enqueue func(job.Job)) {
	if rate <= 0 {
		<-ctx.Done()
		return
	}
	mean := float64(time.Second) / rate
	begin, next := time.Now(), time.Duration(0)
	for {
		next += time.Duration(mean * e.rng.ExpFloat64())
		sleep(ctx, time.Until(begin.Add(next)))
		if ctx.Err() != nil {
			return
		}
		select {
		case <-e.goesOn: // the clients that it stands for had stopped too: all that they would have asked for, at once, is another load
			begin = time.Now().Add(-next)
		default:
		}
		if j := e.job(); e.room() {
			enqueue(j)
		}
	}
}

// keepOpen keeps n enqueues under way: a closed loop.
func (e *enqueuer) keepOpen(ctx context.Context, n int, enqueue func(j job.Job, done func())) {
	open := make(chan struct{}, n)
	for {
		select {
		case open <- struct{}{}:
		case <-ctx.Done():
			return
		}
		j, done := e.job(), func() { <-open }
		if !e.room() {
			done()
			sleep(ctx, e.cfg.TTL/100)
			continue
		}
		enqueue(j, done)
	}
}

// begin enqueues a job in the background; done is called when it is over.
func (e *enqueuer) begin(ctx context.Context, wg *sync.WaitGroup, j job.Job, tries int, done func()) {
	proc := e.names.take()
	e.counts.enqueuing.Add(1)
	wg.Go(func() {
		defer done()
		defer e.names.give(proc)
		defer e.counts.enqueuing.Add(-1)
		e.enqueue(ctx, proc, j, tries)
	})
}

// room counts a job that is to be enqueued, and says whether there is room for it. What is left
// out is noted at once, but not often, as the process may be killed.
func (e *enqueuer) room() bool {
	e.arrivals.Came++
	e.counts.came.Add(1)
	if e.names.used() < e.most {
		return true
	}
	if e.arrivals.Dropped++; e.arrivals.Dropped%noteDrops == 1 {
		e.note()
	}
	return false
}

// noteDrops is one note in so many jobs that are left out.
const noteDrops = 20

// note says how many jobs came and were left out so far.
func (e *enqueuer) note() {
	n := e.arrivals
	e.rec.Record(history.Event{Proc: e.cfg.Life, Type: history.Note, Op: history.NoteArrivals, Details: &history.Details{Arrivals: &n}})
}

// job draws the next job, or takes one that was acknowledged.
func (e *enqueuer) job() job.Job {
	e.drawn++
	if j, ok := e.raised(); ok {
		return j
	}
	if done := e.done.Load(); e.rng.IntN(again) == 0 && done != nil {
		return *done
	}
	if m := e.cfg.Jobs.Mixture; m != nil && e.rng.Float64() < m.OtherBody {
		if done := e.done.Load(); done != nil {
			return e.reused(*done)
		}
	}
	queue, key := e.cfg.Jobs.place(e.cfg.Life, e.drawn)
	return e.draw(e, queue, key)
}

// drawEffects draws a job of the workload's own kind.
func drawEffects(e *enqueuer, queue, key string) job.Job {
	c := e.cfg.Jobs
	j := c.template(e.payload(), e.onFailure())
	j.Queue = queue
	j = e.keyed(j, key)
	for range c.Sequence {
		j.Then = append(j.Then, c.template(e.payload(), e.onFailure()))
	}
	switch {
	case c.Storm > 0:
		j.Due = e.clock.Wall().Truncate(c.Storm).Add(c.Storm)
	case c.Ahead > 0:
		j.Due = e.clock.Wall().Add(time.Duration(e.rng.Int64N(int64(c.Ahead)))).Truncate(time.Millisecond)
	}
	return e.vary(j.WithDefaults())
}

// onFailure draws what becomes of a job's sequence if it fails: each job of it says so itself.
func (e *enqueuer) onFailure() job.OnFailure {
	if e.cfg.Jobs.Sequence > 0 && e.rng.IntN(2) == 0 {
		return job.GoOn
	}
	return job.Stop
}

// payload draws what a job does.
func (e *enqueuer) payload() payload {
	c := e.cfg.Jobs
	p := payload{Length: time.Duration((0.5 + e.rng.Float64()) * float64(c.Length)), Steps: c.steps()}
	switch u := e.rng.Float64(); {
	case u < c.Poison:
		p.Fail = job.MaxAttemptsLimit
	case u < c.Poison+c.Flaky:
		p.Fail = 1
	}
	return p
}

// steps are the keys of a job's effects.
func (j *Jobs) steps() (keys []string) {
	for i := range j.Steps {
		keys = append(keys, fmt.Sprintf("s%d", i+1))
	}
	return keys
}

// template is a job that does p.
func (j *Jobs) template(p payload, onFailure job.OnFailure) job.Job {
	body, _ := json.Marshal(p) // of plain fields
	return job.Job{Kind: JobKind, Payload: body, MaxAttempts: j.MaxAttempts, Retry: j.retry(), OnFailure: onFailure}
}

func (j *Jobs) retry() job.RetryPolicy { return job.Exponential(j.RetryBase, 2, 4*j.RetryBase) }

// specOf is what the history says of a job, and of those that follow it.
func specOf(j job.Job, issuer, queue string) history.Job {
	p, _ := decodePayload(j.Payload) // encoded by template
	out := history.Job{
		Queue: queue, Shard: issuer, Kind: j.Kind, Key: j.Key, Overruns: p.Overrun, Resource: worker.Resource(job.Job{Queue: queue, ID: j.ID}),
		Steps: p.Steps, Priority: j.Priority, MaxAttempts: j.WithDefaults().MaxAttempts, AtMostOnce: j.Rescue == job.AtMostOnce, GoOn: j.OnFailure == job.GoOn,
		Retry: retryOf(j.Retry), MaxDurationMS: j.WithDefaults().MaxDuration.Milliseconds(),
	}
	if o, steps, may := orders.Spec(j); o != nil {
		out.Order, out.Steps, out.May = o, steps, may
	}
	for _, t := range j.Then {
		out.Then = append(out.Then, specOf(t, issuer, queue))
	}
	return out
}

// retryOf is what the history says of a policy.
func retryOf(p job.RetryPolicy) *history.Retry {
	if len(p.Delays) == 0 && p.Base == 0 {
		p = job.DefaultRetry()
	}
	out := &history.Retry{BaseMS: p.Base.Milliseconds(), Factor: p.Factor, MaxMS: p.Max.Milliseconds(), Jitter: p.Jitter}
	for _, d := range p.Delays {
		out.DelaysMS = append(out.DelaysMS, d.Milliseconds())
	}
	return out
}

// enqueue asks until the outcome is known or patience is over. Who is refused as there is too much
// to do comes again when it was told to, like a client that is to lose nothing.
func (e *enqueuer) enqueue(ctx context.Context, proc string, j job.Job, tries int) {
	for try := 1; ; try++ {
		err := e.once(ctx, proc, j)
		if err == nil {
			e.done.Store(&j)
			e.keep(j)
			e.acknowledged(refOf(j))
			return
		}
		outcome := store.OutcomeOf(err)
		if outcome == store.Unknown {
			e.counts.unknown.Add(1)
		}
		wait, refused := engine.RetryAfter(err)
		switch {
		case try == tries:
			return
		case refused && wait <= e.cfg.TTL:
			wait += rand.N(wait / 2)
		case outcome == store.Fail:
			return
		default:
			wait = e.cfg.TTL / 10
		}
		sleep(ctx, wait)
	}
}

func (e *enqueuer) once(ctx context.Context, proc string, j job.Job) error {
	issuer, err := e.issuer(j)
	if err != nil {
		return err
	}
	spec := specOf(j, issuer, j.Queue)
	if !j.Due.IsZero() {
		spec.DueMS = j.Due.UnixMilli()
	}
	request := history.Event{Proc: proc, Op: history.OpEnqueue, Key: string(j.ID), Details: &history.Details{Job: &spec}}
	return e.ask(ctx, request, func(ctx context.Context) (string, error) {
		r, err := e.scheduler.Submit(ctx, j)
		switch {
		case r.Duplicate:
			return "duplicate", err
		case r.Inbox:
			return "inbox", err
		}
		return "applied", err
	})
}
