package checker

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"fencepost/core/job"
	"fencepost/harness/record/history"
)

// TestCoreMeansTheSame: the checker reads what core's words say, without being a part of it.
func TestCoreMeansTheSame(t *testing.T) {
	t.Parallel()
	for prefix, err := range map[string]error{interrupted: job.ErrInterrupted, notHere: job.NotHere(errors.New("x"))} {
		if !strings.HasPrefix(err.Error(), prefix) {
			t.Errorf("%q does not begin with %q", err, prefix)
		}
	}
	if mostSpared != job.MaxInterruptions {
		t.Errorf("%d runs may spend no attempt, core says %d", mostSpared, job.MaxInterruptions)
	}
}

// lastTry fits the ends of jobs whose own run was the last that they may have.
func lastTry(p jobPlace) bool {
	return ownRun(p) && p.j.spec != nil && p.c().Attempt-p.j.sparedBefore(p.i) == p.j.spec.MaxAttempts
}

// attemptMutations are about what counts as an attempt.
var attemptMutations = []mutation{
	{"job given up whose last run was interrupted", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoDLQ, lastTry)
		if ok {
			p.j.finishes[p.c().Run].Error = job.ErrInterrupted.Error()
		}
		return ok
	}},
	{"job given up when runs that were cut short are counted", "P5", nil, func(e *edit) bool {
		p, ok := e.jobs().step(history.DoDLQ, func(p jobPlace) bool { return lastTry(p) && p.j.sparedBefore(p.i) > 0 })
		if ok {
			p.j.respec(func(j *history.Job) { j.MaxAttempts = p.c().Attempt })
		}
		return ok
	}},
	{"job given up after a retry that was interrupted", "P5", nil, func(e *edit) bool {
		_, ok := interruptedRetry(e)
		return ok
	}},
}

// interruptedRetry makes the first run of a job that is given up one that was interrupted.
func interruptedRetry(e *edit) (jobPlace, bool) {
	p, ok := e.jobs().step(history.DoDLQ, func(p jobPlace) bool {
		return lastTry(p) && p.c().Attempt > 1 && p.j.steps[2].c.Do == history.DoRetry && p.j.sparedBefore(p.i) == 0
	})
	if ok {
		p.j.finishes[p.j.steps[2].c.Run].Error = job.ErrInterrupted.Error()
	}
	return p, ok
}

// TestInterruptedRetryIsLegal: a job that may fail once less is given up rightly when one
// of its runs was interrupted.
func TestInterruptedRetryIsLegal(t *testing.T) {
	t.Parallel()
	done := 0
	for seed := uint64(0); seed < 30 && done < 2; seed++ {
		cfg := smallJobs(seed)
		cfg.length /= 3
		e := newEdit(simulate(cfg))
		e.draw = rand.New(rand.NewPCG(seed, 2)).IntN
		p, ok := interruptedRetry(e)
		if !ok {
			continue
		}
		done++
		p.j.respec(func(j *history.Job) { j.MaxAttempts-- })
		if r := Check(context.Background(), e.h, Options{}); r.Verdict != Pass {
			t.Errorf("seed %d: %s: %s", seed, r.Verdict, firstViolation(r, "P5"))
		}
	}
	if done == 0 {
		t.Error("no history has such a job")
	}
}

