package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/cluster/servers"
	"fencepost/harness/env/osproc"
	"fencepost/harness/record/history"
)

func init() {
	register(Kind{
		Name: "server-clock", On: Node, Family: FamilyServerClock,
		About: "the wall clock of servers jumps by an offset while they run, and back at heal",
		Proof: fmt.Sprintf("The harness asks each server for its time, past all links, and looks at its own clock before and after the answer: "+
			"the server's is right before and after the fault, and wrong by the offset meanwhile, each within %s or half of the offset. "+
			"It is the same process all the time", serverClockTolerance),
		Params: []string{"offset"},
		Needs:  Needs{Server: func(k servers.Kind) string { return k.Cannot.ServerClock }},
		// Whatever a server ends early was not late.
		Takes: history.TakesNothing,
		New:   newServerClock,
	})
}

// serverClockTolerance is by how much a server's clock may seem to miss what it should be: what an
// answer takes on a busy machine, and its way here, cannot be told apart.
const serverClockTolerance = 500 * time.Millisecond

// serverClock sets servers' wall clocks wrong.
type serverClock struct{ offset time.Duration }

func newServerClock(s Spec) (Fault, error) {
	switch {
	case s.Offset == 0:
		return nil, errors.New("offset is missing: by how much the clock jumps, such as 10m or -30s")
	case s.Offset%time.Second != 0:
		return nil, fmt.Errorf("offset %s is not a number of whole seconds", s.Offset)
	}
	return serverClock{s.Offset}, nil
}

func (f serverClock) tolerance() time.Duration { return min(serverClockTolerance, f.offset.Abs()/2) }

func (f serverClock) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if env.Store == nil {
		return nil, errNoStore
	}
	nodes, err := env.nodes(targets)
	if err != nil {
		return nil, err
	}
	a := &activeServerClock{env: env, fault: f, nodes: nodes}
	for _, n := range nodes {
		id, err := osproc.Identify(n.PID())
		if err != nil {
			return nil, fmt.Errorf("before the fault: %s: %w", n.Name(), err)
		}
		a.process = append(a.process, id)
		by, err := env.serverWrong(ctx, n.Name())
		if err == nil && by.Abs() > f.tolerance() {
			err = fmt.Errorf("its clock is wrong by %s", by)
		}
		if err != nil {
			return nil, fmt.Errorf("before the fault: %s: %w", n.Name(), err)
		}
	}
	if err := a.set(f.offset); err != nil {
		return nil, errors.Join(err, a.Heal(ctx))
	}
	return a, nil
}

type activeServerClock struct {
	env     *Env
	fault   serverClock
	nodes   []cluster.Node
	process []osproc.Identity
}

func (a *activeServerClock) set(offset time.Duration) error {
	var errs []error
	for _, n := range a.nodes {
		errs = append(errs, a.env.do(func() error { return a.env.Store.SetClock(n.Name(), offset) }))
	}
	return errors.Join(errs...)
}

// serverWrong is by how much a server's clock is ahead of the harness's.
func (e *Env) serverWrong(ctx context.Context, node string) (time.Duration, error) {
	return asked(ctx, func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		says, err := e.Store.Now(ctx, node)
		return says.Sub(began.Add(time.Since(began) / 2)).Round(time.Millisecond), err
	})
}

// show adds how wrong the clocks are.
func (a *activeServerClock) show(ctx context.Context, ev *Evidence, want time.Duration) {
	for i, n := range a.nodes {
		by, err := a.env.serverWrong(ctx, n.Name())
		if err != nil {
			ev.also(false, "%s does not say what time it is (%s)", n.Name(), firstLine(err))
			continue
		}
		ev.also((by-want).Abs() <= a.fault.tolerance(), "by its own answer the clock of %s is ahead of the harness's by %s (%s ± %s is meant)",
			n.Name(), by, want, a.fault.tolerance())
		if !a.process[i].Exists() {
			ev.also(false, "%s is not the process any more that it was (pid %d)", n.Name(), a.process[i].PID)
		}
	}
}

// Probe asks the servers for the time.
func (a *activeServerClock) Probe(ctx context.Context) Evidence {
	ev := Evidence{Proven: true}
	a.show(ctx, &ev, a.fault.offset)
	return ev
}

func (a *activeServerClock) Heal(context.Context) error { return a.set(0) }

func (a *activeServerClock) After(ctx context.Context) Evidence {
	ev := Evidence{Proven: true}
	a.show(ctx, &ev, 0)
	return ev
}
