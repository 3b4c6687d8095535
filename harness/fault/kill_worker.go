package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fencepost/harness/env/osproc"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
)

func init() {
	register(Kind{
		Name: "kill-worker", On: Worker, Family: FamilyKill,
		About: "SIGKILL worker processes; started again as a new life at heal",
		Proof: "*gone*",
		Swarm: &Draw{Place: 7, Points: []control.Point{control.Holding, control.AcquireSent, control.ReleaseSent, control.EffectSent}},
		New:   plain(killWorker{}),
	})
}

type killWorker struct{}

func (killWorker) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &activeKillWorker{env: env}
	for _, w := range workers {
		v, err := a.identify(w)
		if err == nil {
			err = env.do(func() error { return w.Kill(ctx) })
		}
		if err != nil {
			return nil, errors.Join(err, a.Heal(ctx))
		}
		a.workers, a.killed = append(a.workers, w), append(a.killed, v)
	}
	return a, nil
}

type activeKillWorker struct {
	env     *Env
	workers []*fleet.Worker
	killed  []victim
}

// victim is a process that is to end, as the kernel knew it before.
type victim struct {
	life    string
	process osproc.Identity
	took    time.Duration
}

func (v victim) String() string { return fmt.Sprintf("%s (pid %d)", v.life, v.process.PID) }

func (a *activeKillWorker) identify(w *fleet.Worker) (victim, error) {
	if w.PID() == 0 {
		return victim{}, fmt.Errorf("%s does not run", w.Name())
	}
	id, err := osproc.Identify(w.PID())
	return victim{life: w.Life(), process: id}, err
}

// gone asks the kernel for each of them.
func (a *activeKillWorker) gone() Evidence {
	ev := Evidence{Proven: true}
	for _, v := range a.killed {
		if v.process.Exists() {
			ev.also(false, "%s still runs, in state %s", v, osproc.Letter(v.process.PID))
		}
	}
	return ev
}

func (a *activeKillWorker) Probe(context.Context) Evidence {
	ev := a.gone()
	if ev.Proven {
		ev.Text = "SIGKILL ended " + joined(a.killed) + "; the kernel has no such process any more"
	}
	return ev
}

func joined(all []victim) string {
	var out []string
	for _, v := range all {
		out = append(out, v.String())
	}
	return strings.Join(out, ", ")
}

func (a *activeKillWorker) Heal(ctx context.Context) error {
	var errs []error
	for _, w := range a.workers {
		errs = append(errs, a.env.do(func() error { return w.Start(ctx) }))
	}
	return errors.Join(errs...)
}
