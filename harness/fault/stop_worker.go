package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

func init() {
	register(Kind{
		Name: "stop-worker", On: Worker, Family: FamilyKill,
		About: "stop worker processes cleanly (SIGTERM: schedulers hand their shards over); started again at heal",
		Proof: "*gone*",
		New:   plain(stopWorker{}),
	})
}

// stopWorker ends workers in order, as a deployment does.
type stopWorker struct{}

func (stopWorker) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &activeStopWorker{activeKillWorker{env: env}}
	for _, w := range workers {
		began := time.Now()
		v, err := a.identify(w)
		if err == nil {
			err = env.do(func() error { return w.Terminate(ctx) })
		}
		if err != nil {
			return nil, errors.Join(err, a.Heal(ctx))
		}
		v.took = time.Since(began)
		a.workers, a.killed = append(a.workers, w), append(a.killed, v)
	}
	return a, nil
}

type activeStopWorker struct{ activeKillWorker }

func (a *activeStopWorker) Probe(context.Context) Evidence {
	ev := a.gone()
	if ev.Proven {
		var all []string
		for _, v := range a.killed {
			all = append(all, fmt.Sprintf("%s after %.1f s", v, v.took.Seconds()))
		}
		ev.Text = "SIGTERM ended " + strings.Join(all, ", ") + "; exit code 0"
	}
	return ev
}
