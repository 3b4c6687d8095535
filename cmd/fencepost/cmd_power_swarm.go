package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"fencepost/harness/scenario"
	"fencepost/harness/target/system"
	"fencepost/reports"
	"fencepost/reports/evidence"
)

// hunt runs known-broken variants under random faults, as if nobody knew their mistakes, until each
// is found or its time is over.
type hunt struct {
	variants []system.System
	swarms   map[string]string // by the variant's name: with the workload of its directed run
	sink     string
	limit    time.Duration
	results  []evidence.Result
}

// swarmLevels are the contentions of a variant's runs, in turn.
var swarmLevels = []string{"medium", "high"}

// newHunt is one of those variants that a swarm can run.
func newHunt(all []system.System, sink string, limit time.Duration) (*hunt, error) {
	h := &hunt{swarms: map[string]string{}, sink: sink, limit: limit}
	jobs := map[bool]string{} // whether a swarm has jobs
	for _, name := range reports.Swarms {
		swarm, err := scenario.Load(name)
		if err != nil {
			return nil, err
		}
		jobs[swarm.Kind().Jobs] = name
	}
	for _, s := range all {
		if s.Case != "" {
			continue // a hole of a design that has others: a red run may be of one of these
		}
		directed, err := scenario.Load(s.Red.Scenario)
		if err != nil {
			return nil, err
		}
		h.swarms[s.Name] = jobs[directed.Kind().Jobs]
		if _, _, _, err := planOf(h.job(s, 1)); err == nil {
			h.variants = append(h.variants, s)
		}
	}
	if len(h.variants) == 0 {
		return nil, errors.New("no swarm can run these variants: they need a workload or a sink that none has, or are holes of lock-per-job")
	}
	return h, nil
}

func (h *hunt) job(s system.System, seed uint64) evidence.Job {
	return evidence.Job{Scenario: h.swarms[s.Name], Contention: swarmLevels[int(seed-1)%len(swarmLevels)], Seed: seed, System: s.Name, Sink: h.sink}
}

// jobs yields runs until no variant is left: the first of each, then the second of each that is left.
func (h *hunt) jobs() iter.Seq[evidence.Job] {
	return func(yield func(evidence.Job) bool) {
		for seed := uint64(1); ; seed++ {
			left := slices.DeleteFunc(reports.Swarm(h.variants, h.sink, h.results), func(r reports.SwarmRow) bool { return r.Done(h.limit) })
			if len(left) == 0 {
				return
			}
			for _, r := range left {
				if !yield(h.job(r.System, seed)) {
					return
				}
			}
		}
	}
}

// observe keeps what runs show, so that the next are chosen by it.
func (h *hunt) observe(run func(context.Context, evidence.Job) (evidence.Result, error)) func(context.Context, evidence.Job) (evidence.Result, error) {
	return func(ctx context.Context, j evidence.Job) (evidence.Result, error) {
		began := time.Now()
		r, err := run(ctx, j)
		seen := r
		seen.Job, seen.Took = j, time.Since(began)
		if err != nil {
			seen.Check = nil
		}
		h.results = append(h.results, seen)
		return r, err
	}
}

// checkSwarm refuses flags that say otherwise.
func (f powerFlags) checkSwarm(cmd *cobra.Command) error {
	if f.swarm < time.Minute || f.swarm > 24*time.Hour {
		return fmt.Errorf("--swarm=%s: 1m to 24h, as one run takes over a minute", f.swarm)
	}
	for _, name := range []string{"times", "seeds", "fresh", "explain"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--swarm runs seeds 1, 2, … until a variant is found, and has no use for --%s", name)
		}
	}
	return nil
}

// runSwarm is fencepost power --swarm.
func (f powerFlags) runSwarm(cmd *cobra.Command, mine []system.System) error {
	ctx, out := cmd.Context(), outputOf(cmd)
	h, err := newHunt(mine, f.sink, f.swarm)
	if err != nil {
		return usageError(err)
	}
	if err := f.resolve(ctx, powerSet); err != nil {
		return err
	}
	store := evidence.NewStore(f.results)
	all, err := store.All()
	if err != nil {
		return err
	}
	h.results = ofToday(all)
	var first []evidence.Job
	for _, s := range h.variants {
		first = append(first, h.job(s, 1))
	}
	return onSite(cmd, f.cluster, nodeChoice{}, needed(first, layoutOf), nil, func(s *site) error {
		loop := f.loop(store, s, out)
		loop.Run = h.observe(loop.Run)
		fmt.Fprintf(out, "power: %d of %d variants under random faults, each until it is found or for %s; results in %s\n",
			len(h.variants), len(mine), f.swarm, store.File())
		_, loopErr := loop.Do(ctx, h.jobs(), 0)
		all, err := store.All()
		if err != nil {
			return errors.Join(loopErr, err)
		}
		return judgeSwarm(out, reports.Swarm(h.variants, f.sink, ofToday(all)), f.swarm, loopErr)
	})
}

// judgeSwarm prints the table and makes the exit code: what random faults do not find is no error.
func judgeSwarm(out io.Writer, rows []reports.SwarmRow, limit time.Duration, loopErr error) error {
	reports.PrintSwarm(out, rows, limit)
	if loopErr != nil {
		return &exitError{code: 2, err: fmt.Errorf("%w\n  finished runs are stored; the same command resumes there", loopErr)}
	}
	if slices.ContainsFunc(rows, func(r reports.SwarmRow) bool { return r.Errors > 0 }) {
		return exitWith(2)
	}
	return nil
}
