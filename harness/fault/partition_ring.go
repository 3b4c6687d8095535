package fault

import (
	"context"
	"fmt"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

func init() {
	register(Kind{
		Name: "partition-ring", On: Worker, Family: FamilyLinks,
		About:  "cut the first worker off from the first node, the second from the second …: each sees another majority",
		Proof:  "*cut*, *asked*; the links to the other nodes carry bytes",
		Params: []string{"mode"},
		// A worker loses one node, and the others see each other.
		Takes: history.TakesNothing,
		Swarm: &Draw{Place: 2, All: true, Params: drawMode},
		New:   cutting(func(m link.Mode) Fault { return ring{m} }),
	})
}

// ring cuts the i-th worker off from the i-th node; workers beyond the number
// of nodes see all.
type ring struct{ mode link.Mode }

func (p ring) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if _, err := env.workers(targets); err != nil {
		return nil, err
	}
	nodes := env.Cluster.Nodes()
	if len(targets) < len(nodes) {
		return nil, fmt.Errorf("a ring over %d nodes needs as many workers, not %d", len(nodes), len(targets))
	}
	var cut, rest []*link.Link
	for i, w := range targets {
		for j, n := range nodes {
			links := env.WorkerLinks.Between(w, n.Name())
			if i == j {
				cut = append(cut, links...)
			} else {
				rest = append(rest, links...)
			}
		}
	}
	c, err := newCut(ctx, env, link.Ends(cut), p.mode, rest...)
	if err != nil {
		return nil, err
	}
	return &activeCut{cut: c, passes: "the links to the other nodes passed %d bytes", must: true}, nil
}
