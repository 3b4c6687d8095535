package api

import (
	"errors"
	"strings"
	"testing"

	"fencepost/core/engine"
	"fencepost/core/store"
)

// TestRefusedForGood: who asks again at once would be refused again.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	for _, permanent := range []bool{false, true} {
		cause := &store.Error{Outcome: store.Fail, Permanent: permanent, Cause: errors.New("no MODIFY permission")}
		for _, err := range []error{&engine.EnqueueError{Outcome: store.Fail, Cause: cause}, &engine.CommandError{Outcome: store.Fail, Cause: cause}, cause} {
			p := problemOf(err)
			if p.Status != 503 || p.Code != "unavailable" || (p.retryAfter == 60) != permanent || strings.Contains(p.Detail, "until somebody mends") != permanent {
				t.Errorf("%v: %+v", err, p)
			}
		}
	}
}
