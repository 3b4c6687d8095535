package cluster

import (
	"context"
	"errors"
	"fmt"
)

// Heal makes a cluster healthy that a run left in disorder: links pass, stopped
// nodes run, and all answer. The error names what could not be mended.
func Heal(ctx context.Context, c Cluster) error {
	errs := []error{c.Links().Heal(ctx)}
	for _, n := range c.Nodes() {
		var err error
		switch n.State() {
		case Paused:
			err = n.Resume(ctx)
		case Stopped, Killed, Crashed:
			err = n.Start(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s (its log is %s): %w", n.Name(), n.LogFile(), err))
		}
	}
	return errors.Join(append(errs, c.WaitHealthy(ctx))...)
}
