package checker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"fencepost/checker/linear"
	"fencepost/checker/past"
	"fencepost/checker/property"
	"fencepost/harness/record/history"
)

// uncut is a size of segments that cuts nothing.
const uncut = 1 << 30

// alone judges a row by Porcupine alone, cut into segments of so many operations.
func alone(l *past.Row, bounded bool, size int) porcupine.CheckResult {
	pt := linear.OfRow(l, bounded, true)
	pt.Segments = linear.RowEncoder{Row: l, Bounded: bounded, Size: size}.Segments
	b := linear.Budget{Ctx: context.Background(), End: linear.CPUTime() + 10*time.Second, Memory: linear.MaxSearchBytes}
	return linear.SearchPart(b, pt).Result
}

// aloneAll is the worst result of all rows, in both encodings.
func aloneAll(h *history.History, size int) porcupine.CheckResult {
	var fs []linear.Found
	for _, l := range past.New(h, false).Rows {
		fs = append(fs, linear.Found{Result: alone(l, false, size)}, linear.Found{Result: alone(l, true, size)})
	}
	return linear.Worst(fs)
}

// TestPorcupineAloneFindsRowBugs: with the linear-time checks switched off, Porcupine
// finds every defect of a row in segments of whatever size, and nothing in legal rows.
func TestPorcupineAloneFindsRowBugs(t *testing.T) {
	t.Parallel()
	sizes := []int{1, 7, 64, uncut}
	for _, m := range lockMutations {
		if m.want != "P2" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			done := 0
			for seed := uint64(0); seed < 60 && done < 3; seed++ {
				e := newEdit(simulate(small(seed)))
				e.draw = rand.New(rand.NewPCG(seed, 3)).IntN
				if !m.do(e) {
					continue
				}
				done++
				for _, size := range sizes {
					if got := aloneAll(e.h, size); got != porcupine.Illegal {
						t.Errorf("seed %d, segments of %d: %s", seed, size, got)
					}
				}
			}
			if done < 3 {
				t.Errorf("applied to %d histories only", done)
			}
		})
	}
	for _, b := range []bug{bugUnknownFail, bugBlindRelease} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(40) {
				cfg := small(seed)
				cfg.bug = b
				h := simulate(cfg)
				if propertyOf(Check(context.Background(), h, Options{}), "P2").Status != StatusFail {
					continue
				}
				for _, size := range sizes {
					if got := aloneAll(h, size); got != porcupine.Illegal {
						t.Errorf("seed %d, segments of %d: %s", seed, size, got)
					}
				}
				return
			}
			t.Error("the bug does not show")
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		for seed := range uint64(10) {
			h := simulate(small(seed))
			for _, size := range sizes {
				if got := aloneAll(h, size); got != porcupine.Ok {
					t.Errorf("seed %d, segments of %d: %s", seed, size, got)
				}
			}
		}
	})
}

// cutCase is a run whose row was damaged at drawn places, and the length of the segments
// that it is cut into.
type cutCase struct {
	past *past.Past
	size int
}

var cutCases = rapid.Custom(func(t *rapid.T) cutCase {
	h := simulate(simConfig{
		seed: rapid.Uint64Range(0, 1000).Draw(t, "seed"), workers: 2, clients: 3, locks: 1,
		ttl: 300 * time.Millisecond, length: 2 * time.Second, noise: 0.3, pause: 0.2, crash: 0.5,
	})
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		damageRow(t, newEdit(h))
	}
	return cutCase{size: rapid.IntRange(1, 40).Draw(t, "size"), past: past.New(newEdit(h).h, false)}
})

// TestCutsChangeNothing is the argument of decision 0012 by example, on rows that were
// damaged at drawn places. A row that Porcupine refutes as a whole is refuted in segments
// too. Where the linear-time checks find nothing, a row whose chain is whole has an order:
// both ways in the open encoding, and both ways the same in the bounded one. The first cases
// are the same ones in each run of the test, so that it sees rows of both kinds for certain.
func TestCutsChangeNothing(t *testing.T) {
	t.Parallel()
	var illegal, legal, bounded int
	judge := func(t rapid.TB, c cutCase) {
		for _, l := range c.past.Rows {
			var p Property
			property.CheckChain(c.past, l, &p)
			for _, enc := range []bool{false, true} {
				whole, cut := alone(l, enc, uncut), alone(l, enc, c.size)
				switch {
				case whole == porcupine.Illegal && cut != porcupine.Illegal:
					t.Fatalf("bounded %v: illegal as a whole, in segments of %d %s", enc, c.size, cut)
				case !l.Complete || p.Count > 0:
				case whole != cut:
					t.Fatalf("bounded %v: %s as a whole, in segments of %d %s", enc, whole, c.size, cut)
				case !enc && whole != porcupine.Ok:
					t.Fatalf("%s, and the linear-time checks found nothing", whole)
				case whole == porcupine.Ok:
					legal++
				default:
					bounded++
				}
				if whole == porcupine.Illegal {
					illegal++
				}
			}
		}
	}
	for seed := range 20 {
		judge(t, cutCases.Example(seed))
	}
	t.Logf("%d illegal, %d legal, %d illegal in the bounded encoding only", illegal, legal, bounded)
	if illegal*legal == 0 {
		t.Error("the fixed cases are not of both kinds")
	}
	rapid.Check(t, func(t *rapid.T) { judge(t, cutCases.Draw(t, "case")) })
}

