package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fencepost/harness/record/history"
	"fencepost/harness/target/control"
	"fencepost/harness/target/fleet"
)

func init() {
	register(Kind{
		Name: "suspend", On: Worker, Family: FamilySuspend,
		About: "the workers' machine sleeps: processes and timers stop, the lease clock continues",
		Proof: "*stands still*. When the process runs again and its machine still sleeps, none of the ticks comes that it sends by its timers, " +
			"which came before and come again once it is awake",
		Needs: Needs{Clocks: true},
		Swarm: &Draw{Place: 9, Points: []control.Point{control.Holding}},
		New:   plain(suspend{}),
	})
}

// suspend puts the machine of some workers to sleep.
type suspend struct{}

func (suspend) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &activeSuspend{activePauseWorker: activePauseWorker{env: env, workers: workers, since: time.Now()}, seen: map[string]*sleep{}}
	for _, w := range workers {
		a.seen[w.Name()] = &sleep{}
	}
	return a, a.begin(ctx)
}

// activeSuspend has the workers tick by the timers that stand still in a sleep.
type activeSuspend struct {
	activePauseWorker
	seen map[string]*sleep // by worker
}

// sleep is what was seen of a worker whose machine slept.
type sleep struct {
	before    bool // ticks came
	meanwhile int  // so many came when the process ran and the machine slept
	woken     time.Time
	after     bool // they came again
	// What the worker says that its clocks showed at both ends.
	from, to control.Reading
}

func (a *activeSuspend) begin(ctx context.Context) error {
	if err := tickAll(a.workers, sleepTick); err != nil {
		return err
	}
	for _, w := range a.workers {
		a.seen[w.Name()].before = awaitTicks(ctx, w, time.Now())
	}
	// Timers stand still first: none may fire at the instant of waking up, as
	// they would after a mere SIGSTOP.
	for _, w := range a.workers {
		says, err := a.env.clock(ctx, w, history.Clock{Suspended: true})
		if err != nil {
			return errors.Join(err, a.Heal(ctx))
		}
		a.seen[w.Name()].from = says
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
		a.seen[w.Name()].meanwhile = ticksAfter(w, running)
	}
	for _, w := range a.workers {
		s := a.seen[w.Name()]
		var e error
		s.woken = time.Now()
		s.to, e = a.env.clock(ctx, w, history.Clock{})
		err = errors.Join(err, e)
	}
	for _, w := range a.workers {
		if s := a.seen[w.Name()]; w.PID() != 0 {
			s.after = awaitTicks(ctx, w, s.woken)
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
		switch s := a.seen[name]; {
		case !s.before:
			ev.also(false, "%s sent no ticks before the fault, so that their absence shows nothing", name)
		case s.meanwhile > 0:
			ev.also(false, "%s sent %d ticks by timers that were to stand still", name, s.meanwhile)
		case !s.after:
			ev.also(false, "%s sends no ticks though it is awake", name)
		default:
			slept = append(slept, fmt.Sprintf("%s (by its own word its lease clock went on by %.1f s, and its timers by %.1f s)", name,
				(s.to.Lease-s.from.Lease).Seconds(), (s.to.Awake-s.from.Awake).Seconds()))
		}
	}
	if len(slept) > 0 {
		ev.also(true, "for %d ms the machine still slept when these processes ran again, and they sent none of the ticks that came every %d ms before and come again: %s",
			wakingGrace.Milliseconds(), sleepTick.Milliseconds(), strings.Join(slept, ", "))
	}
	return ev
}
