package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/forward"
	"fencepost/core/job"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// process is one life of a simulated worker process.
type process struct {
	w       *World
	name    string
	node    int
	session *sim.Session // to the store
	effects *sim.Session // to the sink
	peers   *sim.Session // to other processes
	clock   clock.Clock
	eng     *engine.Engine
	pool    *worker.Pool
	client  *forward.Client
	cancel  context.CancelFunc
	done    chan struct{}

	// Guarded by World.mu.
	crashed  bool
	steps    int
	crashAt  int // at this step; 0: not at one
	handing  map[store.ShardID]bool
	ids      atomic.Int64
	stopping bool
	stood    bool // it stood still once
}

// start begins a life of node n.
func (w *World) start(n int) *process {
	w.mu.Lock()
	w.lives++
	life := w.lives
	p := &process{w: w, name: fmt.Sprintf("w%d.%d", n, life), node: n, done: make(chan struct{}), handing: map[store.ShardID]bool{}}
	if w.rndCrash.IntN(3) == 0 && w.crashes > 0 {
		w.crashes--
		p.crashAt = 1 + w.rndCrash.IntN(250)
	}
	w.mu.Unlock()
	p.session = w.store.Connect(p.name, w.cfg.seed)
	p.effects = w.store.Connect("sink/"+p.name, w.cfg.seed)
	p.client = forward.NewClient(&simNet{p})
	p.peers = w.store.Connect("peer/"+p.name, w.cfg.seed)
	for _, s := range p.networks() {
		s.SetFaults(w.faults())
	}
	rate := 1.0
	if len(w.cfg.rates) > 0 {
		rate = w.cfg.rates[n%len(w.cfg.rates)]
	}
	p.clock = p.session.Clock(rate)
	snk := &simSink{w, p.effects, p.clock, w.cfg.ttl / 6}
	p.pool = worker.New(worker.Options{
		Slots: w.cfg.slots, Handlers: map[string]worker.Handler{"sim": p.timed(p.handle), "recurring": p.timed(p.recur)}, Sink: snk,
		Clock: p.clock, Logger: quiet,
	})
	o := engine.Options{
		Name: p.name, Addr: p.name, Queues: w.queues(), Executor: p.pool, Forward: p.forward,
		Ownership: engine.Ownership{
			TTL: w.cfg.ttl, DriftBound: w.cfg.drift, MarginBase: 10 * time.Millisecond, DrainTimeout: w.cfg.ttl,
			Rank: func(s store.ShardID) int { return (s.Shard + n) % w.cfg.nodes },
		},
		World: engine.World{
			Clock: p.clock, Wall: func() time.Time { return w.wall(n) },
			Rand:  rand.New(rand.NewPCG(w.cfg.seed, uint64(life)+100)),
			NewID: func() string { return fmt.Sprintf("%s/%d", p.name, p.ids.Add(1)) },
		},
		// Small numbers, so that everything overflows now and then.
		Limits:    engine.Limits{MaxOps: w.cfg.maxOps, MaxBytes: w.cfg.maxBytes, MaxRunning: w.cfg.slots},
		Reads:     engine.Reads{Horizon: w.cfg.horizon, MaxLoaded: w.cfg.maxLoaded, PageSize: w.cfg.page, InboxPoll: w.cfg.ttl / 3, TrimEvery: w.cfg.trimEvery},
		Retention: engine.Retention{DedupeWindow: w.cfg.dedupe},
		Reports:   engine.Reports{Observer: p, Logger: quiet},
	}
	if w.cfg.retires {
		o.Retire = worker.Retire(snk)
	}
	var s store.Shards = p.session
	if w.cfg.plant != nil {
		s = w.cfg.plant(w, s, &o)
	}
	var err error
	if p.eng, err = engine.New(s, o); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	w.mu.Lock()
	w.procs = append(w.procs, p)
	w.live[n] = p
	w.mu.Unlock()
	go func() {
		defer close(p.done)
		if err := p.eng.Run(ctx); err != nil && !p.isCrashed() && ctx.Err() == nil {
			w.violate("run", "%s: %v", p.name, err)
		}
		p.pool.Wait()
	}()
	return p
}

