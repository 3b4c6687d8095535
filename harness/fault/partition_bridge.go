package fault

import (
	"context"
	"errors"
	"slices"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

func init() {
	register(Kind{
		Name: "partition-bridge", On: Node, Family: FamilyLinks,
		About:  "cut all nodes but the target off from each other: only the target sees every node",
		Proof:  "*cut*, *reads*",
		Params: []string{"mode"},
		// All see a majority, but with one node more gone too few do.
		Takes: history.TakesOneNode,
		Swarm: &Draw{Place: 3},
		New:   cutting(func(m link.Mode) Fault { return bridge{m} }),
	})
}

// bridge cuts all nodes but the target off from each other.
type bridge struct{ mode link.Mode }

func (p bridge) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	others, err := env.split(targets)
	if err != nil {
		return nil, err
	}
	if len(targets) != 1 || len(others) < 2 {
		return nil, errors.New("a bridge is one node between at least two others")
	}
	var ends []link.End
	for _, a := range others {
		for _, b := range others {
			if a != b {
				ends = append(ends, env.Cluster.Links().Flow(a, b)...)
			}
		}
	}
	before := newReads(ctx, env, slices.Concat(targets, others))
	c, err := newCut(ctx, env, ends, p.mode)
	if err != nil {
		return nil, err
	}
	return &activeBridge{cut: c, reads: before, bridge: targets[0], ends: others}, nil
}

type activeBridge struct {
	*cut
	reads  *reads
	bridge string
	ends   []string
}

// Probe: with three nodes each end still sees a majority, itself and the bridge.
func (a *activeBridge) Probe(ctx context.Context) Evidence {
	ev := a.stopped(ctx)
	a.reads.during(ctx, &ev, a.bridge, true)
	for _, node := range a.ends {
		a.reads.during(ctx, &ev, node, len(a.ends) == 2)
	}
	return ev
}

func (a *activeBridge) After(ctx context.Context) Evidence {
	ev := a.cut.After(ctx)
	a.reads.after(ctx, &ev)
	return ev
}
