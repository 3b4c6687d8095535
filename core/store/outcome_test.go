package store_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"fencepost/core/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	fail := &store.Error{Op: "cas", Outcome: store.Fail, Cause: io.EOF}
	unknown := &store.Error{Op: "cas", Outcome: store.Unknown, ServerTimeout: true, Cause: io.EOF}
	for name, c := range map[string]struct {
		err     error
		want    store.Outcome
		timeout bool
	}{
		"nil":                        {nil, store.OK, false},
		"fail":                       {fail, store.Fail, false},
		"wrapped fail":               {fmt.Errorf("x: %w", fail), store.Fail, false},
		"unknown":                    {unknown, store.Unknown, true},
		"wrapped unknown":            {fmt.Errorf("x: %w", unknown), store.Unknown, true},
		"anything else":              {errors.New("x"), store.Unknown, false},
		"an error that claims ok":    {&store.Error{Outcome: store.OK, Cause: io.EOF}, store.Unknown, false},
		"an error that says nothing": {&store.Error{}, store.Unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := store.OutcomeOf(c.err); got != c.want {
				t.Errorf("outcome %s, want %s", got, c.want)
			}
			if got := store.IsServerTimeout(c.err); got != c.timeout {
				t.Errorf("server timeout %v, want %v", got, c.timeout)
			}
		})
	}
	var zero store.Outcome
	if zero != store.Unknown {
		t.Error("the zero outcome claims certainty")
	}
	if !errors.Is(fail, io.EOF) {
		t.Error("the cause is hidden")
	}
	if s := unknown.Error(); s != "store: cas: outcome unknown (server timeout): EOF" {
		t.Error(s)
	}
}

// TestOutcomeString: what is no outcome is named by its number.
func TestOutcomeString(t *testing.T) {
	t.Parallel()
	for o, want := range map[store.Outcome]string{store.Unknown: "unknown", store.OK: "ok", store.Fail: "fail", -1: "outcome(-1)", 3: "outcome(3)"} {
		if o.String() != want {
			t.Errorf("%d: %s, want %s", int(o), o, want)
		}
	}
}

// TestVersionOrder: Older is a strict order of a row's versions, with nil first.
func TestVersionOrder(t *testing.T) {
	t.Parallel()
	gen := rapid.Custom(func(t *rapid.T) *store.Version {
		if rapid.IntRange(0, 9).Draw(t, "absent") == 0 {
			return nil
		}
		return &store.Version{Fence: rapid.Int64Range(1, 4).Draw(t, "fence"), Beat: rapid.Int64Range(0, 4).Draw(t, "beat")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := gen.Draw(t, "a"), gen.Draw(t, "b"), gen.Draw(t, "c")
		if a.Older(a) {
			t.Errorf("%s is older than itself", a)
		}
		if a.Older(b) && b.Older(a) {
			t.Errorf("%s and %s are older than each other", a, b)
		}
		if a.Older(b) && b.Older(c) && !a.Older(c) {
			t.Errorf("not transitive: %s, %s, %s", a, b, c)
		}
		if a != nil && b != nil && (a.Fence < b.Fence || a.Fence == b.Fence && a.Beat < b.Beat) && !a.Older(b) {
			t.Errorf("%s is not older than %s", a, b)
		}
		if store.Same(a, b) && (a.Older(b) || b.Older(a)) {
			t.Errorf("same and older: %s, %s", a, b)
		}
		if !store.Same(a, b) && !a.Older(b) && !b.Older(a) {
			t.Errorf("no order between %s and %s", a, b)
		}
	})
}

func TestFree(t *testing.T) {
	t.Parallel()
	var absent *store.Version
	if !absent.Free() || !(&store.Version{Fence: 3}).Free() || (&store.Version{Holder: "h"}).Free() {
		t.Error("Free")
	}
	if absent.String() != "absent" {
		t.Error(absent.String())
	}
}

// TestPermanent: three nodes in a row must refuse for good.
func TestPermanent(t *testing.T) {
	t.Parallel()
	forbidden := fmt.Errorf("wrapped: %w", &store.Error{Outcome: store.Fail, Permanent: true, Cause: errors.New("no permission")})
	down := &store.Error{Outcome: store.Fail, Cause: errors.New("no quorum")}
	if !store.IsPermanent(forbidden) || store.IsPermanent(down) || store.IsPermanent(nil) || store.IsPermanent(errors.New("x")) {
		t.Error("IsPermanent")
	}
	var r store.Refusals
	for n, c := range []struct {
		err  error
		want bool
	}{{forbidden, false}, {forbidden, false}, {down, false}, {forbidden, false}, {forbidden, false}, {nil, false}, {forbidden, false}, {forbidden, false}, {forbidden, true}, {forbidden, true}} {
		if got := r.Final(c.err); got != c.want {
			t.Errorf("copy %d: final %v", n, got)
		}
	}
}
