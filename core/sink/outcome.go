package sink

import (
	"errors"

	"fencepost/core/store"
)

// ErrStaleAfterUnknown is the cause of the unknown outcome of a call that was
// answered Stale after an earlier copy of it had been lost from sight.
var ErrStaleAfterUnknown = errors.New("refused as stale, but an earlier copy of the request may have been accepted")

// Unsettled is the error of an answer to a call of which an earlier copy was lost from
// sight: nil, unless that copy may have been accepted all the same.
func Unsettled(op string, a Answer) error {
	if a.Result != Stale {
		return nil
	}
	return &store.Error{Op: op, Outcome: store.Unknown, Cause: ErrStaleAfterUnknown}
}

// OutcomeOf classifies a call: ok if the effect is in place (Applied,
// Duplicate), fail if it is certainly not, else unknown.
func OutcomeOf(a Answer, err error) store.Outcome {
	var issuer *IssuerError
	switch {
	case errors.As(err, &issuer):
		return store.Fail
	case err != nil:
		return store.OutcomeOf(err)
	case a.Result == Applied || a.Result == Duplicate:
		return store.OK
	}
	return store.Fail
}
