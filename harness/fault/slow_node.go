package fault

import (
	"context"
	"fmt"
	"slices"

	"fencepost/harness/env/link"
)

func init() {
	register(Kind{
		Name: "slow-node", On: Node, Family: FamilyLatency,
		About:  "delay all traffic between nodes and their peers and clients, each way",
		Proof:  "*delayed*",
		Params: []string{"latency", "jitter"},
		New:    delaying(func(m link.Mode) Fault { return slowNode{m} }),
	})
}

// slowNode delays all that nodes say and hear.
type slowNode struct{ mode link.Mode }

func (p slowNode) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if _, err := env.nodes(targets); err != nil {
		return nil, err
	}
	var ends []link.End
	for i, t := range targets {
		for _, l := range env.Cluster.Links().Of(t) {
			if taken := targets[:i]; slices.Contains(taken, l.From()) || slices.Contains(taken, l.To()) {
				continue // a link between two targets has its delay already
			}
			ends = append(ends, link.Ends([]*link.Link{l})...)
		}
		clients := env.WorkerLinks.To(t)
		if len(clients) == 0 {
			return nil, fmt.Errorf("no worker has a link to %s", t)
		}
		ends = append(ends, link.Ends(clients)...)
	}
	return newDelay(ctx, env, ends, p.mode)
}
