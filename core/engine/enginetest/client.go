package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/worker"
)

// simJob is a job with what its handler will do, and what became of it.
type simJob struct {
	job     job.Job
	clients int // that enqueue it
	after   time.Duration
	// failFirst attempts return an error; cancel: the one after them gives up.
	failFirst int
	cancel    bool
	length    time.Duration
	keys      []string
	stubborn  bool // ignores the end of its context
	// cancelAfter is when an operator cancels it, 0 for never; redriven: one looks
	// for it in the dead letter queue.
	cancelAfter time.Duration
	redriven    bool
	again       bool // it is used again when it was forgotten
	// hasteAfter is when one brings it forward, 0 for never.
	hasteAfter time.Duration
	poison     string
	other      *job.Job // with the same key and another body; nil: there is none
	first      *simJob  // of the sequence in which it follows; nil: in none

	// Guarded by World.mu.
	acked    bool
	enqueues []simEnqueue
	runs     []*simRun
	cancels  simCommand
	redrives simCommand
	hastes   simCommand
}

// simEnqueue is one call that enqueued a job.
type simEnqueue struct {
	begun   time.Time
	outcome store.Outcome
}

// simRun is one start of a handler.
type simRun struct {
	p        *process
	run      job.RunID
	attempt  int
	begun    time.Time
	returned time.Time // zero: never
	err      error
	spared   bool // it failed as it was interrupted
	tooLong  bool // it was ended as it lasted too long
	request  []byte
	payload  []byte
	valid    func() bool
	early    time.Duration // by which its start was before the job's own time
}

func (w *World) makeJobs() {
	r := rand.New(rand.NewPCG(w.cfg.seed, 3))
	commands, hastes := rand.New(rand.NewPCG(w.cfg.seed, 4)), rand.New(rand.NewPCG(w.cfg.seed, 9))
	for n := range w.cfg.jobs {
		j := &simJob{clients: 1, after: time.Duration(r.Int64N(int64(w.cfg.duration * 2 / 3)))}
		if r.IntN(5) == 0 || w.cfg.oddKeys {
			j.clients = 2
		}
		ttl := w.cfg.ttl
		queue, key := w.place(n)
		j.job = job.Job{ID: w.identity(n, queue, key), Queue: queue, Kind: "sim", Key: key,
			Priority: r.IntN(3), MaxAttempts: 3 + r.IntN(6), MaxDuration: 4 * ttl,
			Retry: w.cfg.retry, Request: []byte{byte(n), 'r'}}
		if r.IntN(3) == 0 {
			due := time.Duration(r.Int64N(int64(4 * ttl)))
			j.job.Due = simEpoch.Add(j.after + due)
		}
		if r.IntN(4) == 0 {
			j.job.Rescue = job.AtMostOnce
		}
		j.job = j.job.WithDefaults()
		j.length = time.Duration(r.Int64N(int64(ttl / 2)))
		if r.IntN(6) == 0 {
			j.length = time.Duration(r.Int64N(int64(3 * ttl)))
		}
		switch r.IntN(6) {
		case 0:
			j.failFirst = 1 + r.IntN(2)
		case 1:
			j.failFirst = 100
			j.job.MaxAttempts = 1 + r.IntN(3)
		case 2:
			j.cancel = r.IntN(2) == 0
		}
		for k := range 1 + r.IntN(2) {
			j.keys = append(j.keys, fmt.Sprint("step", k))
		}
		j.stubborn = r.IntN(6) == 0
		if w.cfg.poison && n%5 < 3 {
			j.poison = []string{poisonBody, poisonRun, poisonNote}[n%5]
			j.job.Payload = []byte(j.poison)
		}
		w.planCommands(j, commands)
		w.planHaste(j, hastes)
		w.jobs = append(w.jobs, j)
		w.byID[j.job.ID] = j
	}
	w.shortJobs()
	followers := w.followers()
	w.otherBodies()
	w.gather()
	w.planAgain()
	w.jobs = append(w.jobs, followers...)
}

