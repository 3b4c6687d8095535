package enginetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/job"
	"fencepost/core/schedule"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// Config is one run.
type Config struct {
	seed                           uint64
	nodes, shards, jobs, slots     int
	maxOps, maxLoaded, page        int
	maxBytes                       int
	trimEvery, maxDead             int // maxDead deleted rows may be passed by a scan
	ttl, horizon, dedupe, duration time.Duration
	drift                          float64
	rates                          []float64
	skew                           []time.Duration
	retry                          job.RetryPolicy
	faults                         sim.Faults
	// events are the faults of processes, in order of time.
	events  []event
	crashes int // at steps
	// clocksHeal: wrong wall clocks are set right with all else.
	clocksHeal bool
	// beyond: clock rates are worse than declared, so only numbers protect.
	beyond    bool
	poison    bool
	schedules int
	// days: a run of days from epoch on, with so many schedules, in these time zones; see
	// DrawDays.
	days  int
	epoch time.Time
	zones []string
	// pauses: shards are paused and resumed. wholePauses: queues are, each as a whole; ownPauses:
	// who does that forgets the shards that are another process's.
	pauses, wholePauses, ownPauses bool
	// twist changes the definitions of a run of days as they are put; nobody else knows.
	twist func(d *schedule.Definition)
	// deafSink says that it applied effects, and did not.
	deafSink bool
	// tooLong: some jobs last longer than they may. otherBodies: some keys are used again for
	// another body.
	tooLong, otherBodies bool
	// queues is how many there are; 0: one. They have the same shards and the same keys.
	queues int
	// raised is how many shards each queue gets during the run; 0: it keeps its first ones.
	raised int
	// oddKeys: keys are hard to tell apart. arrives changes a job on its way to the engine.
	oddKeys bool
	arrives func(w *World, j *job.Job)
	// sequences: jobs are followed by others.
	sequences bool
	// again: jobs are forgotten and enqueued again.
	again bool
	// storms: jobs are due many at once.
	storms bool
	// retires: what jobs that are forgotten have left in the sink is removed.
	retires bool
	// stands: one in stillAt runs finds its process standing still before it looks at the clock.
	stands bool
	// plant changes a correct process into a broken one, setup the store.
	plant Plant
	setup func(s *sim.Store)
}

// event is a fault of one process at a time.
type event struct {
	at, length time.Duration
	node       int
	kind       string // crash, stop, move, pause, suspend, cut, outage; clock: length is by how much the wall clock is wrong from now on
}

// World is a run's state.
type World struct {
	cfg   Config
	store *sim.Store
	sink  *sinktest.Memory
	// retired are the ledgers of what was removed from the sink.
	retired map[string][]sink.Entry
	begun   time.Time

	mu         sync.Mutex
	rndCrash   *rand.Rand
	crashes    int
	lives      int
	healed     bool
	procs      []*process
	live       []*process
	ops        []*recordedOp
	jobs       []*simJob
	byID       map[job.ID]*simJob
	schedules  []*simSchedule
	calendar   *calendar // of a run of many days
	downUntil  time.Time // in an outage no process starts
	pauses     []simPause
	halts      []simHalt
	firstRows  map[string]store.Row // of a mutant
	owners     map[string]string    // by reign
	began      map[string]time.Time
	late       map[string]bool // by run: its shard was another's when it was to look at the clock
	clocks     []wallClock     // by node
	worked     time.Duration   // by all handlers together
	violations map[string]string
	counts     map[string]int
}

func (w *World) violateLocked(rule, format string, args ...any) {
	if _, ok := w.violations[rule]; !ok {
		w.violations[rule] = fmt.Sprintf(format, args...)
	}
}

func (w *World) violate(rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violateLocked(rule, format, args...)
}

func (w *World) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

func (w *World) isHealed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.healed
}

func (w *World) faults() sim.Faults {
	if w.healed {
		return sim.Faults{Latency: w.cfg.faults.Latency}
	}
	return w.cfg.faults
}

// Result is what a run has shown.
type Result struct {
	// Violations has of each rule that was broken the first time, in words.
	Violations map[string]string
	// Counts is how often the run met what: faults, steps, outcomes.
	Counts map[string]int
	// Hash is the same for two runs that changed the store alike at the same times.
	Hash string
}

