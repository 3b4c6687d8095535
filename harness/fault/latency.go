package fault

import (
	"context"
	"math/rand/v2"
	"time"

	"fencepost/harness/env/link"
	"fencepost/harness/record/history"
)

func init() {
	register(Kind{
		Name: "latency", On: Worker, Family: FamilyLatency,
		About:  "delay all traffic between workers and nodes, each way",
		Proof:  "*delayed*",
		Params: []string{"latency", "jitter"},
		Takes:  history.TakesTime,
		Swarm:  &Draw{Place: 5, Params: drawDelay},
		New:    delaying(func(m link.Mode) Fault { return latency{m} }),
	})
}

// latency delays all that workers and nodes say to each other.
type latency struct{ mode link.Mode }

func (p latency) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	links, err := env.workerLinks(targets)
	if err != nil {
		return nil, err
	}
	return newDelay(ctx, env, link.Ends(links.all()), p.mode)
}

func drawDelay(rng *rand.Rand, s *Spec) {
	s.Latency = time.Duration(100+rng.IntN(900)) * time.Millisecond
	s.Jitter = s.Latency / 2
}
