// Mutate runs the tests of a package against mutants of it; see package mutation.
//
// Exit code 1 means that the score is below the goal.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"fencepost/internal/mutation"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run() error {
	pkg := flag.String("pkg", "", "directory of the package, such as core/lock")
	sample := flag.Int("sample", 300, "mutants to judge")
	seed := flag.Uint64("seed", 1, "draws the sample")
	only := flag.String("mutant", "", "judge this one alone")
	goal := flag.Float64("goal", 95, "score in percent below which the run fails")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	mutants, err := mutation.Mutants(".", *pkg)
	if err != nil {
		return err
	}
	known, err := mutation.Listed()
	if err != nil {
		return err
	}
	if err := known.Check(*pkg, mutants); err != nil {
		return err
	}
	fmt.Printf("%s: %d mutants, %d drawn by seed %d\n", *pkg, len(mutants), min(*sample, len(mutants)), *seed)
	if *only != "" {
		mutants = slices.DeleteFunc(mutants, func(m mutation.Mutant) bool { return m.ID != *only })
		if len(mutants) == 0 {
			return fmt.Errorf("%s has no mutant %s", *pkg, *only)
		}
	}
	j, err := mutation.NewJudge(ctx, ".", *pkg, mutation.SubsetOf(*pkg), mutation.Limit)
	if err != nil {
		return err
	}
	defer j.Close()
	score, err := mutation.Sample(ctx, os.Stdout, j, mutants, known, *sample, *seed)
	fmt.Printf("%s: %s\n", *pkg, score)
	if err != nil {
		return err
	}
	if p, _, _ := score.Percent(); score.Survived > 0 && p < *goal {
		return fmt.Errorf("the goal is %.0f %%", *goal)
	}
	return nil
}
