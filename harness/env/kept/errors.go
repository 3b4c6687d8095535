package kept

import (
	"errors"
	"fmt"
	"time"
)

// ErrNotUp: no cluster is kept.
var ErrNotUp = errors.New("no cluster is up: start one with `fencepost up` (or `fencepost up --background`)")

// ErrUp is what every [UpError] is.
var ErrUp = errors.New("a cluster is up already")

// UpError says who keeps the cluster.
type UpError struct {
	PID   int // 0 if unknown
	Since time.Time
}

func (e *UpError) Error() string {
	if e.PID == 0 {
		return ErrUp.Error() + ": end it with `fencepost down`"
	}
	return fmt.Sprintf("%v (process %d, since %s): end it with `fencepost down`", ErrUp, e.PID, e.Since.Local().Format(time.TimeOnly))
}

// Is reports whether target is ErrUp.
func (e *UpError) Is(target error) bool { return target == ErrUp }

// StaleError says that the daemon was started from another build.
type StaleError struct{}

func (e *StaleError) Error() string {
	return "the cluster that is up was started by another build of this tool, which would run instead of yours: `fencepost down`, then `fencepost up`"
}

// BusyError says that another run is using the cluster.
type BusyError struct {
	Args  []string
	Since time.Time
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("the cluster is busy with %q since %s: wait for it, or end it", e.Args, e.Since.Local().Format(time.TimeOnly))
}

// RefusedError is what the daemon said, where no other type fits.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return e.Message }
