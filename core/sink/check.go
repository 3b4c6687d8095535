package sink

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
)

// MaxToken is the highest token that a sink takes: Forget must be able to refuse it.
const MaxToken = math.MaxInt64 - 1

// Check says what is wrong with a call that can never be carried out, for
// implementations.
func (c Call) Check() error {
	switch {
	case c.Resource == "" || c.Issuer == "":
		return fmt.Errorf("sink: resource %q, issuer %q: both must be named", c.Resource, c.Issuer)
	case IsFloor(c.Resource):
		return fmt.Errorf("sink: resource %q: names that begin with %q are the sink's own", c.Resource, floorPrefix)
	case c.Token < 1 || c.Token > MaxToken:
		return fmt.Errorf("sink: token %d: tokens are between 1 and %d", c.Token, int64(MaxToken))
	case c.Effect != nil && c.Effect.Key == "":
		return errors.New("sink: the effect has no idempotency key: without one a resend could not be told from a second effect")
	}
	return nil
}

// String names the call for errors.
func (c Call) String() string {
	if c.Effect == nil {
		return fmt.Sprintf("raise %s to %d", c.Resource, c.Token)
	}
	return fmt.Sprintf("accept %s on %s with token %d", c.Effect.Key, c.Resource, c.Token)
}

// Fingerprint is the digest of the intent that a sink stores: two effects with one key and different
// fingerprints are a Conflict.
func (e *Effect) Fingerprint() []byte {
	sum := sha256.Sum256([]byte(e.Intent))
	return sum[:]
}
