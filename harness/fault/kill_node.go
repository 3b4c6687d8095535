package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"fencepost/harness/env/cluster"
	"fencepost/harness/env/osproc"
)

func init() {
	register(Kind{
		Name: "kill-node", On: Node, Family: FamilyNode,
		About: "SIGKILL nodes; started again at heal",
		Proof: "*gone*; its port refuses connections",
		Swarm: &Draw{Place: 5, Restart: true},
		New:   plain(killNode),
	}, Kind{
		Name: "restart-node", On: Node, Family: FamilyNode,
		About: "stop nodes cleanly (SIGTERM; Cassandra drains); started again at heal",
		Proof: "*gone*; its port refuses connections",
		New:   plain(endNode{"SIGTERM", cluster.Node.Stop}),
	})
}

// endNode ends nodes at once, or in order.
type endNode struct {
	signal string
	end    func(cluster.Node, context.Context) error
}

var killNode = endNode{"SIGKILL", cluster.Node.Kill}

func (f endNode) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	a, err := f.inject(ctx, env, targets)
	if a == nil {
		return nil, err
	}
	return a, err
}

func (f endNode) inject(ctx context.Context, env *Env, targets []string) (*endedNodes, error) {
	nodes, err := env.nodes(targets)
	if err != nil {
		return nil, err
	}
	a := &endedNodes{env: env, signal: f.signal, nodes: nodes}
	for _, n := range nodes {
		pid := n.PID()
		id, err := osproc.Identify(pid)
		if err := env.do(func() error { return f.end(n, ctx) }); err != nil {
			return a, err
		}
		a.ended = append(a.ended, fmt.Sprintf("%s (pid %d)", n.Name(), pid))
		if err == nil {
			a.process = append(a.process, id)
		}
	}
	return a, nil
}

type endedNodes struct {
	env     *Env
	signal  string
	nodes   []cluster.Node
	ended   []string
	process []osproc.Identity // as far as /proc shows them: not in another machine's container
}

// Probe looks for the processes, and dials the dead nodes.
func (a *endedNodes) Probe(ctx context.Context) Evidence {
	names := strings.Join(a.ended, ", ")
	for _, p := range a.process {
		if p.Exists() {
			return Evidence{Text: fmt.Sprintf("of %s process %d still runs, in state %s", names, p.PID, osproc.Letter(p.PID))}
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
	ev := Evidence{Proven: true, Text: a.signal + " ended " + names + "; their ports refuse connections"}
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
			ev.Text += fmt.Sprintf("; %s fails (%s)", env.readThrough(other), firstLine(err))
		} else {
			ev.Text += fmt.Sprintf("; %s is answered", env.readThrough(other))
		}
	}
}

func (a *endedNodes) Heal(ctx context.Context) error {
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
func (a *endedNodes) ready(ctx context.Context, n cluster.Node) error {
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
