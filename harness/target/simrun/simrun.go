// Package simrun makes the history of a whole run in virtual time and without a cluster: the
// production core and the workload's own clients on the simulated store, recorded by the
// recorder of real runs. One worker is away for a while, and requests are lost and late.
//
// So the checker's tests have legal histories whose author is the system itself, and wrong
// ones from each mistake that can be planted in it (package mistake). Benchmarks of the checker
// have large ones (bench/checkers).
package simrun

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/harness/record/history"
	"fencepost/harness/target/seal"
	"fencepost/harness/target/workload"
)

// Config is one run. The seed decides how it goes.
type Config struct {
	// Dir is where its files are left; "": nowhere.
	Dir                     string
	Seed                    uint64
	Workers, Clients, Locks int
	TTL                     time.Duration
	Length                  time.Duration // from the first worker's start to the settling
	Faults                  sim.Faults    // of the network, while the first worker is away
	Kill                    bool          // the first worker dies and comes back; else it is cut off
	// Stands: one in so many requests of clients, or runs of jobs, finds its process standing still,
	// for longer than a lease: where the answer has come (workload's points -answered), or where
	// the run is about to look at the clock, until the fault is healed. 0: none.
	Stands int
	// Plant puts a mistake between a worker's lock client and its rows; nil: none.
	Plant func(rows store.Locks, ttl time.Duration) store.Locks
	// Hooks make the hooks of each life, for mistakes elsewhere; nil: none.
	Hooks func() workload.Hooks
	// Load is what clients of locks do beyond taking one at a time; Hold is for how long they
	// hold one on average, and Think their pause, 0: an eighth of the ttl.
	Load        workload.LockLoad
	Hold, Think time.Duration
	// Forget has the sink forget what is older; 0: nothing. No request may last so long.
	// Trimmed is a mistake in how the sink does that; nil: none.
	Forget  time.Duration
	Trimmed func(sink.Sink) sink.Sink
	// Commands are given on jobs and shards, and Mixture is which jobs are different; nil: none.
	Commands *workload.Commands
	Mixture  *workload.Mixture
	// Shards is how many shards of jobs each queue has instead of locks, and PlantJobs the
	// same for what runs them. Queues is how many queues there are, up to 3; 0: one.
	Shards, Queues int
	// Storm: jobs are due at its next multiple, all at once; 0: spread out. Slots is how many runs a
	// worker has at once; 0: 4.
	Storm time.Duration
	Slots int
	// Sequence is how many jobs follow each.
	Sequence int
	// Recurring are schedules beside them.
	Recurring []workload.Recurring
	PlantJobs func(shards store.Shards, ttl time.Duration) (store.Shards, workload.Hooks)
}

// Draw is a run of some size in which the network does its worst.
func Draw(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 6))
	c := Config{Seed: seed, Workers: 2 + r.IntN(2), Clients: 1 + r.IntN(3), Locks: 1 + r.IntN(2),
		TTL: time.Duration(1+r.IntN(3)) * time.Second, Length: 100 * time.Second, Kill: seed%2 == 1}
	c.Faults = sim.Faults{Latency: time.Millisecond, LoseRequest: 0.1, LoseReply: 0.15, Late: 0.1, LateBy: 2 * c.TTL, StaleRead: 0.1}
	return c
}

// DrawForgetting is a run of locks whose sink forgets what is old.
func DrawForgetting(seed uint64) Config {
	c := Draw(seed)
	c.Forget = 8 * c.TTL
	return c
}

// margins are what the workers declare of their clocks.
const (
	driftBound = 0.01
	marginBase = 20 * time.Millisecond
)

type run struct {
	Config
	t     *testing.T
	dir   string
	store *sim.Store
	sink  *sinktest.Memory
	begun time.Time
	from  int64 // what stamps begin at: after those of the files' headers, which are real
	mu    sync.Mutex
	last  int64 // stamp
	lives []*life
	feed  context.Context // of jobs, until full
	full  context.CancelFunc
	over  sync.WaitGroup
	// healed: nobody stands still any more.
	healed atomic.Bool
}

