package checker

import (
	"strings"
	"testing"

	"fencepost/harness/history"
)

// TestLinearChecks: small histories by hand, each wrong in one way that the
// chain shows, with the message and the number of findings.
func TestLinearChecks(t *testing.T) {
	t.Parallel()
	renewed := heldA
	renewed.Beat = 1
	again := history.Version{Fence: 2, Attempt: "a2", Holder: "w1.1/c3", TTLMS: 1000}
	legal := func(s *script) {
		s.cas("w1.1/c1", history.OpAcquire, noRow, heldA, 10, 20, history.OK, false)
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
			s.read("w1.1/c4", noRow, 5, 15)
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
			s.read("w1.1/c4", noRow, 25, 28)
		}},
		{"reads that go back beside a write", "SERIAL reads went back", func(s *script) {
			legal(s)
			s.read("w1.1/c4", freeA, 31, 32)
			s.read("w1.1/c5", heldA, 33, 34)
		}},
		{"one version set from two", "was set 2 times", func(s *script) {
			legal(s)
			s.cas("w1.1/c2", history.OpAcquire, heldA, heldB, 50, 60, history.OK, false)
		}},
		{"acknowledged write that nothing follows", "an acknowledged write is lost", func(s *script) {
			legal(s)
			s.cas("w1.1/c1", history.OpRenew, renewed, again, 70, 75, history.OK, false)
		}},
		{"write after the seal", "an acknowledged write is lost", func(s *script) {
			legal(s)
			s.cas("w1.1/c3", history.OpAcquire, seal, again, 98, 99, history.OK, false)
		}},
		{"row that comes round again", "no operation ever set as a whole", func(s *script) {
			s.cas("w1.1/c1", history.OpAcquire, freeA, heldA, 10, 20, history.OK, false)
			s.cas("w1.1/c1", history.OpRelease, heldA, freeA, 30, 40, history.OK, false)
			s.cas("harness", history.OpSeal, freeA, seal, 90, 95, history.OK, false)
		}},
		{"unknown write that the chain contains, seal unknown but read", "", func(s *script) {
			s.cas("w1.1/c1", history.OpAcquire, noRow, heldA, 10, 20, history.Unknown, false)
			s.cas("w1.1/c1", history.OpRelease, heldA, freeA, 30, 40, history.OK, false)
			s.cas("harness", history.OpSeal, freeA, seal, 90, 95, history.Unknown, false)
			s.read("harness", seal, 96, 97)
		}},
		{"second try of a refused write", "", func(s *script) {
			s.cas("w1.1/c1", history.OpAcquire, noRow, heldA, 10, 20, history.OK, false)
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
			p := property(s.check(t, ""), "P2")
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
			if got := Worst(v, w); got != order[min(i, j)] {
				t.Errorf("the worst of %s and %s is %s", v, w, got)
			}
		}
		if got := v.ExitCode(); got != []int{1, 3, 4, 0}[i] {
			t.Errorf("%s exits %d", v, got)
		}
	}
}
