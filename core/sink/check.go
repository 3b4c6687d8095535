package sink

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// Check says what is wrong with the arguments of a Raise (e is nil) or an Accept that
// can never be carried out, for implementations.
func Check(resource, issuer string, token int64, e *Effect) error {
	switch {
	case resource == "" || issuer == "":
		return fmt.Errorf("sink: resource %q, issuer %q: both must be named", resource, issuer)
	case token < 1:
		return fmt.Errorf("sink: token %d: tokens are positive", token)
	case e != nil && e.Key == "":
		return errors.New("sink: the effect has no idempotency key: without one a resend could not be told from a second effect")
	}
	return nil
}

// Fingerprint is what is stored of the intent: two effects with one key and different
// fingerprints are a Conflict.
func (e *Effect) Fingerprint() []byte {
	sum := sha256.Sum256([]byte(e.Intent))
	return sum[:]
}
