package checker

import (
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"fencepost/checker/past"
	"fencepost/harness/record/history"
	"fencepost/harness/record/verdict"
)

// TestLinearChecks: small histories by hand, each wrong in one way that the
// chain shows, with the message and the number of findings.
func TestLinearChecks(t *testing.T) {
	t.Parallel()
	const afterSeal = "write after the seal"
	renewed := heldA
	renewed.Beat = 1
	again := history.Version{Fence: 2, Attempt: "a2", Holder: "w1.1/c3", TTLMS: 1000}
	legal := func(s *script) {
		s.cas("w1.1/c1", history.OpAcquire, past.NoRow, heldA, 10, 20, history.OK, false)
		s.cas("w1.1/c1", history.OpRelease, heldA, freeA, 30, 40, history.OK, false)
		s.cas("w1.1/c2", history.OpAcquire, freeA, heldB, 50, 60, history.OK, false)
		s.cas("harness", history.OpSeal, heldB, seal, 90, 95, history.OK, false)
		s.read("harness", seal, 96, 97)
	}
	for _, tc := range []struct {
		name, says string // "" passes
		do         func(*script)
	}{
		{"legal", "", legal},
		{"reads beside writes", "", func(s *script) {
			legal(s)
			s.read("w1.1/c4", past.NoRow, 5, 15)
			s.read("w1.1/c4", heldA, 16, 35)
			s.read("w1.1/c5", freeA, 35, 55)
			s.read("w1.1/c6", heldA, 35, 36)
		}},
		{"read of a version before its write was invoked", "before acquire by w1.1/c2", func(s *script) {
			legal(s)
			s.read("w1.1/c4", heldB, 42, 45)
		}},
		{"read of a version that had been left", "stale SERIAL read", func(s *script) {
			legal(s)
			s.read("w1.1/c4", heldA, 65, 70)
		}},
		{"read of no row when there was one", "stale SERIAL read", func(s *script) {
			legal(s)
			s.read("w1.1/c4", past.NoRow, 25, 28)
		}},
		{"reads that go back beside a write", "SERIAL reads went back", func(s *script) {
			legal(s)
			s.read("w1.1/c4", freeA, 31, 32)
			s.read("w1.1/c5", heldA, 33, 34)
		}},
		{"rejections beside writes", "", func(s *script) {
			legal(s)
			s.reject("w1.1/c4", freeA, past.NoRow, 5, 15) // no row yet, or no longer for what it knows
			s.reject("w1.1/c4", past.NoRow, heldA, 16, 35)
			s.reject("w1.1/c5", past.NoRow, freeA, 35, 55)
			s.reject("w1.1/c6", past.NoRow, heldA, 40, 41) // as its release ends
			s.reject("w1.1/c7", heldA, seal, 92, 99)
		}},
		{"rejection that shows what its write had not been invoked for", "before acquire by w1.1/c2", func(s *script) {
			legal(s)
			s.reject("w1.1/c4", heldA, heldB, 42, 45)
		}},
		{"rejection that shows what had been left", "stale rejection", func(s *script) {
			legal(s)
			s.reject("w1.1/c4", past.NoRow, heldA, 41, 45)
		}},
		{"rejection that shows no row when there was one", "stale rejection", func(s *script) {
			legal(s)
			s.reject("w1.1/c4", heldA, past.NoRow, 25, 28)
		}},
		{"rejection that shows what never was", "which the row never held", func(s *script) {
			legal(s)
			s.reject("w1.1/c4", heldA, renewed, 25, 28)
		}},
		{"rejections that go back beside a write", "answers went back", func(s *script) {
			legal(s)
			s.reject("w1.1/c4", past.NoRow, freeA, 31, 32)
			s.reject("w1.1/c5", past.NoRow, heldA, 33, 34)
		}},
		{"rejections that overlap beside a write", "", func(s *script) {
			legal(s)
			s.reject("w1.1/c4", past.NoRow, freeA, 31, 33)
			s.reject("w1.1/c5", past.NoRow, heldA, 33, 34)
		}},
		{"a read and a rejection that go back", "answers went back", func(s *script) {
			legal(s)
			s.read("w1.1/c4", freeA, 31, 32)
			s.reject("w1.1/c5", past.NoRow, heldA, 33, 34)
		}},
		{"rejection although its condition held", "and yet it was rejected", func(s *script) {
			legal(s)
			s.reject("w1.1/c4", heldA, heldA, 25, 28)
		}},
		{"one version set from two", "was set 2 times", func(s *script) {
			legal(s)
			s.cas("w1.1/c2", history.OpAcquire, heldA, heldB, 50, 60, history.OK, false)
		}},
		{"acknowledged write that nothing follows", "an acknowledged write is lost", func(s *script) {
			legal(s)
			s.cas("w1.1/c1", history.OpRenew, renewed, again, 70, 75, history.OK, false)
		}},
		{afterSeal, "an acknowledged write is lost", func(s *script) {
			legal(s)
			s.cas("w1.1/c3", history.OpAcquire, seal, again, 98, 99, history.OK, false)
		}},
		{"row that comes round again", "no operation ever set as a whole", func(s *script) {
			s.cas("w1.1/c1", history.OpAcquire, freeA, heldA, 10, 20, history.OK, false)
			s.cas("w1.1/c1", history.OpRelease, heldA, freeA, 30, 40, history.OK, false)
			s.cas("harness", history.OpSeal, freeA, seal, 90, 95, history.OK, false)
		}},
		{"unknown write that the chain contains, seal unknown but read", "", func(s *script) {
			s.cas("w1.1/c1", history.OpAcquire, past.NoRow, heldA, 10, 20, history.Unknown, false)
			s.cas("w1.1/c1", history.OpRelease, heldA, freeA, 30, 40, history.OK, false)
			s.cas("harness", history.OpSeal, freeA, seal, 90, 95, history.Unknown, false)
			s.read("harness", seal, 96, 97)
		}},
		{"second try of a refused write", "", func(s *script) {
			s.cas("w1.1/c1", history.OpAcquire, past.NoRow, heldA, 10, 20, history.OK, false)
			s.cas("w1.1/c1", history.OpRenew, heldA, renewed, 21, 22, history.Fail, false)
			s.cas("w1.1/c1", history.OpRenew, heldA, renewed, 23, 24, history.Unknown, false)
			s.cas("w1.1/c1", history.OpRenew, heldA, renewed, 25, 26, history.OK, false)
			s.cas("harness", history.OpSeal, renewed, seal, 90, 95, history.OK, false)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newScript()
			tc.do(s)
			p := propertyOf(s.check(t, ""), "P2")
			want := porcupine.Ok
			if tc.says != "" {
				want = porcupine.Illegal
			}
			for _, size := range []int{1, 3, uncut} { // the second opinion, for itself
				if tc.name == afterSeal {
					break // there is an order; only the seal says that nothing comes after it
				}
				if got := aloneAll(&s.h, size); got != want {
					t.Errorf("Porcupine alone, in segments of %d: %s", size, got)
				}
			}
			if tc.says == "" {
				if p.Status != StatusPass {
					t.Fatalf("%s (%s): %+v", p.Status, p.Detail, p.Violations)
				}
				return
			}
			found := false
			for _, v := range p.Violations {
				found = found || strings.Contains(v.Message, tc.says)
			}
			if p.Status != StatusFail || !found {
				t.Fatalf("%s (%s), want a violation that says %q: %+v", p.Status, p.Detail, tc.says, p.Violations)
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	order := []Verdict{Fail, Invalid, Unknown, Pass}
	for i, v := range order {
		for j, w := range order {
			if got := verdict.Worst(v, w); got != order[min(i, j)] {
				t.Errorf("the worst of %s and %s is %s", v, w, got)
			}
		}
		if got := v.ExitCode(); got != []int{1, 3, 4, 0}[i] {
			t.Errorf("%s exits %d", v, got)
		}
	}
}
