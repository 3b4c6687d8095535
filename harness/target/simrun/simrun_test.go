package simrun

import (
	"flag"
	"slices"
	"testing"
	"time"

	"fencepost/checker"
	"fencepost/core/mistake"
	"fencepost/core/store"
	"fencepost/harness/record/verdict"
	"fencepost/harness/target/system"
)

var seeds = flag.Uint64("simrun.seeds", 6, "runs of each kind")

// TestLegal: what the production client does is legal, whatever its network does.
func TestLegal(t *testing.T) {
	t.Parallel()
	for seed := range *seeds {
		h := Locks(t, Draw(seed))
		r := checker.Check(t.Context(), h, checker.Options{})
		if r.Verdict != verdict.Pass {
			t.Errorf("seed %d: %s", seed, r.Verdict)
			for _, p := range r.Properties {
				if p.Status != checker.StatusPass {
					t.Logf("%+v", p)
				}
			}
		}
		if seed == 0 {
			t.Logf("%d events", len(h.Events))
		}
	}
}

// TestMistakes: each mistake in a lock's rows turns a property red that its variant of real
// runs must turn red too.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, m := range mistake.All {
		if m.Locks == nil {
			continue
		}
		t.Run(m.ID, func(t *testing.T) {
			t.Parallel()
			s, err := system.Find("broken/" + m.ID)
			if err != nil {
				t.Fatal(err)
			}
			var others []string
			for seed := range uint64(60) {
				c := Draw(seed)
				c.Plant = func(rows store.Locks, ttl time.Duration) store.Locks {
					return m.Locks(mistake.Process{TTL: ttl}, rows)
				}
				for _, p := range checker.Check(t.Context(), Locks(t, c), checker.Options{}).Properties {
					switch {
					case p.Status != checker.StatusFail:
					case slices.Contains(s.Red.Properties, p.ID):
						t.Logf("found with seed %d by %s", seed, p.ID)
						return
					default:
						others = append(others, p.ID)
					}
				}
			}
			t.Errorf("not found by any of %v, but by %v", s.Red.Properties, others)
		})
	}
}
