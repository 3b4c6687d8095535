package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fencepost/harness/env/osproc"
	"fencepost/harness/fleet"
)

type killWorker struct{}

func (killWorker) Kind() TargetKind { return Worker }

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

// stopWorker ends workers in order, as a deployment does.
type stopWorker struct{}

func (stopWorker) Kind() TargetKind { return Worker }

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

type pauseWorker struct{}

func (pauseWorker) Kind() TargetKind { return Worker }

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
