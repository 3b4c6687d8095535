package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fencepost/harness/env/link"
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

const (
	// grace is how long nothing of stopped workers must arrive until what the kernel held
	// of them counts as delivered; on a busy machine that comes late, within graceLimit.
	grace      = 200 * time.Millisecond
	graceLimit = 5 * time.Second
)

// stillness is of workers that are stopped: nothing of theirs reaches a link, or a file.
type stillness struct {
	env     *Env
	workers []*fleet.Worker
	before  traces
}

// traces are what a worker has left: bytes on its links, and in its history.
type traces struct{ sent, recorded int64 }

func (env *Env) traces(workers []*fleet.Worker) traces {
	var t traces
	for _, w := range workers {
		t.recorded += w.Recorded()
		for _, l := range env.WorkerLinks.Of(w.Name()) {
			d := link.Up
			if l.To() == w.Name() {
				d = link.Down
			}
			t.sent += l.Counters().Dir(d).ReceivedBytes
		}
	}
	return t
}

// newStillness waits until what the kernel holds of stopped workers has arrived.
func newStillness(ctx context.Context, env *Env, workers []*fleet.Worker) stillness {
	s := stillness{env, workers, env.traces(workers)}
	for began := time.Now(); time.Since(began) < graceLimit; {
		select {
		case <-ctx.Done():
			return s
		case <-time.After(grace):
		}
		now := env.traces(workers)
		if now == s.before {
			break
		}
		s.before = now
	}
	return s
}

// kept says that nothing has come since, or what has.
func (s stillness) kept() Evidence {
	now := s.env.traces(s.workers)
	sent, recorded := now.sent-s.before.sent, now.recorded-s.before.recorded
	if sent != 0 || recorded != 0 {
		return Evidence{Text: fmt.Sprintf("though stopped, %d bytes of theirs reached their links, and %d their histories", sent, recorded)}
	}
	return Evidence{Proven: true, Text: "nothing of theirs has reached a link or a history since"}
}
