package link

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrMode: the mode or direction asked for does not exist or contradicts itself.
	ErrMode = errors.New("invalid link mode")
	// ErrSpec: the description of a link is incomplete.
	ErrSpec = errors.New("invalid link spec")
	// ErrExists: the fabric has a link of that name.
	ErrExists = errors.New("link exists")
	// ErrUnknown: the fabric has no link of that name.
	ErrUnknown = errors.New("no such link")
	// ErrClosed: the fabric or the link is closed.
	ErrClosed = errors.New("link is closed")
	// ErrRefused: the link closes connections, so none can be opened through it.
	ErrRefused = errors.New("link refuses connections")
	// ErrNotStalled: Flush was asked of a direction that holds nothing.
	ErrNotStalled = errors.New("link is not stalled")
	// ErrWatchdog: an operation did not finish in time; see WatchdogError.
	ErrWatchdog = errors.New("link operation timed out")
)

// OpError says which operation failed on which link. Err is the cause.
type OpError struct {
	Op   string // add, set, flush, probe, remove, close
	Link string // name; empty for the fabric
	Err  error
}

func (e *OpError) Error() string {
	if e.Link == "" {
		return fmt.Sprintf("links: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("link %s: %s: %v", e.Link, e.Op, e.Err)
}

func (e *OpError) Unwrap() error { return e.Err }

// WatchdogError is an operation that was given up after Limit. The modes are
// switched all the same; what is not known is whether every connection obeys,
// so a run that sees it proves nothing and is to be reported as INVALID.
type WatchdogError struct {
	Op      string
	Link    string
	Limit   time.Duration
	Waiting string // what did not happen
}

func (e *WatchdogError) Error() string {
	return fmt.Sprintf("link %s: %s gave up after %v waiting for %s: treat the run as invalid", e.Link, e.Op, e.Limit, e.Waiting)
}

// Is makes errors.Is(err, ErrWatchdog) and errors.Is(err, context.DeadlineExceeded) true.
func (e *WatchdogError) Is(target error) bool {
	return target == ErrWatchdog || target == context.DeadlineExceeded
}
