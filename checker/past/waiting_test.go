package past

import (
	"testing"

	"fencepost/harness/record/history"
)

func TestRecoveryBound(t *testing.T) {
	t.Parallel()
	a := New(&history.History{}, false)
	if got := a.TakeoverBound(6e9); got != 6e9+750e6+5e9+3e9 {
		t.Errorf("default: %d", got)
	}
	a.Expects = []*history.Event{{Details: &history.Details{Expect: &history.Expect{RecoveryBoundMS: 900}}}}
	if got := a.TakeoverBound(6e9); got != 6e9+750e6+900e6 {
		t.Errorf("named: %d", got)
	}
}
