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
		New:   plain(endWorker{signal: "SIGKILL", shows: "the kernel has no such process any more", end: (*fleet.Worker).Kill}),
	}, Kind{
		Name: "stop-worker", On: Worker, Family: FamilyKill,
		About: "stop worker processes cleanly (SIGTERM: schedulers hand their shards over); started again at heal",
		Proof: "*gone*",
		New:   plain(endWorker{signal: "SIGTERM", shows: "exit code 0", timed: true, end: (*fleet.Worker).Terminate}),
	})
}

// endWorker ends workers at once, or in order as a deployment does.
type endWorker struct {
	signal string
	shows  string // what is known of all of them when they are gone
	timed  bool   // how long they took is worth a word
	end    func(*fleet.Worker, context.Context) error
}

func (f endWorker) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &endedWorkers{endWorker: f, env: env}
	for _, w := range workers {
		began := time.Now()
		v, err := identify(w)
		if err == nil {
			err = env.do(func() error { return f.end(w, ctx) })
		}
		if err != nil {
			return nil, errors.Join(err, a.Heal(ctx))
		}
		v.took = time.Since(began)
		a.workers, a.ended = append(a.workers, w), append(a.ended, v)
	}
	return a, nil
}

type endedWorkers struct {
	endWorker
	env     *Env
	workers []*fleet.Worker
	ended   []victim
}

// victim is a process that is to end, as the kernel knew it before.
type victim struct {
	life    string
	process osproc.Identity
	took    time.Duration
}

func (v victim) String() string { return fmt.Sprintf("%s (pid %d)", v.life, v.process.PID) }

func identify(w *fleet.Worker) (victim, error) {
	if w.PID() == 0 {
		return victim{}, fmt.Errorf("%s does not run", w.Name())
	}
	id, err := osproc.Identify(w.PID())
	return victim{life: w.Life(), process: id}, err
}

// Probe asks the kernel for each of them.
func (a *endedWorkers) Probe(context.Context) Evidence {
	ev := Evidence{Proven: true}
	var all []string
	for _, v := range a.ended {
		if v.process.Exists() {
			ev.also(false, "%s still runs, in state %s", v, osproc.Letter(v.process.PID))
		}
		text := v.String()
		if a.timed {
			text += fmt.Sprintf(" after %.1f s", v.took.Seconds())
		}
		all = append(all, text)
	}
	if ev.Proven {
		ev.Text = a.signal + " ended " + strings.Join(all, ", ") + "; " + a.shows
	}
	return ev
}

func (a *endedWorkers) Heal(ctx context.Context) error {
	var errs []error
	for _, w := range a.workers {
		errs = append(errs, a.env.do(func() error { return w.Start(ctx) }))
	}
	return errors.Join(errs...)
}
