package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/clock"
	"fencepost/core/lock"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// The simulation: processes with clocks of their own rates compete for a few
// locks over a faulty network; some are cut off, some crash. What every client
// reported is then judged by the store's chain of versions.

// recorded is one operation as an observer saw it.
type recorded struct {
	op     lock.Op
	result *lock.Result
	sends  []time.Duration // by the process's clock
}

// process is one simulated process.
type process struct {
	name    string
	session *sim.Session
	client  *lock.Client
	clock   clock.Clock
	crashed bool

	w   *world
	ops []*recorded
}

func (p *process) Begin(op lock.Op) lock.Span {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	r := &recorded{op: op}
	p.ops = append(p.ops, r)
	return &span{p, r}
}

func (p *process) LeaseLost(string, string, int64, error) { p.w.count("lost") }

type span struct {
	p *process
	r *recorded
}

func (s *span) Sending(n int) {
	now := s.p.clock.Now()
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	if n != len(s.r.sends) {
		s.p.w.violateLocked("copies", "copy %d of %v is sent after %d others", n, s.r.op, len(s.r.sends))
	}
	s.r.sends = append(s.r.sends, now)
	if n > 0 {
		s.p.w.counts["resend"]++
	}
}

func (s *span) End(res lock.Result) {
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	if s.r.result != nil {
		s.p.w.violateLocked("end", "%v ended twice", s.r.op)
	}
	s.r.result = &res
	s.p.w.counts[s.r.op.Kind.String()+"-"+res.Outcome.String()]++
	if s.r.op.Takeover && res.Outcome == store.OK {
		s.p.w.counts["takeover"]++
	}
}

// world is one run.
type world struct {
	cfg   simConfig
	store *sim.Store
	procs []*process

	mu         sync.Mutex
	violations map[string]string // rule -> first case
	counts     map[string]int
	leases     map[string][]held // by resource: everything ever granted
	tokens     map[string]int64
}

type held struct {
	p *process
	l *lock.Lease
}

type simConfig struct {
	seed      uint64
	processes int
	clients   int
	resources int
	ttl       time.Duration
	// ttls are what requests ask for, but for ttl; none: all ask for ttl.
	ttls     []time.Duration
	drift    float64 // declared
	rates    []float64
	faults   sim.Faults
	duration time.Duration
	// plant changes a correct set-up into a broken one.
	plant func(w *world, p *process, o *lock.Options, s store.Locks) store.Locks
	setup func(s *sim.Store)
}

func (w *world) violateLocked(rule, format string, args ...any) {
	if _, ok := w.violations[rule]; !ok {
		w.violations[rule] = fmt.Sprintf(format, args...)
	}
}

func (w *world) violate(rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violateLocked(rule, format, args...)
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// runSim runs one seed in a bubble and returns what was wrong, and counters.
func runSim(t *testing.T, cfg simConfig) (violations map[string]string, counts map[string]int) {
	w := &world{cfg: cfg, store: sim.New(), violations: map[string]string{}, counts: map[string]int{},
		leases: map[string][]held{}, tokens: map[string]int64{}}
	if cfg.setup != nil {
		cfg.setup(w.store)
	}
	synctest.Test(t, func(t *testing.T) {
		for i := range cfg.processes {
			w.start(t, i)
		}
		w.faultPhase()
		w.healPhase()
		for _, p := range w.procs {
			ctx, cancel := context.WithTimeout(context.Background(), 10*cfg.ttl)
			if p.crashed {
				cancel() // nothing to wait for
			}
			err := p.client.Close(ctx)
			if err != nil && !p.crashed {
				w.violate("close", "%s: %v", p.name, err)
			}
			cancel()
		}
		time.Sleep(cfg.faults.LateBy + time.Minute) // the last copies land
	})
	w.judge()
	maps.Copy(w.counts, w.store.Met())
	return w.violations, w.counts
}

func (w *world) start(t *testing.T, i int) {
	p := &process{name: fmt.Sprintf("p%d", i), w: w}
	rate := 1.0
	if len(w.cfg.rates) > 0 {
		rate = w.cfg.rates[i%len(w.cfg.rates)]
	}
	p.session = w.store.Connect(p.name, w.cfg.seed)
	p.clock = p.session.Clock(rate)
	o := lock.Options{
		TTL: w.cfg.ttl, DriftBound: w.cfg.drift, Clock: p.clock, Observer: p,
		MarginBase: 10 * time.Millisecond,
		Rand:       rand.New(rand.NewPCG(w.cfg.seed, uint64(i)+100)),
		Logger:     quiet,
		// Some processes let every caller contend alone.
		NoSingleFlight: w.cfg.seed%4 == 3 && i == 0,
	}
	var s store.Locks = p.session
	if w.cfg.plant != nil {
		s = w.cfg.plant(w, p, &o, s)
	}
	c, err := lock.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	p.client = c
	w.procs = append(w.procs, p)
}

// faultPhase runs all clients under faults; one process may crash, one may be
// cut off for a while.
func (w *world) faultPhase() {
	rnd := rand.New(rand.NewPCG(w.cfg.seed, 1))
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.duration)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range w.procs {
		p.session.SetFaults(w.cfg.faults)
		for i := range w.cfg.clients {
			r := rand.New(rand.NewPCG(w.cfg.seed, rnd.Uint64()))
			wg.Go(func() { w.client(ctx, p, fmt.Sprintf("%s/c%d", p.name, i), r) })
		}
	}
	wg.Go(func() {
		sleep(ctx, time.Duration(rnd.Int64N(int64(w.cfg.duration))))
		p := w.procs[rnd.IntN(len(w.procs))]
		switch rnd.IntN(4) {
		case 0:
			w.mu.Lock()
			p.crashed = true
			w.mu.Unlock()
			p.session.Crash()
			w.count("crash")
		case 1:
			p.session.Cut(true)
			sleep(ctx, time.Duration(rnd.Int64N(int64(2*w.cfg.ttl))))
			p.session.Cut(false)
			w.count("cut")
		case 2:
			p.session.Suspend(time.Duration(rnd.Int64N(int64(2 * w.cfg.ttl))))
			w.count("suspend")
		}
	})
	wg.Wait()
}