// Run simulates one run in a bubble and judges it.
func Run(t *testing.T, cfg Config) Result {
	w := &World{cfg: cfg, store: sim.New(), sink: sinktest.NewMemory(), retired: map[string][]sink.Entry{}, crashes: cfg.crashes,
		rndCrash: rand.New(rand.NewPCG(cfg.seed, 7)), live: make([]*process, cfg.nodes),
		byID: map[job.ID]*simJob{}, owners: map[string]string{}, began: map[string]time.Time{}, late: map[string]bool{}, firstRows: map[string]store.Row{},
		clocks: make([]wallClock, cfg.nodes), violations: map[string]string{}, counts: map[string]int{}}
	w.store.MaxDead = cfg.maxDead
	if cfg.setup != nil {
		cfg.setup(w.store)
	}
	w.makeJobs()
	w.makeSchedules()
	synctest.Test(t, func(*testing.T) {
		time.Sleep(time.Until(cfg.epoch))
		w.begun = time.Now()
		for n := range cfg.nodes {
			w.setClock(n, cfg.skew[n%len(cfg.skew)])
			w.start(n)
		}
		w.faultPhase()
		w.heal()
		w.stopAll()
		time.Sleep(cfg.faults.LateBy + time.Minute) // the last copies land
	})
	w.judge()
	maps.Copy(w.counts, w.store.Met())
	return Result{w.violations, w.counts, w.hash()}
}

