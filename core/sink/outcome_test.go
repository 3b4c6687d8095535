package sink_test

import (
	"errors"
	"io"
	"testing"

	"go.uber.org/goleak"

	"fencepost/core/sink"
	"fencepost/core/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	issuer := &sink.IssuerError{Resource: "r", Bound: "a", Used: "b"}
	for name, c := range map[string]struct {
		answer sink.Answer
		err    error
		want   store.Outcome
	}{
		"applied":             {sink.Answer{Result: sink.Applied}, nil, store.OK},
		"duplicate":           {sink.Answer{Result: sink.Duplicate}, nil, store.OK},
		"stale":               {sink.Answer{Result: sink.Stale}, nil, store.Fail},
		"conflict":            {sink.Answer{Result: sink.Conflict}, nil, store.Fail},
		"stale after unknown": {sink.Answer{Result: sink.Stale}, &store.Error{Outcome: store.Unknown, Cause: sink.ErrStaleAfterUnknown}, store.Unknown},
		"another issuer":      {sink.Answer{}, issuer, store.Fail},
		"refused":             {sink.Answer{}, &store.Error{Outcome: store.Fail, Cause: io.EOF}, store.Fail},
		"anything":            {sink.Answer{}, errors.New("x"), store.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := sink.OutcomeOf(c.answer, c.err); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	for r, want := range map[sink.Result]string{sink.Applied: "applied", sink.Duplicate: "duplicate", sink.Stale: "stale", sink.Conflict: "conflict", 0: "result(0)"} {
		if r.String() != want {
			t.Errorf("%d: %s", int(r), r)
		}
	}
}
