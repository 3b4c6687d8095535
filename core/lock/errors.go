package lock

import (
	"errors"
	"fmt"

	"fencepost/core/store"
)

var (
	// ErrHeld: TryAcquire found the lock held by another.
	ErrHeld = errors.New("lock: held by another")
	// ErrTimeout: Request.Timeout passed before the lock was free.
	ErrTimeout = errors.New("lock: not acquired within its timeout")
	// ErrClosed: the client is closed.
	ErrClosed = errors.New("lock: client is closed")
	// ErrRefused: three nodes of the store refused a request for good; the last failure
	// says what to change.
	ErrRefused = errors.New("lock: the store refuses the request")
	// ErrReleased: the lease was released by its holder. It is the cause of
	// the lease context's end then.
	ErrReleased = errors.New("lock: lease was released")
)

// Reasons of a LostError.
var (
	// ErrDeadline: the lease was not renewed before its own deadline.
	ErrDeadline = errors.New("its deadline passed without a renewal that is known to have taken effect")
	// ErrTakenOver: the row shows another grant.
	ErrTakenOver = errors.New("the row shows another version: it was taken over")
	// ErrLateGrant: the grant became known only after its deadline.
	ErrLateGrant = errors.New("the grant became known only after its deadline")
)

// LostError is the end of a lease without its holder's doing. What was done
// under the lease must stop; the fencing token keeps what is already on its way
// from harm. It is never revived: acquire again.
type LostError struct {
	Resource string
	Token    int64
	// Reason is or wraps ErrDeadline, ErrTakenOver, ErrLateGrant or ErrClosed.
	Reason error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("lock: lease on %q (token %d) lost: %v", e.Resource, e.Token, e.Reason)
}

// Unwrap returns the reason.
func (e *LostError) Unwrap() error { return e.Reason }

// AcquireError says why a lock was not acquired and what is known beside.
type AcquireError struct {
	Resource string
	// Reason is ErrHeld, ErrTimeout, ErrClosed, ErrRefused or the caller's context error.
	Reason error
	// Unsettled: a request of this call is still on its way. It is settled in
	// the background and released if it turns out to have been granted.
	Unsettled bool
	// Row is the row as last seen; nil: absent or never seen.
	Row *store.Version
	// Last is the last failure of the store on the way, if there was one.
	Last error
}

func (e *AcquireError) Error() string {
	s := fmt.Sprintf("lock %q: %v", e.Resource, e.Reason)
	if e.Row != nil && e.Row.Holder != "" {
		s += fmt.Sprintf(" (last seen held by %q, token %d)", e.Row.Holder, e.Row.Fence)
	}
	if e.Unsettled {
		s += "; a request is still unsettled and will be released in the background"
	}
	if e.Last != nil {
		s += fmt.Sprintf("; last failure: %v", e.Last)
	}
	return s
}

// Unwrap returns the reason and the last failure.
func (e *AcquireError) Unwrap() []error {
	if e.Last == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Last}
}
