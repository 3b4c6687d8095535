package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/osproc"
)

type killNode struct{}

func (killNode) Kind() TargetKind { return Node }

func (killNode) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	nodes, err := env.nodes(targets)
	if err != nil {
		return nil, err
	}
	a := &activeKillNode{env: env, nodes: nodes}
	return a, a.end(func(n cluster.Node) error { return n.Kill(ctx) })
}

type activeKillNode struct {
	env     *Env
	nodes   []cluster.Node
	killed  []string
	process []osproc.Identity // as far as /proc shows them: not in another machine's container
}

// end ends the nodes in one way or the other.
func (a *activeKillNode) end(by func(cluster.Node) error) error {
	for _, n := range a.nodes {
		pid := n.PID()
		id, err := osproc.Identify(pid)
		if err := a.env.do(func() error { return by(n) }); err != nil {
			return err
		}
		a.killed = append(a.killed, fmt.Sprintf("%s (pid %d)", n.Name(), pid))
		if err == nil {
			a.process = append(a.process, id)
		}
	}
	return nil
}

// Probe looks for the processes, and dials the dead nodes.
func (a *activeKillNode) Probe(ctx context.Context) Evidence {
	return a.gone(ctx, "SIGKILL ended "+strings.Join(a.killed, ", "))
}

func (a *activeKillNode) gone(ctx context.Context, text string) Evidence {
	for _, p := range a.process {
		if p.Exists() {
			return Evidence{Text: fmt.Sprintf("of %s process %d still runs, in state %s", strings.Join(a.killed, ", "), p.PID, osproc.Letter(p.PID))}
		}
	}
	for _, n := range a.nodes {
		if n.PID() != 0 {
			return Evidence{Text: fmt.Sprintf("%s (pid %d) still runs, in state %s", n.Name(), n.PID(), n.ProcessState())}
		}
		if err := refuses(ctx, cluster.AddrOf(a.env.Cluster, n)); err != nil {
			return Evidence{Text: n.Name() + " " + firstLine(err)}
		}
	}
	ev := Evidence{Proven: true, Text: text + "; their CQL ports refuse connections"}
	ev.rest(ctx, a.env, a.nodes)
	return ev
}

// rest tells whether the nodes that a fault leaves alone have a quorum.
func (ev *Evidence) rest(ctx context.Context, env *Env, hit []cluster.Node) {
	names := make([]string, len(hit))
	for i, n := range hit {
		names[i] = n.Name()
	}
	for _, other := range env.others(names) {
		n, ok := env.Cluster.Node(other)
		if !ok || n.State() != cluster.Running {
			continue
		}
		if err := env.Read(ctx, other); err != nil {
			ev.Text += fmt.Sprintf("; a SERIAL read through %s fails (%s)", other, firstLine(err))
		} else {
			ev.Text += fmt.Sprintf("; a SERIAL read through %s is answered", other)
		}
	}
}

func (a *activeKillNode) Heal(ctx context.Context) error {
	errs := make([]error, len(a.nodes))
	var wg sync.WaitGroup
	for i, n := range a.nodes {
		wg.Go(func() { errs[i] = a.env.do(func() error { return n.Start(ctx) }) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, n := range a.nodes {
		if err := a.ready(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until consensus works through a node again, unless so many nodes
// are still away that it cannot: the last fault to heal waits for all.
func (a *activeKillNode) ready(ctx context.Context, n cluster.Node) error {
	running := 0
	for _, n := range a.env.Cluster.Nodes() {
		if n.State() == cluster.Running {
			running++
		}
	}
	if 2*running <= len(a.env.Cluster.Nodes()) {
		return nil
	}
	return n.WaitReady(ctx)
}

// restartNode ends nodes in order.
type restartNode struct{}

func (restartNode) Kind() TargetKind { return Node }

func (restartNode) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	nodes, err := env.nodes(targets)
	if err != nil {
		return nil, err
	}
	a := &activeRestartNode{activeKillNode{env: env, nodes: nodes}}
	return a, a.end(func(n cluster.Node) error { return n.Stop(ctx) })
}

type activeRestartNode struct{ activeKillNode }

func (a *activeRestartNode) Probe(ctx context.Context) Evidence {
	return a.gone(ctx, "SIGTERM ended "+strings.Join(a.killed, ", "))
}

// pauseNode stops nodes without ending them.
type pauseNode struct{}

func (pauseNode) Kind() TargetKind { return Node }

func (pauseNode) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	nodes, err := env.nodes(targets)
	if err != nil {
		return nil, err
	}
	a := &activePauseNode{env: env, since: time.Now()}
	for _, n := range nodes {
		a.services = append(a.services, newService(ctx, n.Name(), cluster.AddrOf(env.Cluster, n), cqlOptions, env.secure(n.IP())))
		if err := env.do(func() error { return n.Pause(ctx) }); err != nil {
			return nil, errors.Join(err, a.Heal(ctx))
		}
		a.nodes = append(a.nodes, n)
	}
	return a, nil
}

type activePauseNode struct {
	env      *Env
	nodes    []cluster.Node
	services []service
	since    time.Time
}

// Probe looks at the processes and asks the others for a SERIAL read.
func (a *activePauseNode) Probe(ctx context.Context) Evidence {
	var names []string
	for _, n := range a.nodes {
		if err := n.Standing(); err != nil {
			return Evidence{Text: fmt.Sprintf("%s (pid %d) does not stand still: %v", n.Name(), n.PID(), err)}
		}
		names = append(names, fmt.Sprintf("%s (pid %d)", n.Name(), n.PID()))
	}
	ev := Evidence{Proven: true, Text: fmt.Sprintf("every thread of %s stands still after %.1f s", strings.Join(names, ", "), time.Since(a.since).Seconds())}
	for _, s := range a.services {
		s.silent(ctx, &ev)
	}
	ev.rest(ctx, a.env, a.nodes)
	return ev
}

func (a *activePauseNode) Heal(ctx context.Context) error {
	var errs []error
	for _, n := range a.nodes {
		errs = append(errs, a.env.do(func() error { return n.Resume(ctx) }))
	}
	return errors.Join(errs...)
}

func (a *activePauseNode) After(ctx context.Context) Evidence {
	ev := Evidence{Proven: true}
	for _, s := range a.services {
		s.back(ctx, &ev)
	}
	return ev
}
