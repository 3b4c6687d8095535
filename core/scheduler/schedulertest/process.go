package schedulertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"fencepost/core/clock"
	"fencepost/core/engine"
	"fencepost/core/scheduler"
	"fencepost/core/sink"
	"fencepost/core/store"
	"fencepost/core/store/sim"
	"fencepost/core/worker"
)

// ErrCrashed is the cause of the end of everything that a crashed process did.
var ErrCrashed = errors.New("schedulertest: the process has crashed")

// process is one life of the scheduler.
type process struct {
	h       *Harness
	s       *scheduler.Scheduler
	o       scheduler.Options
	session *sim.Session
	stop    context.CancelFunc // in order
	nonces  atomic.Int64
	// life ends with it, by a crash or when Run has returned.
	life context.Context
	die  context.CancelCauseFunc
}

// start begins the next life.
func (h *Harness) start() *process {
	h.mu.Lock()
	h.lives++
	life := h.lives
	h.mu.Unlock()
	name := fmt.Sprint("process-", life)
	p := &process{h: h, session: h.Store.Connect(name, 1)}
	p.life, p.die = context.WithCancelCause(context.Background())
	p.o = scheduler.Options{
		Shards: p.session, Sink: h.Sink, Slots: 1, Handlers: scheduler.Handlers{}, NewID: h.newID,
		Engine: engine.Options{
			Name: name, Queues: []engine.Queue{{Name: DefaultQueue, Shards: 1}},
			Reads:   engine.Reads{InboxPoll: time.Minute, Horizon: time.Hour}, // fewer of them: a day takes a third of the time
			World:   engine.World{Clock: clock.Go(), Rand: rand.New(rand.NewPCG(1, uint64(life))), NewID: p.nonce, Settle: settleDown},
			Reports: engine.Reports{Logger: slog.New(slog.DiscardHandler)},
		},
	}
	for _, change := range h.change {
		change(&p.o)
	}
	given := p.o.Handlers
	p.o.Handlers = scheduler.Handlers{}
	for _, all := range []scheduler.Handlers{given, h.handlers} {
		for kind, handler := range maps.All(all) {
			p.handle(kind, handler)
		}
	}
	p.o.Sink = mortal{p, p.o.Sink}
	p.o.Engine.Observer = crashing{p, p.o.Engine.Observer}
	var err error
	if p.s, err = scheduler.New(p.o); err != nil {
		h.fail("%v", err)
	}
	var run context.Context
	run, p.stop = context.WithCancel(context.Background())
	h.mu.Lock()
	h.live = p
	if h.over { // a crash at the end of the test
		p.stop()
	}
	h.mu.Unlock()
	h.running.Go(func() {
		if life > 1 {
			time.Sleep(restart)
		}
		p.die(p.s.Run(run))
	})
	return p
}

// restart is how long a process takes to begin: what the one before it did at the instant
// of its crash is over then.
const restart = time.Millisecond

// settleDown lets everything else of a microsecond happen: the bubble's clock goes on when it has.
// It ends at a whole one, so that it does not matter how often somebody is woken meanwhile.
func settleDown() {
	time.Sleep(time.Microsecond - time.Duration(time.Now().Nanosecond())%time.Microsecond)
}

func (p *process) nonce() string { return fmt.Sprint(p.o.Engine.Name, "/", p.nonces.Add(1)) }

func (p *process) ownsAll() bool {
	for _, q := range p.o.Engine.Queues {
		for n := range q.Shards {
			if !p.s.Owns(store.ShardID{Queue: q.Name, Shard: n}) {
				return false
			}
		}
	}
	return true
}

// handle gives the process a handler, whose context ends when it crashes.
func (p *process) handle(kind string, f worker.Handler) {
	p.o.Handlers[kind] = func(ctx context.Context, t *worker.Task) error {
		time.Sleep(time.Nanosecond) // who began the run does the rest of its work first
		p.h.turn()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(p.life, func() { cancel(context.Cause(p.life)) })()
		return f(ctx, t)
	}
}

// crash ends the process, once, and begins the next one unless the test is over.
func (p *process) crash() {
	p.h.mu.Lock()
	first := p.h.live == p && p.life.Err() == nil
	if first {
		p.die(ErrCrashed)
		p.session.Crash()
		p.stop()
	}
	over := p.h.over
	p.h.mu.Unlock()
	if first && !over {
		p.h.start()
	}
}

// dead is the error of a request of a process that has crashed.
func (p *process) dead(op string) error {
	if p.life.Err() == nil {
		return nil
	}
	return &store.Error{Op: op, Outcome: store.Fail, Cause: ErrCrashed}
}

// crashing crashes its process at steps. A handler of a crashed process is not called.
type crashing struct {
	p *process
	o engine.Observer // may be nil
}

func (c crashing) Begin(op engine.Op) engine.Span {
	return engine.Watch(c.o, nil).Begin(op)
}

func (c crashing) Step(s engine.Step) {
	if c.o != nil {
		c.o.Step(s)
	}
	if c.p.life.Err() == nil && c.p.h.crashesAt(s.Kind) {
		c.p.crash()
	}
	if s.Kind == engine.StepStart && c.p.life.Err() != nil {
		runtime.Goexit() // of the run, whose pool knows what to do then
	}
}

// mortal is a sink as a process reaches it.
type mortal struct {
	p *process
	sink.Sink
}

func (m mortal) Raise(ctx context.Context, resource, issuer string, token int64) (sink.Answer, error) {
	if err := m.p.dead("raise"); err != nil {
		return sink.Answer{}, err
	}
	return m.Sink.Raise(ctx, resource, issuer, token)
}

func (m mortal) Accept(ctx context.Context, resource, issuer string, token int64, e sink.Effect) (sink.Answer, error) {
	if err := m.p.dead("accept"); err != nil {
		return sink.Answer{}, err
	}
	return m.Sink.Accept(ctx, resource, issuer, token, e)
}

func (m mortal) Read(ctx context.Context, resource string, keys ...string) (sink.State, error) {
	if err := m.p.dead("read"); err != nil {
		return sink.State{}, err
	}
	return m.Sink.Read(ctx, resource, keys...)
}

func (m mortal) Forget(ctx context.Context, resource string, before time.Time) (int, error) {
	if err := m.p.dead("forget"); err != nil {
		return 0, err
	}
	return m.Sink.Forget(ctx, resource, before)
}
