package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/checker"
	"fencepost/harness/target/system"
	"fencepost/reports"
	"fencepost/reports/evidence"
)

// Variants run under the swarm that has their workload; what none has is left out.
func TestHuntVariants(t *testing.T) {
	t.Parallel()
	h, err := newHunt(system.Directed(), "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	swarms := map[string]int{}
	for _, s := range h.variants {
		swarms[h.job(s, 1).Scenario]++
		if s.Case != "" {
			t.Errorf("%s has a case", s.Label())
		}
	}
	for _, name := range reports.Swarms {
		if swarms[name] < 20 {
			t.Errorf("%d variants under %s", swarms[name], name)
		}
	}
	holes := slices.DeleteFunc(system.Directed(), func(s system.System) bool { return s.Case == "" })
	if _, err := newHunt(holes, "", time.Minute); err == nil || !strings.Contains(err.Error(), "holes of lock-per-job") {
		t.Errorf("only holes: %v", err)
	}
}

// Each variant runs once, then those that are left once more, until each is found or its time is over; what is
// stored counts.
func TestHunt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := system.Broken()[:4]
		h, err := newHunt(all, "", 3*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		name := func(i int) string { return all[i].Name }
		stored := evidence.Result{Job: h.job(all[0], 1), Attempt: 1, Verdict: checker.Pass, Check: &checker.Result{}, Took: time.Minute}
		h.results = []evidence.Result{stored}
		var ran []string
		run := h.observe(func(_ context.Context, j evidence.Job) (evidence.Result, error) {
			time.Sleep(time.Minute)
			ran = append(ran, j.System+" "+j.Contention)
			switch {
			case j.System == name(1) && j.Seed == 2:
				return evidence.Result{Verdict: checker.Fail, Check: &checker.Result{Verdict: checker.Fail}}, nil
			case j.System == name(2):
				return evidence.Result{}, errors.New("no such program")
			}
			return evidence.Result{Verdict: checker.Pass, Check: &checker.Result{Verdict: checker.Pass}}, nil
		})
		for j := range h.jobs() {
			if j == stored.Job {
				continue // as evidence.Loop does
			}
			_, _ = run(t.Context(), j)
		}
		var want []string
		for seed, variants := range [][]int{{1, 2, 3}, {0, 1, 2, 3}, {0, 2, 3}} {
			for _, i := range variants {
				want = append(want, name(i)+" "+swarmLevels[seed%2])
			}
		}
		if !slices.Equal(ran, want) {
			t.Errorf("ran\n%q, want\n%q", ran, want)
		}
		rows := reports.Swarm(h.variants, "", h.results)
		if rows[0].Found || !rows[1].Found || rows[2].Errors != 3 || rows[3].Runs != 3 {
			t.Errorf("%+v", rows)
		}
		if err := judgeSwarm(io.Discard, rows, h.limit, nil); exitCode(err, io.Discard) != 2 {
			t.Errorf("runs that could not be carried out: %v", err)
		}
		if err := judgeSwarm(io.Discard, rows[:2], h.limit, nil); err != nil {
			t.Errorf("one found, one not: %v", err)
		}
		if err := judgeSwarm(io.Discard, rows[:2], h.limit, evidence.ErrInterrupted); exitCode(err, io.Discard) != 2 {
			t.Errorf("stopped: %v", err)
		}
	})
}

func TestSwarmFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--swarm=30s":                                "--swarm=30s: 1m to 24h",
		"--swarm=0":                                  "--swarm=0s: 1m to 24h",
		"--swarm=20m --seeds=1":                      "no use for --seeds",
		"--swarm=20m --times=3":                      "no use for --times",
		"--swarm=20m --fresh":                        "no use for --fresh",
		"--swarm=20m --explain":                      "no use for --explain",
		"--swarm=20m --mutant=no-such":               `unknown variant "no-such"`,
		"--swarm=20m --mutant=lock-per-job/job-lost": "no swarm can run these variants",
	} {
		cmd := newPowerCmd()
		cmd.SetArgs(strings.Fields(args))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage = true
		if err := cmd.ExecuteContext(t.Context()); exitCode(err, io.Discard) != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
