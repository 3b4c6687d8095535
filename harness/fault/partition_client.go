package fault

import (
	"context"

	"fencepost/harness/env/link"
	"fencepost/harness/target/control"
)

func init() {
	register(Kind{
		Name: "partition-client", On: Worker, Family: FamilyLinks,
		About:  "cut workers off from every node of the lock store, both ways; they still reach the sink",
		Proof:  "*cut*, *asked*; the sink answers through its links",
		Params: []string{"mode"},
		Swarm:  &Draw{Place: 1, Params: drawMode, Points: []control.Point{control.Holding}},
		New:    cutting(func(m link.Mode) Fault { return clientPartition{mode: m} }),
	})
}

// clientPartition cuts workers off from the lock store, or (sink) from the sink.
type clientPartition struct {
	mode link.Mode
	sink bool
}

func (p clientPartition) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	links, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	// A client that stands still in its job may have nothing to say to the sink.
	cut, alive, active := links.store(), links.sink, &activeCut{passes: "the links to the sink passed %d bytes meanwhile"}
	if p.sink {
		cut, alive, active = links.sink, links.store(), &activeCut{passes: "the links to the lock store passed %d bytes meanwhile", must: true}
	}
	if active.cut, err = newCut(ctx, env, link.Ends(cut), p.mode, alive...); err != nil {
		return nil, err
	}
	return active, nil
}
