package mutation

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"fencepost/internal/score"
)

// Score counts what became of a sample.
type Score struct {
	Killed, Survived int
	// Equivalent survived too, and are listed; NotCompiled were drawn and do not count.
	Equivalent, NotCompiled int
}

// Percent is how many of the mutants that could be killed were, with the 95 % Wilson interval of
// the package.
func (s Score) Percent() (killed, low, high float64) {
	share := s.Share()
	if share.Of == 0 {
		return 0, 0, 100
	}
	low, high = share.Interval()
	return 100 * float64(share.Good) / float64(share.Of), 100 * low, 100 * high
}

// Share is of the mutants that could be killed.
func (s Score) Share() score.Share { return score.Share{Good: s.Killed, Of: s.Killed + s.Survived} }

func (s Score) String() string {
	p, low, high := s.Percent()
	return fmt.Sprintf("%d killed, %d survived: %.1f %% (95 %% interval %.1f to %.1f); %d equivalent, %d did not compile",
		s.Killed, s.Survived, p, low, high, s.Equivalent, s.NotCompiled)
}

// Lanes is how many mutants are judged at a time.
const Lanes = 2

// Sample draws n mutants that compile, in the order in which the seed shuffles all, and
// judges them. It prints each one as it is judged, in that order.
func Sample(ctx context.Context, out io.Writer, j *Judge, mutants []Mutant, known Equivalents, n int, seed uint64) (s Score, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		fate Fate
		err  error
	}
	var under []chan result // of the first mutants of the rest
	rest := shuffled(mutants, seed)
	begun := 0
	for _, m := range rest {
		if s.Killed+s.Survived+s.Equivalent >= n {
			break
		}
		for ; begun < len(rest) && len(under) < Lanes; begun++ {
			c, next := make(chan result, 1), rest[begun]
			under = append(under, c)
			go func() {
				fate, err := j.Test(ctx, next)
				c <- result{fate, err}
			}()
		}
		r := <-under[0]
		under = under[1:]
		if r.err != nil {
			err = fmt.Errorf("%s: %w", m.ID, r.err)
			break
		}
		if err = s.count(out, m, r.fate, known); err != nil {
			break
		}
	}
	cancel()
	for _, c := range under {
		<-c
	}
	return s, err
}

func (s *Score) count(out io.Writer, m Mutant, fate Fate, known Equivalents) error {
	_, listed := known[m.ID]
	switch {
	case !fate.Compiled:
		s.NotCompiled++
	case fate.Killed && listed:
		return fmt.Errorf("%s is listed in equivalent.txt, and %s kills it", m.ID, fate.By)
	case fate.Killed:
		s.Killed++
		fmt.Fprintf(out, "killed      %s  line %d, by %s\n", m.ID, m.Line, fate.By)
	case listed:
		s.Equivalent++
		fmt.Fprintf(out, "equivalent  %s  line %d\n", m.ID, m.Line)
	default:
		s.Survived++
		unreached := ""
		if !fate.Reached {
			unreached = ", reached by no test"
		}
		fmt.Fprintf(out, "SURVIVED    %s  line %d%s\n- %s\n+ %s\n", m.ID, m.Line, unreached, m.Was, m.Is)
	}
	return nil
}

func shuffled(mutants []Mutant, seed uint64) []Mutant {
	all := slices.Clone(mutants)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	return all
}
