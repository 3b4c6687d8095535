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

// forbidden refuses for good to write, or to read as well. It counts.
type forbidden struct {
	database
	reads bool
	n     int
}

var errForbidden = &store.Error{Outcome: store.Fail, Permanent: true, Cause: errors.New("no MODIFY permission: grant it")}

func (f *forbidden) CAS(context.Context, int, ...store.Statement) (bool, []map[string]any, error) {
	f.n++
	return false, nil, errForbidden
}

func (f *forbidden) QueryBy(ctx context.Context, n int, serial bool, s store.Statement) ([]map[string]any, error) {
	if !f.reads {
		return f.database.QueryBy(ctx, n, serial, s)
	}
	f.n++
	return nil, errForbidden
}

// TestRefusedForGood: what no node will ever take is not sent again and again.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	for name, reads := range map[string]bool{"writes": false, "reads": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &forbidden{database: newFake(1), reads: reads}
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				answer, err := newSink(f, time.Second).Raise(ctx, "r", "i", 3)
				if !store.IsPermanent(err) || !errors.Is(err, errForbidden) || sink.OutcomeOf(answer, err) != store.Fail || f.n != 3 {
					t.Errorf("%d requests were refused, %v", f.n, err)
				}
			})
		})
	}
}
