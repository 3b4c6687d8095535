package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/worker"
	"fencepost/harness/history"
)

// JobKind is the kind of the workload's jobs.
const JobKind = "effects"

// payload is what a job of the workload does.
type payload struct {
	Length time.Duration `json:"length_ns"`
	Steps  []string      `json:"steps"`
	Fail   int           `json:"fail,omitempty"` // so many attempts fail
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
	// come on top is left out, as a client that is full does.
	maxEnqueuing = 64
	// enqueueTries bounds how often a job is enqueued whose outcome is unknown.
	enqueueTries = 4
	// again is one in so many: enqueues of a job that is known to be there.
	again = 50
)

// enqueuer enqueues at a rate whatever the answers: an open loop.
type enqueuer struct {
	*process
	scheduler jobScheduler
	issuer    func(job.Job) (string, error) // of a job's tokens
	rng       *rand.Rand                    // used by run only
	retry     job.RetryPolicy

	mu    sync.Mutex
	names names
	done  job.Job // one that was acknowledged
}

func newEnqueuer(p *process, s jobScheduler, issuer func(job.Job) (string, error)) *enqueuer {
	return &enqueuer{
		process: p, scheduler: s, issuer: issuer, names: names{prefix: p.cfg.Life + "/e"}, rng: Rand(p.cfg.Seed, p.cfg.Life+"/enqueue"),
		retry: job.Exponential(p.cfg.Jobs.RetryBase, 2, 4*p.cfg.Jobs.RetryBase),
	}
}

func (e *enqueuer) run(ctx context.Context) {
	if e.cfg.Jobs.Rate <= 0 {
		return
	}
	mean := float64(time.Second) / e.cfg.Jobs.Rate
	var wg sync.WaitGroup
	defer wg.Wait()
	begin, next := time.Now(), time.Duration(0)
	for n := 1; ; n++ {
		next += time.Duration(mean * e.rng.ExpFloat64())
		sleep(ctx, time.Until(begin.Add(next)))
		if ctx.Err() != nil {
			return
		}
		j, p := e.job(n)
		proc := e.take()
		if proc == "" {
			continue
		}
		wg.Go(func() {
			e.counts.enqueuing.Add(1)
			defer e.counts.enqueuing.Add(-1)
			defer e.give(proc)
			e.enqueue(context.WithoutCancel(ctx), proc, j, p)
		})
	}
}

// take returns the proc of an enqueue, "" if as many as may be are under way.
func (e *enqueuer) take() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.names.used() == maxEnqueuing {
		return ""
	}
	return e.names.take()
}

func (e *enqueuer) give(proc string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names.give(proc)
}

// job draws the n-th job, or takes one that was acknowledged.
func (e *enqueuer) job(n int) (job.Job, payload) {
	c := e.cfg.Jobs
	e.mu.Lock()
	done := e.done
	e.mu.Unlock()
	if e.rng.IntN(again) == 0 && done.ID != "" {
		p, _ := decodePayload(done.Payload)
		return done, p
	}
	p := payload{Length: time.Duration((0.5 + e.rng.Float64()) * float64(c.Length))}
	for i := range c.Steps {
		p.Steps = append(p.Steps, fmt.Sprintf("s%d", i+1))
	}
	switch u := e.rng.Float64(); {
	case u < c.Poison:
		p.Fail = job.MaxAttemptsLimit
	case u < c.Poison+c.Flaky:
		p.Fail = 1
	}
	body, _ := json.Marshal(p) // of plain fields
	key := fmt.Sprintf("%s-%d", e.cfg.Life, n)
	j := job.Job{ID: job.KeyedID(c.Queue, key, c.Shards), Queue: c.Queue, Kind: JobKind, Key: key, Payload: body, MaxAttempts: c.MaxAttempts, Retry: e.retry}
	switch {
	case c.Storm > 0:
		j.Due = e.clock.Wall().Truncate(c.Storm).Add(c.Storm)
	case c.Ahead > 0:
		j.Due = e.clock.Wall().Add(time.Duration(e.rng.Int64N(int64(c.Ahead)))).Truncate(time.Millisecond)
	}
	return j.WithDefaults(), p
}

// enqueue asks until the outcome is known or patience is over.
func (e *enqueuer) enqueue(ctx context.Context, proc string, j job.Job, p payload) {
	for range enqueueTries {
		err := e.once(ctx, proc, j, p)
		if err == nil {
			e.mu.Lock()
			e.done = j
			e.mu.Unlock()
			return
		}
		if store.OutcomeOf(err) == store.Fail && !errors.Is(err, engine.ErrBusy) {
			return
		}
		e.counts.unknown.Add(1)
		sleep(ctx, e.cfg.TTL/10)
	}
}

func (e *enqueuer) once(ctx context.Context, proc string, j job.Job, p payload) error {
	issuer, err := e.issuer(j)
	if err != nil {
		return err
	}
	ev := history.Event{Proc: proc, ID: e.rec.NewID(), Type: history.Invoke, Op: history.OpEnqueue, Key: string(j.ID)}
	inv := ev
	inv.Job = &history.Job{
		Queue: j.Queue, Shard: issuer, Kind: j.Kind,
		Resource: worker.Resource(j), Steps: p.Steps, MaxAttempts: j.MaxAttempts, AtMostOnce: j.Rescue == job.AtMostOnce,
	}
	if !j.Due.IsZero() {
		inv.Job.DueMS = j.Due.UnixMilli()
	}
	e.rec.Record(inv)
	ctx, cancel := context.WithTimeout(ctx, e.cfg.TTL)
	defer cancel()
	r, err := e.scheduler.Submit(ctx, j)
	ev.Type, ev.Error = endType(store.OutcomeOf(err)), errText(err)
	if err == nil {
		switch {
		case r.Duplicate:
			ev.Result = "duplicate"
		case r.Inbox:
			ev.Result = "inbox"
		default:
			ev.Result = "applied"
		}
	}
	e.rec.Record(ev)
	return err
}
