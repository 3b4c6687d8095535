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
	"time"

	"fencepost/internal/mutation"
	"fencepost/internal/score"
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
	scores := flag.String("scores", "", "add the score to this file; -made says of which code it is")
	made := flag.String("made", "", "COMMIT DIGEST of the code")
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
	begun := time.Now()
	found, err := mutation.Sample(ctx, os.Stdout, j, mutants, known, *sample, *seed)
	fmt.Printf("%s: %s\n", *pkg, found)
	if err != nil {
		return err
	}
	if *scores != "" {
		versions, err := score.Made(*made)
		if err != nil {
			return err
		}
		if err := (score.Score{
			Kind: score.Mutation, Name: *pkg, Share: found.Share(), Took: time.Since(begun), Ended: time.Now().UTC(), Versions: versions,
			About: fmt.Sprintf("drawn by seed %d from %d; %d equivalent, %d did not compile", *seed, len(mutants), found.Equivalent, found.NotCompiled),
		}).Append(*scores); err != nil {
			return err
		}
	}
	if p, _, _ := found.Percent(); found.Survived > 0 && p < *goal {
		return fmt.Errorf("the goal is %.0f %%", *goal)
	}
	return nil
}
