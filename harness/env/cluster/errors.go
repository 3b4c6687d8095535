package cluster

import (
	"errors"
	"fmt"
	"strings"
)

// ErrState is what every [StateError] is.
var ErrState = errors.New("the node's state does not allow this")

// StateError says that an operation does not fit a node's state.
type StateError struct {
	Node  string
	Op    string // e.g. "pause"
	State State
}

func (e *StateError) Error() string {
	hint := ""
	if e.State == Paused {
		hint = "; resume it first"
	}
	return fmt.Sprintf("cluster: cannot %s %s: it is %s%s", e.Op, e.Node, e.State, hint)
}

// Is reports whether target is ErrState.
func (e *StateError) Is(target error) bool { return target == ErrState }

// ExitError says that a node's process ended when it should not have.
type ExitError struct {
	Node string
	// Status is how it ended, e.g. "exit status 3" or "signal: killed".
	Status string
	// LogFile holds its whole output; Tail is the end of it, errors first.
	LogFile string
	Tail    []string
}

func (e *ExitError) Error() string {
	msg := fmt.Sprintf("cluster: %s ended by itself (%s); its log is %s", e.Node, e.Status, e.LogFile)
	if len(e.Tail) > 0 {
		msg += "\n    " + strings.Join(e.Tail, "\n    ")
	}
	return msg
}

// ConfigError says that a LocalConfig is not usable.
type ConfigError struct {
	Field string
	Err   error
}

func (e *ConfigError) Error() string { return fmt.Sprintf("cluster: %s: %v", e.Field, e.Err) }

func (e *ConfigError) Unwrap() error { return e.Err }

// MemoryError says that the machine has too little free memory for the nodes.
type MemoryError struct {
	NeedMiB, AvailableMiB int
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("cluster: %d MiB of memory are available, the nodes need about %d MiB: end other programs, or use a smaller heap or an external cluster",
		e.AvailableMiB, e.NeedMiB)
}
