package fault

import (
	"context"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
	"fencepost/harness/target/fleet"
)

func init() {
	register(Kind{
		Name: "partition-peers", On: Worker, Family: FamilyLinks,
		About:  "cut workers off from what other workers enqueue for their shards (job scenarios)",
		Proof:  "*cut*, *asked*",
		Params: []string{"mode"},
		Needs:  Needs{Jobs: true},
		// What is cut is advice.
		Takes: history.TakesNothing,
		New:   cutting(func(m link.Mode) Fault { return peerPartition{m} }),
	})
}

// peerPartition cuts the links by which other workers reach the targets.
type peerPartition struct{ mode link.Mode }

func (p peerPartition) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	if _, err := env.workers(targets); err != nil {
		return nil, err
	}
	var links []*link.Link
	for _, w := range targets {
		links = append(links, env.WorkerLinks.Between(fleet.Peers, w)...)
	}
	return newCut(ctx, env, link.Ends(links), p.mode)
}