// hash is the same for two runs that changed the store alike at the same times.
func (w *World) hash() string {
	h := sha256.New()
	for _, c := range w.store.ShardChanges() {
		fmt.Fprintln(h, c.Session, c.At.Sub(w.begun), c.Shard, c.To.Fence, c.To.Tick, c.To.Read, c.To.LowPending)
		for _, op := range c.Ops {
			fmt.Fprintln(h, op.Kind, op.Row.Key, op.Row.State, op.Row.Attempt, op.Row.Run)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

func sleep(ctx context.Context, d time.Duration) { _ = clock.Go().Sleep(ctx, d) }

// faultPhase runs the clients and the planned faults.
func (w *World) faultPhase() {
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.duration)
	defer cancel()
	var wg sync.WaitGroup
	for n, j := range w.jobs {
		for c := range j.clients {
			r := rand.New(rand.NewPCG(w.cfg.seed, uint64(1000+10*n+c)))
			wg.Go(func() { w.born(ctx, j, r); w.client(ctx, j, r) })
		}
		for stream, does := range []func(context.Context, *simJob, *rand.Rand){1: w.operators, 6: w.reuse, 3: w.hurry} {
			if does != nil {
				r := rand.New(rand.NewPCG(w.cfg.seed, uint64(100_000*stream+n)))
				wg.Go(func() { w.born(ctx, j, r); does(ctx, j, r) })
			}
		}
	}
	if w.cfg.raised > 0 {
		wg.Go(func() {
			sleep(ctx, w.cfg.raiseAt())
			w.raise(ctx)
		})
	}
	for n, s := range w.schedules {
		wg.Go(func() { w.planner(ctx, s, rand.New(rand.NewPCG(w.cfg.seed, uint64(200_000+n)))) })
	}
	for n, id := range w.shardIDs() {
		if w.cfg.pauses && id.Shard < w.cfg.shards {
			r := rand.New(rand.NewPCG(w.cfg.seed, uint64(400_000+n)))
			wg.Go(func() { w.pauser(ctx, r, func(on bool) bool { return w.setPaused(ctx, id, on, r) }) })
		}
	}
	for n, q := range w.queues() {
		if w.cfg.wholePauses {
			r := rand.New(rand.NewPCG(w.cfg.seed, uint64(500_000+n)))
			wg.Go(func() { w.pauser(ctx, r, func(on bool) bool { return w.halt(ctx, q, on, r) }) })
		}
	}
	for _, e := range w.cfg.events {
		wg.Go(func() { w.strike(ctx, e) })
	}
	restarts, stop := context.WithCancel(ctx)
	r := rand.New(rand.NewPCG(w.cfg.seed, 8))
	wg.Go(func() {
		// What crashed at a step comes back too.
		for restarts.Err() == nil {
			sleep(restarts, w.cfg.ttl/2+time.Duration(r.Int64N(int64(w.cfg.ttl))))
			w.restartCrashed()
		}
	})
	<-ctx.Done()
	stop()
	wg.Wait()
	time.Sleep(time.Nanosecond) // all that ends now has ended: healing at the same instant would not replay
}

func (w *World) at(n int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live[n]
}

func (w *World) restartCrashed() {
	if w.isDown() {
		return
	}
	for n := range w.cfg.nodes {
		if p := w.at(n); p.isCrashed() {
			w.start(n)
		}
	}
}

func (w *World) strike(ctx context.Context, e event) {
	sleep(ctx, e.at)
	if ctx.Err() != nil {
		return
	}
	p := w.at(e.node)
	switch e.kind {
	case "crash":
		if !p.isCrashed() {
			p.crash()
		}
	case "stop":
		w.count("stop")
		w.mu.Lock()
		p.stopping = true
		w.mu.Unlock()
		p.cancel()
		select {
		case <-p.done:
		case <-ctx.Done():
			return
		}
		if w.at(e.node) == p {
			w.start(e.node)
		}
	case "move":
		w.move(ctx, p, e.length)
	case "clock":
		w.count("clock")
		w.setClock(e.node, e.length)
	case "outage":
		w.outage(e.length)
	case "pause":
		w.count("pause")
		p.pause(e.length)
	case "suspend":
		w.count("suspend")
		p.pause(e.length)
		p.session.Suspend(e.length)
	case "cut":
		w.count("cut")
		p.session.Cut(true)
		if e.length%2 == 0 { // else the zombie still reaches the sink
			p.effects.Cut(true)
		}
		if e.length%3 == 0 {
			p.peers.Cut(true)
		}
		sleep(ctx, e.length)
		for _, s := range p.networks() {
			s.Cut(false)
		}
	}
}

// heal ends all faults; every job must finish within a bound.
func (w *World) heal() {
	w.mu.Lock()
	w.healed = true
	w.worked = 0
	w.crashes = 0
	for _, p := range w.procs {
		p.crashAt = 0
		for _, s := range p.networks() {
			s.Cut(false)
			s.SetFaults(w.faults())
		}
	}
	var gone []int
	for n, p := range w.live {
		if p.crashed || p.stopping {
			gone = append(gone, n)
		}
	}
	w.mu.Unlock()
	if w.cfg.clocksHeal {
		for n := range w.cfg.nodes {
			w.setClock(n, 0)
		}
	}
	for _, n := range gone {
		w.start(n)
	}
	if w.cfg.raised > 0 && !w.met("raised") {
		w.raise(context.Background())
	}
	w.resumeAll()
	begun := time.Now()
	for {
		time.Sleep(w.cfg.ttl + 17)
		passed := time.Since(begun)
		late := w.unfinished(func(j *simJob) bool {
			// What is scheduled waits for its owner's clock.
			if j == nil {
				return passed >= w.scheduleBound()+w.bound()
			}
			j = j.asked()
			return j.job.Due.IsZero() || j.hastes.ok > j.hastes.duplicates || passed >= w.bound()+w.wrong()
		})
		schedules := w.unfinishedSchedules()
		if passed >= w.scheduleBound() {
			late += schedules
		}
		switch {
		case passed >= w.bound() && late != "":
			w.violate("liveness", "%s after healing: %s", passed, late)
			return
		case w.unfinished(func(*simJob) bool { return true }) == "" && schedules == "":
			return
		}
	}
}

// bound is how long after healing every job must have ended: the last pause, two
// takeovers, the jobs' own delays and retries, the wait for a lost run's slot, and the
// work that was done since: schedules may have asked for more than the slots could do,
// and one process may own all shards.
func (w *World) bound() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return 30*w.cfg.ttl + w.worked/time.Duration(w.cfg.slots)
}

// scheduleBound is when schedules must have come to their end: they go by clocks that
// were wrong once, and a queue of occurrences is worked off one by one.
func (w *World) scheduleBound() time.Duration { return 4*w.bound() + w.spread() }

func (w *World) stopAll() {
	for _, p := range w.procs {
		p.cancel()
	}
	for _, p := range w.procs {
		<-p.done
		if !p.isCrashed() && p.pool.Free() != w.cfg.slots {
			w.violate("slots", "%s: %d of %d slots are free at the end", p.name, p.pool.Free(), w.cfg.slots)
		}
	}
}
