package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fencepost/harness/control"
	"fencepost/harness/fleet"
	"fencepost/harness/history"
)

// maxRatePPM keeps a wrong lease clock going forward, and no test from being absurd.
const maxRatePPM = 900_000

// clockFault makes workers' clocks wrong.
type clockFault struct{ to history.Clock }

func newClockFault(s Spec) (Fault, error) {
	switch {
	case s.Offset == 0 && s.RatePPM == 0:
		return nil, errors.New("offset or rate_ppm is missing")
	case s.RatePPM > maxRatePPM || s.RatePPM < -maxRatePPM:
		return nil, fmt.Errorf("rate_ppm %d is not within ±%d", s.RatePPM, maxRatePPM)
	}
	return clockFault{history.Clock{OffsetMS: s.Offset.Milliseconds(), RatePPM: s.RatePPM}}, nil
}

func (clockFault) Kind() TargetKind { return Worker }

func (f clockFault) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &activeClock{to: f.to, workers: workers}
	for _, w := range workers {
		r, err := w.Clock(ctx, &f.to)
		if err != nil {
			return nil, errors.Join(err, a.Heal(ctx))
		}
		a.first = append(a.first, r)
	}
	return a, nil
}

type activeClock struct {
	to      history.Clock
	workers []*fleet.Worker
	first   []control.Reading
}

// wallTolerance is by how much two looks at wall clocks may differ in themselves.
const wallTolerance = 5 * time.Second

// Probe compares what the workers' clocks show with the true ones.
func (a *activeClock) Probe(ctx context.Context) Evidence {
	ev := Evidence{Proven: true}
	var texts []string
	for i, w := range a.workers {
		r, err := w.Clock(ctx, nil)
		if err != nil {
			return Evidence{Text: err.Error()}
		}
		var says []string
		if a.to.OffsetMS != 0 {
			off, want := time.Until(time.Unix(0, r.Wall)), time.Duration(a.to.OffsetMS)*time.Millisecond
			ev.Proven = ev.Proven && (off-want).Abs() <= wallTolerance
			says = append(says, fmt.Sprintf("wall clock is off by %s", off.Round(100*time.Millisecond)))
		}
		if a.to.RatePPM != 0 {
			elapsed := float64(r.At - a.first[i].At)
			got := (float64(r.Lease-a.first[i].Lease)/elapsed - 1) * 1e6
			// The two readings of one look are microseconds apart; over seconds
			// that is a few ppm.
			ev.Proven = ev.Proven && got*float64(a.to.RatePPM) > 0 && got/float64(a.to.RatePPM) > 0.8 && got/float64(a.to.RatePPM) < 1.25
			says = append(says, fmt.Sprintf("lease clock runs %+.0f ppm wrong over %.1f s", got, elapsed/1e9))
		}
		texts = append(texts, fmt.Sprintf("%s: its %s", w.Life(), strings.Join(says, ", ")))
	}
	ev.Text = strings.Join(texts, "; ")
	return ev
}

// Heal sets the clocks right; a life that ended meanwhile took its clock along.
func (a *activeClock) Heal(ctx context.Context) error {
	var errs []error
	for _, w := range a.workers {
		if w.PID() != 0 {
			_, err := w.Clock(ctx, &history.Clock{})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// suspend puts the machine of some workers to sleep.
type suspend struct{}

func (suspend) Kind() TargetKind { return Worker }

func (suspend) Inject(ctx context.Context, env *Env, targets []string) (Active, error) {
	workers, err := env.workers(targets)
	if err != nil {
		return nil, err
	}
	a := &activeSuspend{&activePauseWorker{workers: workers}}
	// Timers stand still first: none may fire at the instant of waking up, as
	// they would after a mere SIGSTOP.
	for _, w := range workers {
		if _, err := w.Clock(ctx, &history.Clock{Suspended: true}); err != nil {
			return nil, errors.Join(err, a.Heal(ctx))
		}
	}
	paused, err := pause(ctx, env, workers)
	if err != nil {
		return nil, errors.Join(err, a.Heal(ctx))
	}
	a.activePauseWorker = paused
	return a, nil
}

type activeSuspend struct{ *activePauseWorker }

func (a *activeSuspend) Probe(ctx context.Context) Evidence {
	ev := a.activePauseWorker.Probe(ctx)
	ev.Text += "; lease timers stand still"
	return ev
}

// Heal wakes the processes, and only then lets their timers go on.
func (a *activeSuspend) Heal(ctx context.Context) error {
	err := a.activePauseWorker.Heal(ctx)
	for _, w := range a.workers {
		_, e := w.Clock(ctx, &history.Clock{})
		err = errors.Join(err, e)
	}
	return err
}