// simEpoch is when a bubble's clock starts.
var simEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// client enqueues one job, again and again until it is acknowledged.
func (w *World) client(ctx context.Context, j *simJob, r *rand.Rand) {
	sleep(ctx, j.after+time.Duration(r.Int64N(int64(w.cfg.ttl/10)+1)))
	w.ask(ctx, j, r)
}

func (w *World) ask(ctx context.Context, j *simJob, r *rand.Rand) {
	for try := 0; ctx.Err() == nil && try < 12; try++ {
		p := w.at(r.IntN(w.cfg.nodes))
		if r.IntN(3) > 0 { // usually the shard's owner can be reached
			if owner := w.ownerOf(j); owner != nil {
				p = owner
			}
		}
		limit := w.cfg.ttl/10 + time.Duration(r.Int64N(int64(2*w.cfg.ttl)))
		rctx, cancel := context.WithTimeout(ctx, limit)
		begun := time.Now()
		nonce := fmt.Sprintf("%s/%d/%d", j.job.ID, try, r.Int64())
		body := j.either(r)
		if w.cfg.arrives != nil {
			w.cfg.arrives(w, &body)
		}
		w.identify(rctx, p, body)
		rec, err := w.enqueue(rctx, p, body, nonce)
		cancel()
		if !p.answered() {
			w.outcome(j, begun, store.Unknown) // nobody heard the answer
			continue
		}
		if err == nil {
			w.outcome(j, begun, store.OK)
			if rec.Duplicate {
				w.count("duplicate")
				if j.other != nil {
					w.count("duplicate-body")
				}
			}
			return
		}
		if !errors.As(err, new(*engine.EnqueueError)) {
			w.violate("error", "Enqueue returned %T: %v", err, err)
		}
		w.outcome(j, begun, store.OutcomeOf(err))
		sleep(ctx, time.Duration(r.Int64N(int64(w.cfg.ttl/2))))
	}
}

func (w *World) outcome(j *simJob, begun time.Time, o store.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j.enqueues = append(j.enqueues, simEnqueue{begun, o})
	j.acked = j.acked || o == store.OK
	w.counts["enqueue-"+o.String()]++
}

func (w *World) enqueue(ctx context.Context, p *process, j job.Job, nonce string) (engine.Receipt, error) {
	if len(nonce)%2 == 0 {
		return p.eng.Submit(ctx, j)
	}
	rec, err := p.eng.Enqueue(ctx, j)
	if !errors.Is(err, engine.ErrNotOwner) {
		return rec, err
	}
	w.count("inbox")
	b := engine.Inbox{Store: p.session, Timeout: w.cfg.ttl/6 + time.Duration(len(nonce)), Clock: p.clock,
		NewID: func() string { return nonce }}
	return b.Enqueue(ctx, j, w.cfg.shards)
}

// near is who is asked about a shard: its owner, but for once in odds times, when it is anybody.
func (w *World) near(s store.ShardID, odds int, r *rand.Rand) *process {
	p := w.at(r.IntN(w.cfg.nodes))
	for n := range w.cfg.nodes {
		if o := w.at(n); r.IntN(odds) > 0 && !o.isCrashed() && o.eng.Owns(s) {
			p = o
		}
	}
	return p
}

func (w *World) ownerOf(j *simJob) *process {
	for n := range w.cfg.nodes {
		if p := w.at(n); !p.isCrashed() && p.eng.Owns(w.shardOf(j.job.ID)) {
			return p
		}
	}
	return nil
}

