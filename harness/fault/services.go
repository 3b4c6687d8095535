package fault

import (
	"context"
	"errors"
)

// SinkTarget is the target of faults of the sink itself, where it is a service.
const SinkTarget = "sink"

// Service is the sink's process; *osproc.Service is one.
type Service interface {
	Addr() string
	PID() int
	// Standing is how many processes it has, if they all stand still.
	Standing() (int, error)
	Kill(ctx context.Context) error
	Start(ctx context.Context) error
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
}

var errNoService = errors.New("this run's sink is not a separate process, so it cannot be killed or paused")
