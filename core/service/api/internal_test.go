package api

import (
	"errors"
	"fmt"
	"slices"
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

// Operations are the routes, as the test of the document writes them.
func Operations() (out []string) {
	for _, r := range (&server{}).routes() {
		out = append(out, fmt.Sprintf("%s %s %s open=%t", r.method, r.path, r.id, r.open))
	}
	slices.Sort(out)
	return out
}