// TestAttempts: what P5 says of a job of two attempts that is claimed again, or given up by
// the owner of its last run, by how its runs have ended.
func TestAttempts(t *testing.T) {
	t.Parallel()
	const (
		failed  = "boom"
		stopped = interrupted + ": its worker stops"
		foreign = notHere + ": no handler"
		cut     = "cut short by a takeover"
		never   = "never began"
		open    = "began, and its end is not known"
	)
	many := func(n int, end string) (ends []string) {
		for range n {
			ends = append(ends, end)
		}
		return ends
	}
	for name, c := range map[string]struct {
		ends   []string
		claims string // what is said of one more claim, "": nothing
		dlq    string // of giving it up with the last of them
	}{
		"failed once":                    {many(1, failed), "", "after 1 of 2 attempts and 0 runs"},
		"failed twice":                   {many(2, failed), "attempt 3 of at most 2", ""},
		"failed once, then interrupted":  {[]string{failed, stopped}, "", "after 1 of 2 attempts and 1 run that"},
		"interrupted, then failed once":  {[]string{stopped, failed}, "", "after 1 of 2 attempts and 1 run that"},
		"interrupted, then failed twice": {[]string{stopped, failed, failed}, "attempt 4 of at most 2, and 1", ""},
		"cut short twice":                {many(2, cut), "", "after 0 of 2 attempts and 2 runs"},
		"not here, never began":          {[]string{foreign, never}, "", "after 0 of 2 attempts and 2 runs"},
		"its end not known":              {many(2, open), "attempt 3 of at most 2", "had not finished"},
		"as often as it may":             {many(20, stopped), "", "after 0 of 2 attempts and 20 runs"},
		"once too often":                 {many(21, stopped), "again after 21 runs", ""},
		"cut short once too often":       {many(21, cut), "again after 21 runs", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last := int64(len(c.ends))
			j := &jobLog{jobRef: jobRef{storyShard, "a"}, spec: &history.Job{MaxAttempts: 2}, finishes: map[int64]*history.Event{}}
			batch := func(at, fence int64) *write {
				return &write{to: &version{Version: &history.Version{Fence: fence}}, ops: []*cas{{op: op{inv: &history.Event{TS: 10 * at}, outcome: history.OK}}}}
			}
			fence := func(n int64) int64 { // of the n-th run: each that is cut short is the last of its owner
				f := int64(1)
				for _, end := range c.ends[:n-1] {
					if end == cut {
						f++
					}
				}
				return f
			}
			steps := []jobStep{{batch(0, 1), &history.Change{Do: history.DoEnqueue}}}
			for n := int64(1); n <= last; n++ {
				end, run := c.ends[n-1], fence(n)<<32|n
				if end != never {
					j.starts = append(j.starts, &history.Event{TS: 10*n + 1, Token: run})
				}
				if end != never && end != open && end != cut {
					j.finishes[run] = &history.Event{TS: 10*n + 2, Token: run, Error: end}
				}
				back := &history.Change{Do: history.DoRetry, Run: run, Attempt: int(n)}
				w := batch(n+1, fence(n))
				if end == cut {
					back.Do, w = history.DoRescue, batch(n+1, fence(n)+1)
				}
				steps = append(steps, jobStep{batch(n, fence(n)), &history.Change{Do: history.DoClaim, Run: run, Attempt: int(n)}}, jobStep{w, back})
			}
			for _, x := range []struct {
				do    string
				steps []jobStep
				was   jobState
				says  string
			}{
				{history.DoClaim, steps, jobState{name: statePending, attempt: int(last)}, c.claims},
				{history.DoDLQ, steps[:len(steps)-1], jobState{name: stateRunning, attempt: int(last), run: steps[len(steps)-1].c.Run}, c.dlq},
			} {
				a := &past{jobs: newJobs()}
				r := &shardReplay{a: a, l: &rowLog{name: storyShard}, refusals: map[string]int64{}}
				j.steps = x.steps
				change := *steps[len(steps)-1].c
				if change.Do = x.do; x.do == history.DoClaim {
					change.Attempt++
				}
				r.judgeEnd(j, x.was, steps[len(steps)-1].w, &change)
				var got []string
				for _, f := range a.jobs.found["P5"] {
					got = append(got, f.message)
				}
				if said := strings.Join(got, "; "); (said == "") != (x.says == "") || !strings.Contains(said, x.says) {
					t.Errorf("%s: %q, want %q", x.do, said, x.says)
				}
			}
		})
	}
}
