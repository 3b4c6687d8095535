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
		About: "SIGKILL Cassandra nodes; started again at heal",
		Proof: "*gone*; its port refuses connections",
		Swarm: &Draw{Place: 5, Restart: true},
		New:   plain(killNode{}),
	})
}

type killNode struct{}

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
