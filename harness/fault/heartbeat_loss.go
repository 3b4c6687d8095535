package fault

import (
	"context"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

func init() {
	register(Kind{
		Name: "heartbeat-loss", On: Worker, Family: FamilyLinks,
		About:  "cut only the heartbeats by which workers see each other (job scenarios)",
		Proof:  "*cut*, *asked*; the links to the shards carry bytes",
		Params: []string{"mode"},
		Needs:  Needs{Jobs: true},
		// What is cut is advice.
		Takes: history.TakesNothing,
		New:   cutting(func(m link.Mode) Fault { return heartbeatLoss{m} }),
	})
}

// heartbeatLoss cuts the heartbeats of workers, and what they see of others', and
// nothing else: they keep what they own.
type heartbeatLoss struct{ mode link.Mode }

func (h heartbeatLoss) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	links, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	c, err := newCut(ctx, env, link.Ends(links.beat), h.mode, links.lock...)
	if err != nil {
		return nil, err
	}
	return &activeCut{cut: c, passes: "the links to the shards passed %d bytes meanwhile", must: true}, nil
}
