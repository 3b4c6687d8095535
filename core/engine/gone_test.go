package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// TestNobodyWaits: what nobody waits for any more is refused, not begun. Begun and
// given up at once, it was chance whether a tick still took it, and with a seed's
// requests numbered the simulation did not replay (seed 4).
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New()
		r := run(t, s, "w", nil)
		gone, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the caller hung up")
		cancel(why)
		j := aJob("a")
		j.Due = time.Now().Add(time.Hour)
		if _, err := r.eng.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		before := len(s.ShardChanges())
		_, err := r.eng.Enqueue(gone, aJob("b"))
		for what, err := range map[string]error{"enqueue": err, "cancel": r.eng.Cancel(gone, "q", j.ID), "redrive": r.eng.Redrive(gone, "q", j.ID)} {
			if !errors.Is(err, why) || store.OutcomeOf(err) != store.Fail {
				t.Errorf("%s: %v, outcome %s", what, err, store.OutcomeOf(err))
			}
		}
		synctest.Wait()
		if n := len(s.ShardChanges()) - before; n > 0 {
			t.Errorf("%d batches of calls that nobody waits for", n)
		}
		r.end(t)
	})
}