// handle is the handler of every job.
func (p *process) handle(ctx context.Context, t *worker.Task) (err error) {
	w, j, own := p.w, p.w.byID[t.Run.Job.ID], ctx
	r := &simRun{p: p, run: t.Run.ID, attempt: t.Run.Attempt, begun: time.Now(), valid: t.Valid,
		request: t.Run.Job.Request, payload: t.Run.Job.Payload}
	w.mu.Lock()
	if p.crashed {
		w.mu.Unlock()
		return errCrashed
	}
	j.runs = append(j.runs, r)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		r.returned, r.err, r.spared = time.Now(), err, err != nil && errors.Is(context.Cause(own), job.ErrInterrupted)
		r.tooLong = tooLong(own)
		w.mu.Unlock()
	}()
	if wall := w.highestWall(p.node, w.ownedSince(w.shardOf(j.job.ID), t.Run.ID)); wall.Before(j.job.Due) {
		r.early = j.job.Due.Sub(wall)
	}
	w.exclusive(j)
	if j.stubborn {
		ctx = context.WithoutCancel(ctx)
	}
	st, err := t.Open(ctx, j.keys...)
	if err != nil {
		return err
	}
	pause := j.length / time.Duration(len(j.keys)+1)
	for _, k := range j.keys {
		if j.stubborn {
			sleep(ctx, pause)
		} else if err := p.clock.Sleep(ctx, pause+1); err != nil {
			return err
		}
		w.exclusive(j)
		if _, done := st.Applied[k]; done {
			continue
		}
		if _, err := t.Apply(ctx, sink.Effect{Key: k, Intent: "do " + k}); err != nil {
			return err
		}
	}
	switch {
	case j.poison == poisonNote:
		return errPoison
	case t.Run.Attempt <= j.failFirst && !w.mended(j):
		return errors.New("as it should")
	case j.cancel:
		return job.Cancel(errors.New("it will never work"))
	}
	return nil
}

// mended: the caller who redrives a job has mended what made it fail.
func (w *World) mended(j *simJob) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return j.redrives.ok > 0
}

var errCrashed = errors.New("crashed")

// exclusive checks that at most one run of the job is entitled to work now.
func (w *World) exclusive(j *simJob) {
	if w.cfg.beyond {
		return
	}
	w.mu.Lock()
	var live []*simRun
	for _, r := range j.runs {
		if !r.p.crashed && r.returned.IsZero() {
			live = append(live, r)
		}
	}
	w.mu.Unlock()
	var valid []string
	for _, r := range live {
		if r.valid() {
			valid = append(valid, fmt.Sprintf("%s run %s", r.p.name, r.run))
		}
	}
	if len(valid) > 1 {
		w.violate("exclusive", "job %s: entitled at once: %v", j.job.ID, valid)
	}
}

// reign names an ownership.
func reign(s store.ShardID, fence int64) string { return fmt.Sprintf("%s fence %d", s, fence) }

// ownedSince is when the ownership under which a run was claimed began, at the latest.
func (w *World) ownedSince(s store.ShardID, run job.RunID) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.began[reign(s, run.Fence())]
}

// owns checks a new owner.
func (w *World) owns(p *process, s engine.Step) {
	name := reign(s.Shard, s.Fence)
	w.mu.Lock()
	w.began[name] = time.Now()
	if other, ok := w.owners[name]; ok {
		w.violateLocked("owner", "%s: owned by %s and %s", name, other, p.name)
	}
	w.owners[name], p.handing[s.Shard] = p.name, false
	var others []*process
	for _, o := range w.procs {
		if o != p && !o.crashed && !o.handing[s.Shard] {
			others = append(others, o)
		}
	}
	w.mu.Unlock()
	for _, o := range others {
		if !w.cfg.beyond && o.eng.Owns(s.Shard) {
			w.violate("exclusive", "%s: %s owns it with fence %d and %s still trusts its own", s.Shard, p.name, s.Fence, o.name)
		}
	}
}

func (p *process) forward(ctx context.Context, addr string, j job.Job) (engine.Receipt, error) {
	rec, err := p.client.Enqueue(ctx, addr, j)
	p.w.count("forward-" + store.OutcomeOf(err).String())
	return rec, err
}
