package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fencepost/bench"
	"fencepost/core/engine"
	"fencepost/core/worker"
)

// arm runs a scheduler, a new one on a new queue in every round.
type arm struct {
	bench.Arm
	suite  *Suite
	stream uint64
	// miscounts are reported when the arm is closed: a wrong count is no reason to
	// measure nothing else.
	miscounts error
}

// Window implements bench.Subject.
func (a *arm) Window(ctx context.Context, w bench.Window) (bench.Sample, error) {
	p, err := a.start(ctx, fmt.Sprintf("%s_%d", strings.ReplaceAll(a.ID, "/", "_"), w.Round))
	if err != nil {
		return bench.Sample{}, err
	}
	sample, err := w.Loop(ctx, &operator{book: p.book, submit: p.submit, traffic: p.traffic})
	return sample, errors.Join(err, a.stop(p))
}

// Slots of the production scheduler. With fewer than its shards may claim at once its
// batches are not full; but so many effects on their way at once are more than the
// database answers in time.
const maxEffects = 400

func slots(shards int, effects bool) int {
	n := shards * engine.DefaultMaxRunning
	if effects {
		n = min(n, maxEffects)
	}
	return n
}

func (a *arm) start(ctx context.Context, queue string) (*process, error) {
	s, does := a.suite, kinds[a.Kind]
	handler := worker.Handler(nothing)
	if does.effects {
		handler = effect
	}
	b := s.open(a.Arm, queue)
	if does.rival {
		return s.rivals.start(ctx, s.env, b, handler, does.effects, a.stream)
	}
	return startEngine(ctx, s.env, b, handler, slots(a.Shards, does.effects), a.stream)
}

func (a *arm) stop(p *process) error {
	err := p.stop()
	var wrong *miscount
	if errors.As(err, &wrong) {
		a.miscounts = errors.Join(a.miscounts, err)
		return nil
	}
	return err
}

// Close implements bench.Subject.
func (a *arm) Close(context.Context) error { return a.miscounts }
