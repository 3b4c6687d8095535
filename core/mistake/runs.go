package mistake

import (
	"context"
	"sync"

	"fencepost/core/engine"
	"fencepost/core/job"
)

// startWithoutLook begins every run that was claimed, whatever the clock shows: between the
// claim and the start the process may have stood still for longer than the claim is good for.
func startWithoutLook(_ Process, o *engine.Options) func(engine.Executor) engine.Executor {
	r := &begun{told: o.Observer, steps: map[claimed]engine.Step{}}
	o.Observer = engine.Watch(o.Observer, r.step)
	return func(inner engine.Executor) engine.Executor { return lookless{inner, r} }
}

// claimed names a run: ids are unique within their shard.
type claimed struct {
	issuer string
	run    job.RunID
}

// begun are the runs that are about to start or at work, each with its step StepBegin.
type begun struct {
	told  engine.Observer // of the runs that start all the same
	mu    sync.Mutex
	steps map[claimed]engine.Step
}

func (b *begun) step(s engine.Step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch at := (claimed{engine.Issuer(s.Shard), s.Run}); s.Kind {
	case engine.StepBegin:
		b.steps[at] = s
	case engine.StepFinish:
		delete(b.steps, at)
	}
}

// start reports a start as an engine does that takes the look for granted.
func (b *begun) start(at claimed) {
	b.mu.Lock()
	s, ok := b.steps[at]
	b.mu.Unlock()
	if ok && b.told != nil {
		s.Kind, s.Decided, s.Until = engine.StepStart, 0, 1
		b.told.Step(s)
	}
}

// lookless ignores what a run's look at the clock showed.
type lookless struct {
	engine.Executor
	runs *begun
}

func (l lookless) Start(ctx context.Context, x engine.Execution, done func(error)) {
	look := x.Begin
	x.Begin = func() error {
		if look() != nil {
			l.runs.start(claimed{x.Issuer, x.Run.ID})
		}
		return nil
	}
	l.Executor.Start(ctx, x, done)
}
