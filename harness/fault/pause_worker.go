package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
)

func init() {
	register(Kind{
		Name: "pause-worker", On: Worker, Family: FamilyPause,
		About: "SIGSTOP worker processes, SIGCONT at heal",
		Proof: "*stands still*",
		Swarm: &Draw{Place: 8, Points: []control.Point{control.Holding, control.EffectSent}},
		New:   plain(pauseWorker{}),
	})
}

type pauseWorker struct{}

func (pauseWorker) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &activePauseWorker{env: env, workers: workers, since: time.Now()}
	return a, a.pause(ctx)
}

type activePauseWorker struct {
	env       *Env
	workers   []*fleet.Worker
	since     time.Time
	stillness stillness
}

// pause stops the workers and waits until what was under way of theirs has arrived.
func (a *activePauseWorker) pause(ctx context.Context) error {
	for _, w := range a.workers {
		if err := a.env.do(func() error { return w.Pause(ctx) }); err != nil {
			return errors.Join(err, a.Heal(ctx))
		}
	}
	a.stillness = newStillness(ctx, a.env, a.workers)
	return nil
}

// Probe looks at every thread of every process, and for anything that came of them.
func (a *activePauseWorker) Probe(context.Context) Evidence {
	var standing []string
	for _, w := range a.workers {
		n, err := w.Standing()
		if err != nil {
			return Evidence{Text: fmt.Sprintf("%s does not stand still: %v", w.Life(), err)}
		}
		standing = append(standing, fmt.Sprintf("%s (pid %d, %s)", w.Life(), w.PID(), processes(n)))
	}
	ev := a.stillness.kept()
	ev.Text = fmt.Sprintf("every thread of %s stands still after %.1f s; %s", strings.Join(standing, ", "), time.Since(a.since).Seconds(), ev.Text)
	return ev
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

func (a *activePauseWorker) Heal(ctx context.Context) error {
	var errs []error
	for _, w := range a.workers {
		errs = append(errs, a.env.do(func() error { return w.Resume(ctx) }))
	}
	return errors.Join(errs...)
}
