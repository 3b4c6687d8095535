package enginetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// failure is the end of a run after which its job waits for another one.
type failure struct {
	// spared: it does not count as an attempt, and nothing is waited for.
	spared bool
	at     time.Time // when the handler returned
	// wait and due are those of the row, in ms.
	wait, due int64
}

// failed notes that a job goes from running back to pending.
func (t *truth) failed(j *jobTruth, id job.ID, run job.RunID, spared bool) {
	j.failure = &failure{spared: spared}
	asked := t.w.byID[id]
	if spared || asked == nil {
		return
	}
	for _, r := range asked.runs {
		if r.run == run {
			j.failure.at = r.returned
		}
	}
}

// waits checks the row of a job that waits after a failure: its policy says for how long.
func (t *truth) waits(j *jobTruth, c sim.ShardChange, row store.Row) {
	f, asked := j.failure, t.w.byID[job.ID(row.ID)]
	if f == nil || asked == nil || f.due != 0 {
		return
	}
	f.wait, f.due = row.Wait, row.Due
	var least, most int64
	if n := j.claims - j.spared; !f.spared {
		least, most = asked.job.Retry.Delay(n, 0).Milliseconds(), asked.job.Retry.Delay(n, 1).Milliseconds()
		t.w.counts["judged-backoff"]++
	}
	if row.Wait < least || row.Wait > most {
		t.w.violate("backoff", "%s at %s: job %s waits %d ms after attempt %d (spared: %v); want %d to %d", c.Shard, c.To.Stamp, row.ID,
			row.Wait, j.claims-j.spared, f.spared, least, most)
	}
}

// claimedAgain checks that the wait after a failure was over, by the claiming process's own clocks:
// either it has passed since the failure by the faster one of them, or the wall clock has shown
// the due time, or would have if nobody had set it back since the row was read, but for the drift of the
// clock that counts from then.
func (t *truth) claimedAgain(j *jobTruth, c sim.ShardChange, row store.Row) {
	f := j.failure
	j.failure = nil
	by := t.told[c.To.Nonce]
	if f == nil || f.spared || f.at.IsZero() || by == nil {
		return
	}
	passed := time.Duration(float64(c.At.Sub(f.at)) * max(1, t.w.rate(by.p.node))).Milliseconds()
	wall := max(t.w.shownBy(by.p.node, c.At).UnixMilli(), t.w.countedTo(by.p.node, f.at, c.At).UnixMilli())
	if passed < f.wait && wall+int64(t.w.cfg.drift*float64(f.wait)) < f.due {
		t.w.violate("backoff", "%s at %s: job %s is claimed %d ms after its failure, and has to wait %d; it is due in %d ms by %s's wall clock",
			c.Shard, c.To.Stamp, row.ID, passed, f.wait, f.due-wall, by.p.name)
	}
}

// rate is how fast the clock of a node runs.
func (w *World) rate(node int) float64 {
	if len(w.cfg.rates) == 0 {
		return 1
	}
	return w.cfg.rates[node%len(w.cfg.rates)]
}

// shortJobs has some jobs last longer than they may.
func (w *World) shortJobs() {
	r, ttl := rand.New(rand.NewPCG(w.cfg.seed, 12)), int64(w.cfg.ttl)
	for _, j := range w.jobs {
		if w.cfg.tooLong && r.IntN(4) == 0 {
			j.job.MaxAttempts = min(j.job.MaxAttempts, 1+r.IntN(3)) // all of them may be too long
			j.job.MaxDuration, j.length = time.Duration(ttl/4+r.Int64N(ttl/2)), time.Duration(r.Int64N(3*ttl))
		}
	}
}

// judgeLength checks that a run ends when it has lasted as long as its job may, and not before.
// One whose process stood still, or whose handler does not listen, may end later.
func (w *World) judgeLength(j *simJob, r *simRun) {
	if r.returned.IsZero() || r.p.crashed {
		return
	}
	lasted := time.Duration(float64(r.returned.Sub(r.begun)) * w.rate(r.p.node))
	const rounding = time.Millisecond
	switch limit := j.job.MaxDuration; {
	case lasted > limit+rounding && !j.stubborn && !r.p.stood:
		w.violate("too-long", "job %s: run %s lasted %s, at most %s are allowed", j.job.ID, r.run, lasted, limit)
	case r.tooLong && lasted < limit-rounding:
		w.violate("too-long", "job %s: run %s was ended as too long after %s of %s", j.job.ID, r.run, lasted, limit)
	case r.tooLong:
		w.counts["too-long"]++
	}
}

