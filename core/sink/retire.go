package sink

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Retirer is a Sink whose resources can be removed for good, so that what is stored does
// not grow with every resource that was ever used.
type Retirer interface {
	// Retire removes resources that nobody will use again, keys, value and ledger, and
	// returns how many. below is a token of their issuer: no call with a lower one is at
	// work any more, or will be. It is kept for the issuer, as its floor, and never falls:
	// a resource that is not there takes no lower token of that issuer. A resource is
	// removed only if its highest token is lower than below, so no fence falls by its
	// removal, and a late Retire removes nothing that was used since; others are kept, and
	// so are those of another issuer. What was removed reads as never used.
	//
	// Do not retire what may be used again: of a removed key nobody knows that it was
	// accepted. Call it after the longest time for which anything may be retried, and again if it
	// failed. Of an issuer that retires one row remains.
	Retire(ctx context.Context, issuer string, below int64, resources ...string) (removed int, err error)
}

// floorPrefix begins the names under which sinks keep floors.
const floorPrefix = "\x01floor/"

// FloorOf is the name under which a sink keeps the floor of an issuer: as a header, whose
// highest token it is. No call may have it for its resource.
func FloorOf(issuer string) string { return floorPrefix + issuer }

// IsFloor tells whether a name is one of FloorOf.
func IsFloor(resource string) bool { return strings.HasPrefix(resource, floorPrefix) }

// Fresh is the header, for Decide, of a resource that is not there; floor is that of the
// call's issuer, 0 if it has none.
func Fresh(floor int64) Header { return Header{Highest: floor, Sealed: floor > 0} }

// CheckRetire says what is wrong with the arguments of a Retire, for implementations.
func CheckRetire(issuer string, below int64, resources []string) error {
	if issuer == "" {
		return errors.New("sink: retire: the issuer must be named")
	}
	if below < 1 || below > MaxToken {
		return fmt.Errorf("sink: retire below token %d: tokens are between 1 and %d", below, int64(MaxToken))
	}
	for _, r := range resources {
		if r == "" || IsFloor(r) {
			return fmt.Errorf("sink: retire %q: not the name of a resource", r)
		}
	}
	return nil
}
