package lock_test

import (
	"math"
	"testing"
	"testing/synctest"

	"fencepost/core/lock"
	"fencepost/core/sink"
	"fencepost/core/sink/sinktest"
	"fencepost/core/store"
	"fencepost/core/store/sim"
)

// TestRestoredLocks: an old copy of the rows gives tokens out again, which a sink that was
// not restored refuses as stale. With fences raised it takes them, and those of holders
// from before stay refused.
func TestRestoredLocks(t *testing.T) {
	t.Parallel()
	for _, raised := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			effects := sinktest.NewMemory()
			token := func(s *sim.Store, name string) int64 {
				c, err := lock.New(s.Connect("w", 1), lock.Options{Logger: quiet})
				if err != nil {
					t.Fatal(err)
				}
				l, err := c.Acquire(t.Context(), lock.Request{Resource: name, Holder: "h"})
				if err != nil {
					t.Fatal(err)
				}
				token := l.Token()
				if err := l.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := c.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				return token
			}
			// The copy has the row of one lock as of its third grant, and not that of the other.
			live, copied := sim.New(), sim.New()
			for n := range 10 {
				if n < 3 {
					token(copied, "old")
				}
				for _, name := range []string{"old", "young"} {
					if _, err := effects.Raise(t.Context(), name, name, token(live, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			for name, want := range map[string]int64{"old": 1003, "young": 1000} {
				if raised {
					if got, err := lock.RaiseFence(t.Context(), copied.Connect("operator", 1), name, 1000); err != nil || got != want {
						t.Fatalf("%s: %d, %v", name, got, err)
					}
				}
				a, err := effects.Raise(t.Context(), name, name, token(copied, name))
				if err != nil || (a.Result == sink.Stale) == raised {
					t.Errorf("raised %v, %s: %+v, %v", raised, name, a, err)
				}
				if a, err := effects.Raise(t.Context(), name, name, 9); err != nil || a.Result != sink.Stale {
					t.Errorf("a holder from before: %+v, %v", a, err)
				}
			}
		})
	}
}

// TestRaiseFence: what cannot be raised is left as it is.
func TestRaiseFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sim.New().Connect("operator", 1)
		full := store.Version{Fence: math.MaxInt64 - 10, Attempt: "3b241101-e2bb-4255-8caf-4136c566a962", TTL: lock.DefaultTTL}
		if res, err := s.CAS(t.Context(), "full", nil, full, 0); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		for name, by := range map[string]int64{"full": 9, "none": 0, "less": -1} {
			if got, err := lock.RaiseFence(t.Context(), s, name, by); err == nil {
				t.Errorf("%s by %d: raised to %d", name, by, got)
			}
		}
		if row, err := s.Read(t.Context(), "full", true); err != nil || *row != full {
			t.Errorf("%v, %v", row, err)
		}
		if got, err := lock.RaiseFence(t.Context(), s, "full", 8); err != nil || got != math.MaxInt64-2 {
			t.Errorf("%d, %v", got, err)
		}
	})
}