// tooLong reports whether a run was ended because it lasted too long.
func tooLong(ctx context.Context) bool { return errors.Is(context.Cause(ctx), worker.ErrTooLong) }

// otherBodies has some keys used a second time, for a job with another body.
func (w *World) otherBodies() {
	r := rand.New(rand.NewPCG(w.cfg.seed, 13))
	for n, j := range w.jobs {
		if w.cfg.otherBodies && r.IntN(4) == 0 && j.poison == "" {
			other := j.job
			other.Request, other.Payload = []byte{byte(n), 'o'}, []byte("other")
			j.other, j.clients = &other, max(j.clients, 2)
		}
	}
}

// either is the job that a client enqueues under a key.
func (j *simJob) either(r *rand.Rand) job.Job {
	if j.other != nil && r.IntN(2) == 0 {
		return *j.other
	}
	return j.job
}

// askedFor reports whether a row has a request of the job, and the same one as the job's first
// row had, if there was one.
func (j *simJob) askedFor(request, first []byte) bool {
	if first != nil {
		return bytes.Equal(request, first)
	}
	return bytes.Equal(request, j.job.Request) || j.other != nil && bytes.Equal(request, j.other.Request)
}

// judgeBody checks that a run has the body that was inserted: the first one under its key.
func (w *World) judgeBody(j *simJob, r *simRun, t *jobTruth) {
	payload, request := j.job.Payload, t.requests[r.run]
	if j.other != nil && bytes.Equal(request, j.other.Request) {
		payload = j.other.Payload
	}
	if !bytes.Equal(r.request, request) || !bytes.Equal(r.payload, payload) {
		w.violate("body", "job %s was inserted for request %q, and run %s has request %q and payload %q", j.job.ID, request, r.run,
			r.request, r.payload)
	}
}

// executions changes what the executor is given.
func executions(f func(x *engine.Execution)) Plant {
	return options(func(o *engine.Options) { o.Executor = altered{o.Executor, f} })
}

type altered struct {
	engine.Executor
	f func(x *engine.Execution)
}

func (a altered) Start(ctx context.Context, x engine.Execution, done func(error)) {
	a.f(&x)
	a.Executor.Start(ctx, x, done)
}

// retryMutants are wrong about attempts: when they come, how long they last, of what.
var retryMutants = []Mutant{
	{Name: "a new owner does not wait for retries", Rules: []string{"backoff"}, Plant: scans(func(r *store.Row) {
		if r.Wait > 0 {
			r.Due, r.Wait = 1, 0
		}
	})},
	{Name: "retries wait half their time", Rules: []string{"backoff"}, Plant: operations(func(op *store.Op) {
		op.Row.Wait /= 2
	})},
	{Name: "a run is told another attempt", Rules: []string{"attempts"}, Plant: executions(func(x *engine.Execution) { x.Run.Attempt++ })},
	{Name: "runs without a limit", Rules: []string{"too-long"}, Plant: executions(func(x *engine.Execution) {
		x.Run.Job.MaxDuration = time.Hour
	})},
	{Name: "runs that are ended early", Rules: []string{"too-long"}, Plant: executions(func(x *engine.Execution) {
		x.Run.Job.MaxDuration /= 2
	})},
	{Name: "the body of another enqueue", Rules: []string{"body"}, Plant: func(w *World, s store.Shards, o *engine.Options) store.Shards {
		return executions(func(x *engine.Execution) {
			if j := w.byID[x.Run.Job.ID]; j != nil && j.other != nil {
				x.Run.Job.Payload = j.other.Payload
			}
		})(w, s, o)
	}},
	{Name: "a clock that stops during suspend", Rules: []string{"exclusive"}, Under: "suspend",
		Plant: stopsInSuspend},
}

var stopsInSuspend = options(func(o *engine.Options) { o.Clock = sim.Monotonic{Clock: o.Clock.(sim.Clock)} })