// Make makes a run and returns what it recorded.
func Make(t *testing.T, c Config) *history.History {
	t.Helper()
	r := &run{Config: c, t: t, dir: cmp.Or(c.Dir, t.TempDir()), store: sim.New(), sink: sinktest.NewMemory(), from: history.Now() + int64(time.Hour)}
	synctest.Test(t, func(t *testing.T) {
		r.t, r.begun = t, time.Now()
		r.do()
	})
	h, err := history.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// do is the run itself, as package run does one on a cluster.
func (r *run) do() {
	host := r.recorder(history.Harness)
	defer host.close()
	host.note(history.Event{Op: history.NoteExpect, Details: &history.Details{Expect: &history.Expect{
		MinCycles: map[string]int{history.PhaseBefore: 1, "recover": 1}, Faults: []string{"f1"}, Workers: r.Workers,
		Success: []history.Success{{Phase: "recover", Want: history.Some}}, RecoveryBoundMS: (5 * r.TTL).Milliseconds(),
		DrainBoundMS: drainBound.Milliseconds() * int64(min(r.Shards, 1)), RowsEnd: r.Shards > 0,
	}}})
	host.phase("warmup")
	ctx, stop := context.WithCancel(r.t.Context())
	r.feed, r.full = context.WithCancel(ctx)
	for n := range r.Workers {
		r.start(ctx, fmt.Sprintf("w%d.1", n+1))
	}
	seals := r.sealing(host)
	trimmed := r.trim(seals)
	slice := r.Length / 10
	time.Sleep(slice)
	host.phase(history.PhaseBefore)
	time.Sleep(3 * slice)
	r.fault(ctx, host, 2*slice)
	host.phase("recover")
	time.Sleep(4 * slice)
	if r.Shards > 0 {
		host.phase("drain")
		r.drain()
	}
	host.phase("settle")
	trimmed()
	stop()
	r.over.Wait()
	time.Sleep(r.Faults.LateBy + time.Minute) // what is late has arrived
	host.phase("seal")
	r.sealLocks(seals)
	r.sealShards(seals)
	seals.Tell()
}

// trim has the sink forget what is old, until the function that it returns is called.
func (r *run) trim(seals *seal.Sealer) (stop func()) {
	if r.Forget == 0 {
		return func() {}
	}
	trimmed := sink.Sink(r.sink)
	if r.Trimmed != nil {
		trimmed = r.Trimmed(trimmed)
	}
	var resources []string
	for n := range r.Locks {
		resources = append(resources, workload.Resource(lockName(n)))
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	var trimming sync.WaitGroup
	trimming.Go(func() { seals.Trim(ctx, trimmed, r.Forget, resources...) })
	return func() {
		cancel()
		trimming.Wait()
	}
}

// fault cuts the first worker off or kills it, and spoils the network of all.
func (r *run) fault(ctx context.Context, host *recorder, length time.Duration) {
	f := history.Fault{ID: "f1", Name: "partition-client", Targets: []string{"w1"}}
	if r.Kill {
		f.Name = "kill-worker"
	}
	note := func(action string) {
		f.Action = action
		told := f
		host.note(history.Event{Op: history.NoteFault, Details: &history.Details{Fault: &told}})
	}
	first := r.lives[0]
	host.phase(history.PhaseFault)
	note(history.ActionInject)
	for _, l := range r.lives {
		l.network(r.Faults)
	}
	if r.Kill {
		for end := time.Now().Add(5 * r.TTL); !r.holds(first.name) && time.Now().Before(end); {
			time.Sleep(r.TTL / 100)
		}
		first.kill()
		crash := history.Event{Proc: first.name, Type: history.Note, Op: history.NoteCrash}
		host.Record(crash)
	} else {
		first.rows.Cut(true)
	}
	time.Sleep(length)
	f.Proven, f.Text = true, "nothing of w1 came"
	note(history.ActionEvidence)
	f.Proven, f.Text = false, ""
	host.phase("heal")
	r.healed.Store(true)
	for _, l := range r.lives {
		l.network(sim.Faults{Latency: r.Faults.Latency})
	}
	if r.Kill {
		r.start(ctx, "w1.2")
	} else {
		first.rows.Cut(false)
	}
	note(history.ActionHeal)
}

// holds: a lock or a shard is a life's.
func (r *run) holds(life string) bool {
	for _, id := range r.shardIDs() {
		if h, _ := r.store.ShardRows(id); h.Owner == life {
			return true
		}
	}
	holders := map[string]string{}
	for _, c := range r.store.Changes() {
		holders[c.Resource] = c.To.Holder
	}
	for _, h := range holders {
		if history.Life(h) == life {
			return true
		}
	}
	return false
}

// life is one process of a worker.
type life struct {
	name          string
	rec           *recorder
	rows, effects *sim.Session
	stop          context.CancelFunc
}

func (l *life) network(f sim.Faults) {
	l.rows.SetFaults(f)
	l.effects.SetFaults(f)
}

// kill ends it here and now: nothing that it does from now on is seen.
func (l *life) kill() {
	l.rec.r.mu.Lock()
	l.rec.dead = true
	l.rec.r.mu.Unlock()
	l.rows.Crash()
	l.effects.Crash()
	l.stop()
}

// start begins a life, which lasts until ctx ends.
func (r *run) start(ctx context.Context, name string) {
	l := &life{name: name, rec: r.recorder(name), rows: r.store.Connect(name, r.Seed), effects: r.store.Connect("sink/"+name, r.Seed)}
	ctx, l.stop = context.WithCancel(ctx)
	l.network(sim.Faults{Latency: r.Faults.Latency})
	r.lives = append(r.lives, l)
	r.over.Go(func() { r.work(ctx, l) })
}

func lockName(n int) string { return fmt.Sprintf("lock-%d", n) }

// work is what a life does.
func (r *run) work(ctx context.Context, l *life) {
	defer l.rec.close()
	cfg := workload.Config{Run: "sim", Worker: history.Worker(l.name), Life: l.name, Seed: r.Seed, Clients: r.Clients, TTL: r.TTL,
		Lock: r.Load, Hold: cmp.Or(r.Hold, r.TTL/8), Think: cmp.Or(r.Think, r.TTL/8), AcquireTimeout: 12 * r.TTL, DriftBound: driftBound, MarginBase: marginBase}
	for n := range r.Locks {
		cfg.Locks = append(cfg.Locks, lockName(n))
	}
	effects := &network{Sink: r.sink, session: l.effects, timeout: r.TTL / 6}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	defer l.rec.note(history.Event{Op: history.NoteExit})
	if r.Shards > 0 {
		r.workJobs(ctx, l, cfg, effects, quiet)
		return
	}
	rows := store.Locks(l.rows)
	if r.Plant != nil {
		rows = r.Plant(rows, r.TTL)
	}
	hooks := workload.Hooks{}
	if r.Hooks != nil {
		hooks = r.Hooks()
	}
	if err := workload.Compete(ctx, cfg, answered{l.rec, l}, clock.Go(), rows, effects, hooks, quiet); err != nil {
		r.t.Error(err)
	}
}

// recorder is a life's own, in virtual time: no two events have one stamp.
type recorder struct {
	*history.Recorder
	r    *run
	life string
	dead bool // guarded by run.mu
}

func (r *run) recorder(life string) *recorder {
	rec, err := history.NewRecorder(filepath.Join(r.dir, life+".jsonl"), history.Header{
		Run: "sim", Proc: life, DriftBound: driftBound, MarginBaseMS: marginBase.Milliseconds(), DedupeMS: r.dedupe().Milliseconds(),
	})
	if err != nil {
		r.t.Error(err)
	}
	return &recorder{Recorder: rec, r: r, life: life}
}

// Now implements workload.Recorder.
func (rec *recorder) Now() int64 {
	r := rec.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last+1, r.from+int64(time.Since(r.begun)))
	return r.last
}

// Record implements workload.Recorder.
func (rec *recorder) Record(e history.Event) int64 {
	e.TS = rec.Now()
	if rec.isDead() {
		return e.TS
	}
	return rec.Recorder.Record(e)
}

func (rec *recorder) isDead() bool {
	rec.r.mu.Lock()
	defer rec.r.mu.Unlock()
	return rec.dead
}

func (rec *recorder) note(e history.Event) {
	e.Proc, e.Type = rec.life, history.Note
	rec.Record(e)
}

func (rec *recorder) phase(name string) {
	rec.note(history.Event{Op: history.NotePhase, Details: &history.Details{Phase: name}})
}

func (rec *recorder) close() {
	if err := rec.Close(); err != nil {
		rec.r.t.Error(err)
	}
}
