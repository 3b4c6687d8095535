package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"fencepost/harness/bench"
)

func TestBenchUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"high"},
		{"--contention=extreme"},
		{"--contention=low,low"},
		{"--threads=0"},
		{"--threads=x"},
		{"--rounds=4"},
		{"--ttl=10ms"},
		{"--arm=1ms"},
		{"--cluster=moon"},
	} {
		root := &cobra.Command{SilenceUsage: true, SilenceErrors: true}
		root.SetFlagErrorFunc(newRootCmd().FlagErrorFunc())
		root.AddCommand(newBenchCmd())
		root.SetArgs(append([]string{"bench"}, args...))
		err := root.ExecuteContext(t.Context())
		var ee *exitError
		if !errors.As(err, &ee) || ee.code != exitUsage {
			t.Errorf("%v: %v, want a usage error", args, err)
		}
	}
}

func TestBenchCommandRepeats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f    benchFlags
		want string
	}{
		{benchFlags{contention: "high", seed: 7}, "bin/fencepost bench --contention=high --seed=7"},
		{
			benchFlags{contention: "low", seed: 1, threads: []int{1, 4}, ttls: []time.Duration{6 * time.Second}, rounds: 5, arm: time.Second},
			"bin/fencepost bench --contention=low --seed=1 --threads=1,4 --ttl=6s --rounds=5 --arm=1s",
		},
	} {
		plans, err := c.f.plans()
		if err != nil {
			t.Fatal(err)
		}
		got := c.f.command(plans[0])
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		// It is read back to the same plan.
		cmd := newBenchCmd()
		if err := cmd.ParseFlags(strings.Fields(got)[2:]); err != nil {
			t.Fatal(err)
		}
		threads, _ := cmd.Flags().GetIntSlice("threads")
		ttls, _ := cmd.Flags().GetDurationSlice("ttl")
		rounds, _ := cmd.Flags().GetInt("rounds")
		arm, _ := cmd.Flags().GetDuration("arm")
		seed, _ := cmd.Flags().GetUint64("seed")
		again, err := bench.NewPlan(bench.Config{Contention: plans[0].Contention, Threads: threads, TTLs: ttls, Rounds: rounds, Window: arm, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Arms) != len(plans[0].Arms) || again.Rounds != plans[0].Rounds || again.Window != plans[0].Window {
			t.Errorf("%q gives %+v, want %+v", got, again.Config, plans[0].Config)
		}
	}
}
