package bench

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fencepost/core/store"
	"fencepost/reports/measure"
)

// stalls is an operator that takes 10 ms and stands still once.
type stalls struct {
	from, until time.Time
	never       bool // it stands still for good
}

func (o *stalls) Operate(ctx context.Context, _ *Thread, over func() bool) End {
	if now := time.Now(); !now.Before(o.from) && now.Before(o.until) {
		if o.never {
			<-ctx.Done()
			return End{Outcome: store.Unknown, Err: ctx.Err()}
		}
		time.Sleep(o.until.Sub(now))
	}
	time.Sleep(10 * time.Millisecond)
	return End{Outcome: store.OK}
}

func (o *stalls) Traffic() Traffic { return Traffic{} }

func openWindow(rate float64) Window {
	return Window{Arm: Arm{ID: "O", Threads: 4, Parts: OpenParts, Open: Open{Of: "C", Part: 0.5}}, Round: 1, Length: 2 * time.Second, Rate: rate, Seed: 3}
}

// TestOpen: what came while nothing went on waited from then, and a load that is carried
// ends as often as it came.
func TestOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quiet, err := openWindow(100).Open(t.Context(), &stalls{})
		if err != nil {
			t.Fatal(err)
		}
		if quiet.OK < 150 || quiet.OK > 260 || quiet.Waiting != 0 || quiet.Offered != 100 || quiet.Done != quiet.OK {
			t.Errorf("%d of about 200 operations, %d waiting", quiet.OK, quiet.Waiting)
		}
		if p := measure.Quantile(quiet.Latency, 50); p < 10*time.Millisecond || p > 12*time.Millisecond {
			t.Errorf("p50 %s of an operation of 10 ms", p)
		}
		now := time.Now()
		stalled, err := openWindow(100).Open(t.Context(), &stalls{from: now.Add(time.Second), until: now.Add(1500 * time.Millisecond)})
		if err != nil {
			t.Fatal(err)
		}
		// About 50 of 200 came in the half second of the stall.
		if p := measure.Quantile(stalled.Latency, 85); p < 100*time.Millisecond {
			t.Errorf("p85 %s: the waits of a stall of 500 ms are missing", p)
		}
		if p := measure.Quantile(stalled.Parts[1], 85); p > 20*time.Millisecond {
			t.Errorf("p85 %s from when they were begun: only those under way stood still", p)
		}
		if stalled.OK != quiet.OK {
			t.Errorf("%d operations, %d without a stall: the same seed asks for as many", stalled.OK, quiet.OK)
		}
	})
}

// TestOpenLeft: operations that could not be begun are counted, with how long they waited.
func TestOpenLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		s, err := openWindow(100).Open(t.Context(), &stalls{from: now.Add(time.Second), until: now.Add(time.Hour), never: true})
		if err != nil {
			t.Fatal(err)
		}
		if s.OK < 70 || s.Unknown != 4 || s.Waiting < 50 || s.Oldest < DrainTimeout {
			t.Errorf("%d ok, %d unknown, %d waiting, the oldest for %s", s.OK, s.Unknown, s.Waiting, s.Oldest)
		}
		if _, err := openWindow(0).Open(t.Context(), &stalls{}); err == nil || !strings.Contains(err.Error(), "no rate to offer") {
			t.Errorf("%v without a rate", err)
		}
	})
}

// TestOpenIsRunAfterItsRate: in the rehearsal the arm that has the rate comes first.
func TestOpenIsRunAfterItsRate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		p, err := NewPlan(Config{Seed: seed}, [][]Arm{{{ID: "O", Open: Open{"C", 0.5}}, {ID: "C"}, {ID: "D"}}, {{ID: "E"}}})
		if err != nil {
			t.Fatal(err)
		}
		if first := p.Order[0]; slices.Index(first, 0) < slices.Index(first, 1) || slices.Index(first, 0) < slices.Index(first, 2) {
			t.Errorf("seed %d: the rehearsal is %v", seed, first)
		}
	}
}
