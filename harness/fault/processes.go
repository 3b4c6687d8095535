package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fencepost/harness/fleet"
	"fencepost/harness/osproc"
)

type killWorker struct{}

func (killWorker) Kind() TargetKind { return Worker }

func (killWorker) Inject(_ context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &activeKillWorker{env: env, workers: workers}
	for _, w := range workers {
		v, err := a.identify(w)
		if err != nil {
			return nil, err
		}
		if err := env.do(func() error { return w.Kill("the fault kill-worker") }); err != nil {
			return nil, err
		}
		a.killed = append(a.killed, v)
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
	a := &activeStopWorker{activeKillWorker{env: env, workers: workers}}
	for _, w := range workers {
		v, err := a.identify(w)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := env.do(func() error { return w.Terminate(ctx) }); err != nil {
			return nil, err
		}
		v.took = time.Since(began)
		a.killed = append(a.killed, v)
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
	env     *Env
	workers []*fleet.Worker
	since   time.Time
}

func (a *activePauseWorker) pause(ctx context.Context) error {
	for _, w := range a.workers {
		if err := a.env.do(func() error { return w.Pause(ctx) }); err != nil {
			return errors.Join(err, a.Heal(ctx))
		}
	}
	return nil
}

func (a *activePauseWorker) Probe(context.Context) Evidence {
	var states []string
	for _, w := range a.workers {
		state := w.ProcessState()
		if state != "T" {
			return Evidence{Text: fmt.Sprintf("%s (pid %d) is in state %q, not stopped", w.Name(), w.PID(), state)}
		}
		states = append(states, fmt.Sprintf("%s (pid %d) in state T", w.Name(), w.PID()))
	}
	return Evidence{Proven: true, Text: fmt.Sprintf("%s after %.1f s", strings.Join(states, ", "), time.Since(a.since).Seconds())}
}

func (a *activePauseWorker) Heal(ctx context.Context) error {
	var errs []error
	for _, w := range a.workers {
		errs = append(errs, a.env.do(func() error { return w.Resume(ctx) }))
	}
	return errors.Join(errs...)
}