func sleep(ctx context.Context, d time.Duration) { _ = clock.Go().Sleep(ctx, d) }

// client is one caller's life.
func (w *world) client(ctx context.Context, p *process, name string, rnd *rand.Rand) {
	for ctx.Err() == nil {
		sleep(ctx, time.Duration(rnd.Int64N(int64(w.cfg.ttl/4))))
		req := lock.Request{Resource: fmt.Sprintf("r%d", rnd.IntN(w.cfg.resources)), Holder: name}
		if n := rnd.IntN(1 + len(w.cfg.ttls)); n > 0 {
			req.TTL = w.cfg.ttls[n-1]
			w.count("other-ttl")
		}
		req.Timeout = w.cfg.ttl/10 + time.Duration(rnd.Int64N(int64(3*w.cfg.ttl)))
		var l *lock.Lease
		var err error
		if rnd.IntN(5) == 0 {
			l, err = p.client.TryAcquire(ctx, req)
		} else {
			l, err = p.client.Acquire(ctx, req)
		}
		if w.isCrashed(p) {
			return
		}
		if err != nil {
			w.failed(err)
			continue
		}
		w.granted(p, l)
		hold := time.Duration(rnd.Int64N(int64(w.cfg.ttl / 2)))
		if rnd.IntN(5) == 0 {
			hold = time.Duration(rnd.Int64N(int64(3 * w.cfg.ttl)))
		}
		w.hold(l, req.Resource, hold)
		rctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rnd.Int64N(int64(w.cfg.ttl))))
		_ = l.Release(rctx)
		cancel()
	}
}

func (w *world) isCrashed(p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.crashed
}

func (w *world) failed(err error) {
	var ae *lock.AcquireError
	if !errors.As(err, &ae) {
		w.violate("error", "Acquire returned %T: %v", err, err)
		return
	}
	if ae.Unsettled {
		w.count("abandoned")
	}
	if errors.Is(err, lock.ErrLateGrant) {
		w.count("late-grant")
	}
}

// hold works under the lease while it is valid.
func (w *world) hold(l *lock.Lease, resource string, d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Before(end) && l.Valid() {
		w.exclusive(resource)
		sleep(l.Context(), min(time.Until(end), w.cfg.ttl/10))
	}
	if !l.Valid() && l.Context().Err() == nil {
		w.violate("context", "lease %d is not valid and its context is not over", l.Token())
	}
	if err := l.Context().Err(); err != nil {
		var lost *lock.LostError
		if !errors.As(context.Cause(l.Context()), &lost) {
			w.violate("context", "lease %d ended by %v", l.Token(), context.Cause(l.Context()))
		}
	}
}

// healPhase: without faults every process gets every lock within a bound.
func (w *world) healPhase() {
	for _, p := range w.procs {
		p.session.Cut(false)
		p.session.SetFaults(sim.Faults{Latency: time.Millisecond})
	}
	var wg sync.WaitGroup
	for _, p := range w.procs {
		if p.crashed {
			continue
		}
		wg.Go(func() {
			for i := range w.cfg.resources {
				req := lock.Request{Resource: fmt.Sprintf("r%d", i), Holder: p.name + "/heal", Timeout: 6 * slices.Max(append(w.cfg.ttls, w.cfg.ttl))}
				l, err := p.client.Acquire(context.Background(), req)
				if err != nil {
					w.violate("liveness", "%s after healing: %v", p.name, err)
					continue
				}
				w.granted(p, l)
				if err := l.Release(context.Background()); err != nil {
					w.violate("liveness", "%s: release after healing: %v", p.name, err)
				}
			}
		})
	}
	wg.Wait()
}