// damageRow changes an answer about a row, or when it was asked for or given.
func damageRow(t *rapid.T, e *edit) {
	var of []pair
	for _, p := range e.ops {
		if p.end != nil && (p.inv.From != nil || p.inv.Op == history.OpRead) {
			of = append(of, p)
		}
	}
	if len(of) < 2 {
		return
	}
	p := rapid.SampledFrom(of).Draw(t, "operation")
	other := rapid.SampledFrom(of).Draw(t, "other")
	switch rapid.IntRange(0, 5).Draw(t, "damage") {
	case 0:
		if p.end.Row != nil && other.inv.To != nil {
			p.end.Row = other.inv.To
		}
	case 1:
		if p.end.Row != nil && other.inv.From != nil {
			p.end.Row = other.inv.From
		}
	case 2: // it had been asked for, and was answered, at another time
		shift(p, other.inv.TS-p.inv.TS)
	case 3: // it was answered at once
		p.end.TS = p.inv.TS + 1
	default: // its coordinator gave up early, somebody saw the old row, and it surfaced later
		if p.inv.From != nil && other.end.Row != nil {
			p.end.Type, p.end.Row, p.end.TS, p.end.ServerTimeout = history.Unknown, nil, p.inv.TS+1, true
			other.inv.TS, other.end.TS, other.end.Row = p.inv.TS+2, p.inv.TS+3, p.inv.From
		}
	}
}

// hard is a row that takes Porcupine for ever: each of its writes may have taken effect
// or not, none can have, and a read shows what nobody wrote.
func hard(n int) *past.Row {
	s := newScript()
	for i := range n {
		lost := history.Version{Fence: 100, Attempt: fmt.Sprint("lost", i), Holder: "w1.1/c1"}
		next := history.Version{Fence: 101, Attempt: fmt.Sprint("next", i), Holder: "w1.1/c1"}
		s.cas("w1.1/c1", history.OpAcquire, lost, next, 10+int64(i), 500, history.Unknown, false)
	}
	s.cas("w1.1/c1", history.OpAcquire, past.NoRow, heldA, 5, 6, history.OK, false)
	s.read("w1.1/c2", freeA, 600, 700)
	return past.New(newEdit(&s.h).h, false).Rows[0]
}

// TestUnfinishedSearches: a search that ends before it has an answer has none, whatever
// ended it. The same row with fewer writes is refuted.
func TestUnfinishedSearches(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	late, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	for _, tc := range []struct {
		name   string
		writes int
		b      linear.Budget
		want   porcupine.CheckResult
		reason string
	}{
		{"finished", 6, linear.Budget{Ctx: context.Background(), End: linear.CPUTime() + time.Minute, Memory: linear.MaxSearchBytes}, porcupine.Illegal, ""},
		{"Porcupine's own timeout", 60, linear.Budget{Ctx: late, End: linear.CPUTime() + time.Hour, Memory: uncut << 10}, porcupine.Unknown, "Porcupine was out of time"},
		{"CPU time", 60, linear.Budget{Ctx: context.Background(), End: linear.CPUTime() + 100*time.Millisecond, Memory: uncut << 10}, porcupine.Unknown, "the CPU time for searching was used up"},
		{"memory", 60, linear.Budget{Ctx: context.Background(), End: linear.CPUTime() + time.Hour, Memory: 1 << 20}, porcupine.Unknown, "62 operations need more memory than allowed"},
		{"cancelled", 6, linear.Budget{Ctx: cancelled, End: linear.CPUTime() + time.Hour, Memory: linear.MaxSearchBytes}, porcupine.Unknown, "the check was stopped"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := linear.SearchPart(tc.b, linear.OfRow(hard(tc.writes), false, false))
			if f.Result != tc.want || f.Reason != tc.reason {
				t.Errorf("%s (%s), want %s (%s)", f.Result, f.Reason, tc.want, tc.reason)
			}
		})
	}
}
