package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fencepost/harness/env/cluster"
)

func init() {
	register(Kind{
		Name: "pause-node", On: Node, Family: FamilyNode,
		About: "SIGSTOP nodes, SIGCONT at heal",
		Proof: "*stands still*, *silent*",
		Swarm: &Draw{Place: 4},
		New:   plain(pauseNode{}),
	})
}

// pauseNode stops nodes without ending them.
type pauseNode struct{}

func (pauseNode) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	nodes, err := env.nodes(targets)
	if err != nil {
		return nil, err
	}
	a := &activePauseNode{env: env, since: time.Now()}
	for _, n := range nodes {
		a.services = append(a.services, newService(ctx, n.Name(), cluster.AddrOf(env.Cluster, n), env.hello(n.IP())))
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

// Probe looks at the processes and reads through the others.
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
