package fault

import (
	"context"
	"errors"
	"strings"
	"time"

	"fencepost/harness/fleet"
	"fencepost/harness/history"
)

// suspend puts the machine of some workers to sleep.
type suspend struct{}

func (suspend) Kind() TargetKind { return Worker }

func (suspend) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &activeSuspend{activePauseWorker: activePauseWorker{env: env, workers: workers, since: time.Now()}, asleep: map[string]int{}, ticked: map[string]bool{}}
	if err := a.begin(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// activeSuspend has the workers tick by the timers that stand still in a sleep.
type activeSuspend struct {
	activePauseWorker
	ticked map[string]bool // before
	asleep map[string]int  // ticks that came though the machine slept, by life
	awake  map[string]bool // ticks came again
}

func (a *activeSuspend) begin(ctx context.Context) error {
	if err := tickAll(a.workers, sleepTick); err != nil {
		return err
	}
	for _, w := range a.workers {
		a.ticked[w.Name()] = awaitTicks(ctx, w, time.Now())
	}
	// Timers stand still first: none may fire at the instant of waking up, as
	// they would after a mere SIGSTOP.
	for _, w := range a.workers {
		if err := a.env.clock(ctx, w, history.Clock{Suspended: true}); err != nil {
			return errors.Join(err, a.Heal(ctx))
		}
	}
	return a.pause(ctx)
}

// sleepTick is how far apart ticks are by the workers' timers, and wakingGrace for how long
// a process runs again whose machine still sleeps: a dozen of them.
const (
	sleepTick   = 20 * time.Millisecond
	wakingGrace = 250 * time.Millisecond
	// tickTimeout bounds the wait for ticks that must come.
	tickTimeout = 5 * time.Second
)

// awaitTicks waits until ticks come after an instant.
func awaitTicks(ctx context.Context, w *fleet.Worker, since time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	poll := time.NewTicker(sleepTick)
	defer poll.Stop()
	for ticksAfter(w, since) < 2 {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func ticksAfter(w *fleet.Worker, since time.Time) int {
	all := w.Ticks()
	n := 0
	for n < len(all) && all[len(all)-1-n].At.After(since) {
		n++
	}
	return n
}

// Heal wakes the processes, and only then lets their timers go on. In between they run, and
// nothing may come of their timers.
func (a *activeSuspend) Heal(ctx context.Context) error {
	err := a.activePauseWorker.Heal(ctx)
	running := time.Now()
	select {
	case <-time.After(wakingGrace):
	case <-ctx.Done():
	}
	for _, w := range a.workers {
		a.asleep[w.Name()] = ticksAfter(w, running)
	}
	a.awake = map[string]bool{}
	for _, w := range a.workers {
		woken := time.Now()
		err = errors.Join(err, a.env.clock(ctx, w, history.Clock{}))
		a.awake[w.Name()] = awaitTicks(ctx, w, woken)
		if w.PID() != 0 {
			err = errors.Join(err, w.Metronome(0))
		}
	}
	return err
}

// After tells what came of the timers.
func (a *activeSuspend) After(context.Context) Evidence {
	ev := Evidence{Proven: true}
	var slept []string
	for _, w := range a.workers {
		name := w.Name()
		switch {
		case !a.ticked[name]:
			ev.also(false, "%s sent no ticks before the fault, so that their absence shows nothing", name)
		case a.asleep[name] > 0:
			ev.also(false, "%s sent %d ticks by timers that were to stand still", name, a.asleep[name])
		case !a.awake[name]:
			ev.also(false, "%s sends no ticks though it is awake", name)
		default:
			slept = append(slept, name)
		}
	}
	if len(slept) > 0 {
		ev.also(true, "%s ran for %d ms while the machine still slept, and sent none of the ticks that came every %d ms before and come again", strings.Join(slept, ", "), wakingGrace.Milliseconds(), sleepTick.Milliseconds())
	}
	return ev
}
