package broken

import (
	"context"
	"errors"
	"slices"
	"testing"

	"fencepost/core/engine"
	"fencepost/core/job"
)

// startsAll calls what a run begins with, and notes how that ended.
type startsAll struct {
	engine.Executor
	began []error
}

func (s *startsAll) Start(_ context.Context, x engine.Execution, done func(error)) {
	err := x.Begin()
	s.began = append(s.began, err)
	done(err)
}

// watcher notes the steps that it is told.
type watcher struct{ steps []engine.Step }

func (*watcher) Begin(engine.Op) engine.Span { return nil }
func (w *watcher) Step(s engine.Step)        { w.steps = append(w.steps, s) }

// A run whose look at the clock shows that its claim is over starts all the same, and is reported
// as started, once; one whose look is good is as it was.
func TestStartWithoutLook(t *testing.T) {
	t.Parallel()
	hooks, err := Worker("jobs-start-without-look")
	if err != nil {
		t.Fatal(err)
	}
	told, runs := &watcher{}, &startsAll{}
	o := engine.Options{Reports: engine.Reports{Observer: told}}
	hooks.Engine(config, &o)
	x := hooks.Executor(config, runs)
	for run, late := range map[job.RunID]bool{7: false, 8: true} {
		told.steps = nil
		s := engine.Step{Shard: shard1, Job: "1-a", Run: run, Attempt: 2}
		at := func(kind engine.StepKind) {
			step := s
			step.Kind = kind
			o.Observer.Step(step)
		}
		x.Start(t.Context(), engine.Execution{Run: job.Run{ID: run}, Issuer: engine.Issuer(shard1), Begin: func() error {
			at(engine.StepBegin)
			if late {
				return errors.New("the claim is over")
			}
			at(engine.StepStart)
			return nil
		}}, func(error) { at(engine.StepFinish) })
		var kinds []engine.StepKind
		for _, s := range told.steps {
			if kinds = append(kinds, s.Kind); s.Run != run || s.Shard != shard1 || s.Job != "1-a" || s.Attempt != 2 {
				t.Errorf("%+v", s)
			}
		}
		if want := []engine.StepKind{engine.StepBegin, engine.StepStart, engine.StepFinish}; !slices.Equal(kinds, want) {
			t.Errorf("late %v: told %v, want %v", late, kinds, want)
		}
	}
	if len(runs.began) != 2 || errors.Join(runs.began...) != nil {
		t.Errorf("began with %v", runs.began)
	}
}
