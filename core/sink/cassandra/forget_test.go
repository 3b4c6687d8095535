package cassandrasink

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/sink"
	"fencepost/core/store"
)

// lateTrim holds the first batch of a trim back until after, and its answer is lost.
type lateTrim struct {
	database
	held []store.Statement
}

func (l *lateTrim) CAS(ctx context.Context, n int, stmts ...store.Statement) (bool, []map[string]any, error) {
	if stmts[0].CQL == dropUpTo && l.held == nil {
		l.held = stmts
		return false, nil, &store.Error{Outcome: store.Unknown, Cause: errors.New("held back")}
	}
	return l.database.CAS(ctx, n, stmts...)
}

// TestLateTrim: a copy of a trim that arrives after a trim that went further changes nothing.
func TestLateTrim(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ planted, whole bool }{"late": {false, true}, "planted": {true, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake(1)
				f.forgetsDrops = tc.planted
				late := &lateTrim{database: f}
				s := newSink(late, time.Second)
				var made []time.Time
				for n := range int64(5) {
					made = append(made, time.Now())
					if a, err := s.Raise(t.Context(), simResource, simIssuer, n+1); err != nil || a.Result != sink.Applied {
						t.Fatal(a, err)
					}
					time.Sleep(time.Second)
				}
				// The first copy of the first trim stays on its way; the second trim goes further.
				for _, before := range []time.Time{made[2], made[4]} {
					if _, err := s.Forget(t.Context(), simResource, before); err != nil {
						t.Fatal(err)
					}
				}
				if _, _, err := f.CAS(t.Context(), 0, late.held...); err != nil {
					t.Fatal(err)
				}
				l, err := s.Ledger(t.Context(), simResource)
				if whole := err == nil && len(l) == 1 && l[0].Seq == 5; whole != tc.whole {
					t.Errorf("%+v, %v", l, err)
				}
			})
		})
	}
}
