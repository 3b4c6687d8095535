package fault

import (
	"context"
	"strings"

	"fencepost/harness/env/cluster"
)

func init() {
	register(Kind{
		Name: "restart-node", On: Node, Family: FamilyNode,
		About: "stop Cassandra nodes cleanly (SIGTERM: they drain); started again at heal",
		Proof: "*gone*; its port refuses connections",
		New:   plain(restartNode{}),
	})
}

// restartNode ends nodes in order.
type restartNode struct{}

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