// timed adds up for how long handlers are at work.
func (p *process) timed(h worker.Handler) worker.Handler {
	return func(ctx context.Context, t *worker.Task) error {
		begun := time.Now()
		defer func() {
			p.w.mu.Lock()
			defer p.w.mu.Unlock()
			p.w.worked += time.Since(begun)
		}()
		return h(ctx, t)
	}
}

// answered reports whether what the process has just said was heard. A crash at the
// same instant comes first: which of the two does is for the scheduler to say, and
// would not replay.
func (p *process) answered() bool {
	time.Sleep(time.Nanosecond)
	return !p.isCrashed()
}

func (p *process) isCrashed() bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.crashed
}

// crash ends the life here and now: nothing that it does from now on is seen.
func (p *process) crash() {
	p.w.mu.Lock()
	p.crashed = true
	p.w.mu.Unlock()
	p.w.count("crash")
	for _, s := range p.networks() {
		s.Crash()
	}
	p.cancel()
}

func (p *process) networks() []*sim.Session {
	return []*sim.Session{p.session, p.effects, p.peers}
}

func (p *process) pause(d time.Duration) {
	p.w.mu.Lock()
	p.stood = true
	p.w.mu.Unlock()
	for _, s := range p.networks() {
		s.Pause(d)
	}
}

// Begin implements engine.Observer.
func (p *process) Begin(op engine.Op) engine.Span {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	r := &recordedOp{p: p, op: op}
	p.w.ops = append(p.w.ops, r)
	if op.Kind == engine.OpHandover {
		p.handing[op.Shard] = true
	}
	return r
}

type recordedOp struct {
	p      *process
	op     engine.Op
	copies int
	result *engine.Result
}

func (r *recordedOp) Sending(n int) {
	r.p.w.mu.Lock()
	defer r.p.w.mu.Unlock()
	if n != r.copies {
		r.p.w.violateLocked("copies", "copy %d of %v is sent after %d others", n, r.op, r.copies)
	}
	r.copies++
	if n > 0 {
		r.p.w.counts["resend"]++
	}
}

func (r *recordedOp) End(res engine.Result) {
	r.p.w.mu.Lock()
	defer r.p.w.mu.Unlock()
	if r.result != nil {
		r.p.w.violateLocked("end", "%v ended twice", r.op)
	}
	r.result = &res
	if r.op.Kind == engine.OpHandover && res.Outcome != store.OK {
		r.p.handing[r.op.Shard] = false
	}
	r.p.w.counts[string(r.op.Kind)+"-"+res.Outcome.String()]++
}

// stillAt: see Config.stands. It goes by the run, as which of two comes first would not replay.
const stillAt = 5

// Step implements engine.Observer: the place where processes crash and stand still.
func (p *process) Step(s engine.Step) {
	w := p.w
	if w.cfg.stands && s.Kind == engine.StepBegin && s.Run%stillAt == 0 && !w.isHealed() {
		w.count("stands")
		p.pause(2 * w.cfg.ttl)
	}
	p.session.Hold()
	w.mu.Lock()
	p.steps++
	crash := p.crashAt > 0 && p.steps == p.crashAt && !p.crashed
	dead := p.crashed
	w.mu.Unlock()
	if crash {
		w.count("crash-at-" + string(s.Kind))
		p.crash()
		return
	}
	if dead {
		return
	}
	w.count("step-" + string(s.Kind))
	if s.Kind == engine.StepStart && (s.Until <= 0 || s.Decided >= s.Until) {
		w.violate("start", "%s: run %s was begun at %s, trusted until %s", p.name, s.Run, s.Decided, s.Until)
	}
	w.starts(p, s)
	if s.Kind == engine.StepStart && s.Held > 0 {
		w.count("held")
	}
	if s.Kind == engine.StepOwn {
		w.owns(p, s)
	}
}

// starts checks by the store's own rows, not by the engine's word, that no run starts whose
// shard was another's when it was to look at the clock. Between that look and its start a
// process may stand still.
func (w *World) starts(p *process, s engine.Step) {
	run := fmt.Sprint(p.name, s.Shard, s.Run)
	switch s.Kind {
	case engine.StepBegin:
		h, _ := w.store.ShardRows(s.Shard)
		w.mu.Lock()
		w.late[run] = h.Fence > s.Fence
		w.mu.Unlock()
	case engine.StepStart:
		w.mu.Lock()
		late := w.late[run]
		w.mu.Unlock()
		if late && !w.cfg.beyond {
			w.violate("start", "%s: run %s was begun, and %s was taken over before its look at the clock", p.name, s.Run, s.Shard)
		}
	}
}

