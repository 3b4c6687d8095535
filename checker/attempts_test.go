package checker

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"fencepost/checker/past"
	"fencepost/core/job"
	"fencepost/harness/record/history"
)

// TestCoreMeansTheSame: the checker reads what core's words say, without being a part of it.
func TestCoreMeansTheSame(t *testing.T) {
	t.Parallel()
	for prefix, err := range map[string]error{past.Interrupted: job.ErrInterrupted, past.NotHere: job.NotHere(errors.New("x"))} {
		if !strings.HasPrefix(err.Error(), prefix) {
			t.Errorf("%q does not begin with %q", err, prefix)
		}
	}
	if past.MostSpared != job.MaxInterruptions {
		t.Errorf("%d runs may spend no attempt, core says %d", past.MostSpared, job.MaxInterruptions)
	}
}

// lastTry fits the ends of jobs whose own run was the last that they may have.
func lastTry(p jobPlace) bool {
	return ownRun(p) && p.j.Spec != nil && p.c().Attempt-p.j.SparedBefore(p.i) == p.j.Spec.MaxAttempts
}

// attemptMutations are about what counts as an attempt.
var attemptMutations = []mutation{
	{"job given up whose last run was interrupted", "P5", nil, step(history.DoDLQ, lastTry, func(p jobPlace) {
		p.j.Finishes[p.c().Run].Error = job.ErrInterrupted.Error()
	})},
	{"job given up when runs that were cut short are counted", "P5", nil,
		step(history.DoDLQ, func(p jobPlace) bool { return lastTry(p) && p.j.SparedBefore(p.i) > 0 },
			respec(func(p jobPlace, j *history.Job) { j.MaxAttempts = p.c().Attempt }))},
	{"job given up after a retry that was interrupted", "P5", nil, func(e *edit) bool {
		_, ok := interruptedRetry(e)
		return ok
	}},
}

// interruptedRetry makes the first run of a job that is given up one that was interrupted.
func interruptedRetry(e *edit) (jobPlace, bool) {
	p, ok := e.jobs().step(history.DoDLQ, func(p jobPlace) bool {
		return lastTry(p) && p.c().Attempt > 1 && p.j.Steps[2].Change.Do == history.DoRetry && p.j.SparedBefore(p.i) == 0
	})
	if ok {
		p.j.Finishes[p.j.Steps[2].Change.Run].Error = job.ErrInterrupted.Error()
	}
	return p, ok
}

// TestInterruptedRetryIsLegal: a job that may fail once less is given up rightly when one
// of its runs was interrupted.
func TestInterruptedRetryIsLegal(t *testing.T) {
	t.Parallel()
	done := 0
	for seed := uint64(0); seed < 30 && done < 2; seed++ {
		e := newEdit(simulate(shortJobs(seed)))
		e.draw = rand.New(rand.NewPCG(seed, 2)).IntN
		p, ok := interruptedRetry(e)
		if !ok {
			continue
		}
		done++
		respec(func(_ jobPlace, j *history.Job) { j.MaxAttempts-- })(p)
		if r := Check(context.Background(), e.h, Options{}); r.Verdict != Pass {
			t.Errorf("seed %d: %s: %s", seed, r.Verdict, firstViolation(r, "P5"))
		}
	}
	if done == 0 {
		t.Error("no history has such a job")
	}
}
