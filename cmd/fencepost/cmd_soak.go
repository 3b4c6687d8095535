package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fencepost/harness/env/cluster"
	"fencepost/harness/target/workload"
	"fencepost/reports/evidence"
)

// soakFlags are the flags of `fencepost soak`.
type soakFlags struct {
	runner
	set, scenarios, contention string
	hours                      float64
	seed                       uint64
}

func newSoakCmd() *cobra.Command {
	var f soakFlags
	cmd := &cobra.Command{
		Use:   "soak --hours=N",
		Short: "Run random scenarios with new seeds until the time is up or one is not PASS",
		Long: `Runs one random scenario of a set after the other, at random contentions and with new
seeds, on one cluster, until the time is up. The first run that is not PASS ends it; its
directory stays. Results go to runs/soak/TIME.jsonl. Each run can be repeated alone.
Exit code: as for evidence.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				f.seed = rand.Uint64N(1_000_000)
			}
			return f.run(cmd)
		},
	}
	fl := cmd.Flags()
	f.flags(fl, filepath.Join("runs", "soak"))
	fl.StringVar(&f.set, "set", "locks", "the set to draw from: "+strings.Join(setNames(), ", "))
	fl.StringVar(&f.scenarios, "scenarios", "", "of the set only these, with commas between")
	fl.StringVar(&f.contention, "contention", "medium,high", "contentions to draw from, with commas between")
	fl.Float64Var(&f.hours, "hours", 0, "how long; the last run may end later")
	fl.Uint64Var(&f.seed, "seed", 0, "draw the same runs again (default: a new seed, printed)")
	return cmd
}

func (f soakFlags) run(cmd *cobra.Command) error {
	ctx, out := cmd.Context(), outputOf(cmd)
	scenarios, contentions, err := chosen(f.set, f.scenarios, f.contention)
	if err != nil {
		return usageError(err)
	}
	for _, s := range scenarios { // what is drawn is run by the core
		if _, _, _, err := planOf(evidence.Job{Scenario: s.Name, Contention: s.Default}); err != nil {
			return usageError(err)
		}
	}
	if !(f.hours > 0 && f.hours <= 24*365) || math.IsNaN(f.hours) {
		return usageError(fmt.Errorf("--hours=%g: say how long, more than 0", f.hours))
	}
	if err := f.resolve(ctx, time.Now().UTC().Format("20060102-150405")); err != nil {
		return err
	}
	store := evidence.NewStore(f.results)
	layout, scenarios := onOneLayout(scenarios)
	return onSite(cmd, f.cluster, nodeChoice{}, []cluster.Layout{layout}, []string{fmt.Sprintf("--seed=%d", f.seed)}, func(s *site) error {
		if _, err := s.on(layout); err != nil {
			return err
		}
		loop := f.loop(store, s, out)
		loop.StopAtRed = true
		until := time.Now().Add(time.Duration(f.hours * float64(time.Hour)))
		fmt.Fprintf(out, "soak: random runs of %d scenarios at %s until %s, seed %d; results in %s\n",
			len(scenarios), strings.Join(contentions, ", "), until.Format("2006-01-02 15:04"), f.seed, store.File())
		tally, err := loop.Do(ctx, evidence.Random(scenarios, contentions, workload.Rand(f.seed, "soak"), until, time.Now), 0)
		return finish(out, tally, 0, store, err)
	})
}

// onOneLayout leaves out the scenarios that need another cluster than the rest, so that a
// soak does not spend its time with starting clusters.
func onOneLayout(all []evidence.Scenario) (cluster.Layout, []evidence.Scenario) {
	layout := func(s evidence.Scenario) cluster.Layout { return layoutOf(evidence.Job{Scenario: s.Name}) }
	most := needed(all, layout)[0]
	if slices.ContainsFunc(all, func(s evidence.Scenario) bool { return layout(s).Equal(cluster.Plain()) }) {
		most = cluster.Plain()
	}
	return most, slices.DeleteFunc(slices.Clone(all), func(s evidence.Scenario) bool { return !layout(s).Equal(most) })
}