// wallClock is a node's wall clock: its settings, in order of time.
type wallClock []setting

type setting struct {
	from   time.Time
	offset time.Duration // from then on
}

// wrongClocks makes the wall clocks of a run wrong by much more than anything lasts.
// In half of all runs they stay so, in the others they are set right with all else.
func (c *Config) wrongClocks(r *rand.Rand, wrong time.Duration) {
	if c.clocksHeal = r.IntN(2) == 0; !c.clocksHeal {
		wrong = 60 * c.ttl
	}
	c.skew = []time.Duration{0, wrong, -wrong}
	r.Shuffle(len(c.skew), func(i, j int) { c.skew[i], c.skew[j] = c.skew[j], c.skew[i] })
	for range r.IntN(4) {
		c.events = append(c.events, event{
			at: time.Duration(r.Int64N(int64(c.duration))), node: r.IntN(c.nodes), kind: "clock",
			length: time.Duration(r.IntN(3)-1) * wrong,
		})
	}
	// Retries come from beyond the window.
	c.horizon, c.retry = c.ttl/2, job.Exponential(2*c.ttl, 2, 4*c.ttl)
	// Ids are remembered by wall clocks.
	c.dedupe += 2 * wrong
}

// wrongBy changes by how much wall clocks are wrong that are.
func (c *Config) wrongBy(wrong time.Duration) {
	by := func(d time.Duration) time.Duration { return time.Duration(cmp.Compare(d, 0)) * wrong }
	for n := range c.skew {
		c.skew[n] = by(c.skew[n])
	}
	for n, e := range c.events {
		if e.kind == "clock" {
			c.events[n].length = by(e.length)
		}
	}
	c.dedupe = 14*c.ttl + 2*wrong
}

func (w *World) setClock(node int, offset time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clocks[node] = append(w.clocks[node], setting{time.Now(), offset})
}

// wall is what a node's wall clock shows.
func (w *World) wall(node int) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.clocks[node]
	return time.Now().Add(c[len(c)-1].offset)
}

// highestWall is the most that a node's wall clock has shown since: what was due by
// it once stays due for an owner when it is set back.
func (w *World) highestWall(node int, since time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.clocks[node]
	best := time.Now().Add(c[len(c)-1].offset)
	for n := len(c) - 2; n >= 0 && c[n+1].from.After(since); n-- {
		if shown := c[n+1].from.Add(c[n].offset); shown.After(best) {
			best = shown
		}
	}
	return best
}

// shownBy is the most that a node's wall clock had shown by an instant.
func (w *World) shownBy(node int, at time.Time) time.Time {
	var best time.Time
	for n, c := range w.clocks[node] {
		if c.from.After(at) {
			break
		}
		until := at
		if rest := w.clocks[node][n+1:]; len(rest) > 0 && rest[0].from.Before(at) {
			until = rest[0].from
		}
		if shown := until.Add(c.offset); shown.After(best) {
			best = shown
		}
	}
	return best
}

// countedTo is what somebody may take it for at an instant who has read a node's wall clock since another
// one, and counts on by the clock for leases: it may have been set back after that.
func (w *World) countedTo(node int, since, at time.Time) (best time.Time) {
	for n, c := range w.clocks[node] {
		rest := w.clocks[node][n+1:]
		if c.from.After(at) || len(rest) > 0 && rest[0].from.Before(since) {
			continue
		}
		if counted := at.Add(c.offset); counted.After(best) {
			best = counted
		}
	}
	return best
}

// wrong is by how much clocks stay wrong beyond what the bound has room for.
func (w *World) wrong() time.Duration {
	if s := w.spread(); !w.cfg.clocksHeal && s > 10*w.cfg.ttl {
		return s
	}
	return 0
}

// spread is how far the wall clocks of two processes have ever been apart.
func (w *World) spread() time.Duration {
	var lo, hi time.Duration
	for _, c := range w.clocks {
		for _, s := range c {
			lo, hi = min(lo, s.offset), max(hi, s.offset)
		}
	}
	return hi - lo + time.Millisecond
}
