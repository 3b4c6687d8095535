package checker

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"fencepost/checker/property"
	"fencepost/harness/record/history"
	"fencepost/internal/race"
)

// score sums up how well the mistakes of a test are named, each counting the same.
type score struct {
	mu           sync.Mutex
	n            int
	named, alone float64
}

// add counts one mistake.
func (s *score) add(t *testing.T, n tally) {
	t.Helper()
	t.Logf("named in %d of %d, with nothing beside it but what the history cannot rule out in %d", n.named, n.red, n.alone)
	if n.red == 0 {
		t.Error("no history is red")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.named += float64(n.named) / float64(n.red)
	s.alone += float64(n.alone) / float64(n.red)
}

// check: nine of ten must be named, and three of four precisely.
func (s *score) check(t *testing.T) {
	t.Helper()
	if s.n == 0 {
		return // -run chose none
	}
	named, alone := s.named/float64(s.n), s.alone/float64(s.n)
	t.Logf("of %d mistakes %.0f %% are named, %.0f %% precisely", s.n, 100*named, 100*alone)
	if named < 0.9 || alone < 0.75 {
		t.Errorf("of %d mistakes %.0f %% are named, want 90; %.0f %% precisely, want 75", s.n, 100*named, 100*alone)
	}
}

// tally is how well one mistake is explained, over several histories.
type tally struct{ red, named, alone int }

// explain explains one history, and counts whether the mistake is named, and precisely.
func (n *tally) explain(t *testing.T, seed uint64, h *history.History, r *Result, want string, also []string) {
	t.Helper()
	e := Explain(h, r, Options{})
	got := e.Best()
	n.red++
	if slices.Contains(got, want) {
		n.named++
	}
	if precise(got, want, also) {
		n.alone++
	} else {
		t.Logf("seed %d: %s by %v: %v", seed, r.Verdict, failing(r), got)
	}
	checkChains(t, h, e)
	bare := *r
	bare.Answer = nil
	if a := AnswerOf(&bare, e); !reflect.DeepEqual(a, *r.Answer) || a.What == "" || len(e.Causes) > 0 && len(a.Properties) == 0 {
		t.Errorf("seed %d: the result is told as %+v, the explanation as %+v", seed, r.Answer, a)
	}
}

// precise says whether nothing is named but the mistake and what may stand beside it.
func precise(got []string, want string, also []string) bool {
	return slices.Contains(got, want) && !slices.ContainsFunc(got, func(id string) bool { return id != want && !slices.Contains(also, id) })
}

// TestPlantedMistakesAreNamed: for histories of systems with one known mistake the
// explanation names it first.
func TestPlantedMistakesAreNamed(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	var sum score
	t.Run("mistake", func(t *testing.T) {
		for _, c := range bugCases {
			if c.named == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s %s", c.named, c.bug), func(t *testing.T) {
				t.Parallel()
				var n tally
				for seed := uint64(0); seed < 40 && n.red < 4; seed++ {
					h := simulate(c.config(seed, 2))
					r := Check(context.Background(), h, Options{})
					if r.Verdict != Fail {
						continue
					}
					n.explain(t, seed, h, r, c.named, c.beside)
				}
				sum.add(t, n)
			})
		}
	})
	sum.check(t)
}

// checkChains: every cause has evidence and a chain in order, with a mistake unless it is
// about what the record lacks, and what it points at is there.
func checkChains(t *testing.T, h *history.History, e *Explanation) {
	t.Helper()
	lines := map[string]bool{}
	for _, ev := range h.Events {
		lines[fmt.Sprintf("%s:%d", ev.File, ev.Line)] = true
	}
	for _, c := range e.Causes {
		mistakes := 0
		for i, s := range c.Chain {
			if s.Text == "" || s.File != "" && !lines[fmt.Sprintf("%s:%d", s.File, s.Line)] || i > 0 && s.TS < c.Chain[i-1].TS {
				t.Errorf("%s: step %d: %+v", c.Mechanism, i, s)
			}
			if s.Role == RoleMistake {
				mistakes++
			}
		}
		lacks := property.MechanismByID[c.Mechanism].OfRecord
		if len(c.Evidence) == 0 || mistakes == 0 && !lacks || len(c.Properties) == 0 || c.Statement == "" || c.Apart != "" && len(c.Alternatives) == 0 {
			t.Errorf("%s: %+v", c.Mechanism, c)
		}
	}
}
