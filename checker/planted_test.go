package checker

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mutations() []mutation {
	return slices.Concat(lockMutations, sinkMutations, recordMutations)
}

// TestMutationsAreFound: every directed change of a legal history, at a drawn
// place of it, fails the property that it breaks and no unrelated one.
func TestMutationsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mutations   []mutation
		world       func(seed uint64) simConfig
		seeds       uint64
		least, most int // of histories that a mutation applies to
	}{
		{mutations(), small, 60, 3, 5},
		{mutationsOfJobs(), shortJobs, 30, 1, 2},
	} {
		for _, m := range c.mutations {
			t.Run(m.want+" "+m.name, func(t *testing.T) {
				t.Parallel()
				done := 0
				for seed := uint64(0); seed < c.seeds && done < c.most; seed++ {
					e := newEdit(simulate(c.world(seed)))
					e.draw = rand.New(rand.NewPCG(seed, 2)).IntN
					if m.do(e) {
						done++
						r := judgePlanted(t, m, e)
						if done == 1 {
							t.Logf("failing %v: %s", failing(r), firstViolation(r, m.want))
						}
					}
				}
				if done < c.least {
					t.Errorf("applied to %d histories only", done)
				}
			})
		}
	}
}

// TestDrawnMutationsAreFound is the same for histories of any shape.
func TestDrawnMutationsAreFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(mutations()).Draw(t, "mutation")
		cfg := small(rapid.Uint64Range(0, 1<<32).Draw(t, "seed"))
		cfg.workers, cfg.clients = rapid.IntRange(2, 4).Draw(t, "workers"), rapid.IntRange(2, 4).Draw(t, "clients")
		cfg.locks = rapid.IntRange(1, 3).Draw(t, "locks")
		cfg.noise = rapid.Float64Range(0, 0.4).Draw(t, "noise")
		e := newEdit(simulate(cfg))
		if Check(context.Background(), e.h, Options{}).Verdict != Pass {
			t.Skip("too short a run")
		}
		e.draw = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "place") }
		if !m.do(e) {
			t.Skip("nothing to change")
		}
		judgePlanted(t, m, e)
	})
}

// TestEveryPropertyHasAMutation: what can be violated by a history is, and so is what jobs add to
// a property. P3, P10 and P11 of jobs are those of locks, and bugCases break them.
func TestEveryPropertyHasAMutation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mutations  []mutation
		properties string
	}{
		{mutations(), "P1 P2 P3 P4 P6 P7 P8 P9 P10 P14"},
		{mutationsOfJobs(), "P1 P2 P4 P5 P6 P7 P8 P9 P12 P14"},
	} {
		for id := range strings.FieldsSeq(c.properties) {
			if !slices.ContainsFunc(c.mutations, func(m mutation) bool { return m.want == id }) {
				t.Errorf("no mutation breaks %s", id)
			}
		}
		for _, m := range c.mutations {
			for id, why := range m.also {
				if id == m.want || why == "" {
					t.Errorf("%s: companion %s without a reason", m.name, id)
				}
			}
		}
	}
}

// judgePlanted checks a history with one planted defect.
func judgePlanted(t rapid.TB, m mutation, e *edit) *Result {
	t.Helper()
	r := Check(context.Background(), e.h, Options{})
	ids := failing(r)
	if m.want == "P14" {
		// What the record lacks may be what another property asks for.
		if r.Verdict != Invalid && len(ids) == 0 || propertyOf(r, "P14").Status != StatusInvalid {
			t.Fatalf("%s: %s, failing %v: %s", m.name, r.Verdict, ids, r.Summary)
		}
	} else if r.Verdict != Fail || !slices.Contains(ids, m.want) {
		t.Fatalf("%s: %s, failing %v: %s", m.name, r.Verdict, ids, r.Summary)
	}
	for _, id := range ids {
		if _, known := m.also[id]; id != m.want && !known {
			t.Errorf("%s: %s fails too: %s", m.name, id, firstViolation(r, id))
		}
	}
	checkExplained(t, r)
	searched := strings.HasPrefix(firstViolation(r, m.want), "no order of the operations")
	if m.want != "P14" && searched != slices.Contains(porcupineOnly, m.name) {
		t.Errorf("%s: found by Porcupine alone: %v", m.name, searched)
	}
	return r
}
