package broken

import (
	"context"
	"errors"

	"fencepost/core/engine"
	"fencepost/core/job"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-cancel-told", only(workload.Hooks{Commander: cancelTold}))
	plant("jobs-hasten-told", only(workload.Hooks{Commander: hastenTold}))
	plant("jobs-redrive-told", only(workload.Hooks{Commander: redriveTold}))
}

// cancelTold answers a cancel when it is asked for, and has it carried out behind that: by then
// the job may have ended, or nobody may be left to do it.
func cancelTold(_ workload.Config, inner workload.Commander) workload.Commander {
	return hastyCommander{inner}
}

type hastyCommander struct{ workload.Commander }

func (c hastyCommander) Cancel(ctx context.Context, queue string, id job.ID) error {
	go func() { _ = c.Commander.Cancel(context.WithoutCancel(ctx), queue, id) }() // nobody is told
	return nil
}

// hastenTold answers that a job is due at once as soon as it is asked for, and leaves its due time.
func hastenTold(_ workload.Config, inner workload.Commander) workload.Commander {
	return idleCommander{inner}
}

type idleCommander struct{ workload.Commander }

func (idleCommander) Hasten(context.Context, string, job.ID) (engine.Receipt, error) {
	return engine.Receipt{}, nil
}

// redriveTold takes a job for redriven that it could not find in the dead letter queue: somebody
// will have done it.
func redriveTold(_ workload.Config, inner workload.Commander) workload.Commander {
	return easyCommander{inner}
}

type easyCommander struct{ workload.Commander }

func (c easyCommander) Redrive(ctx context.Context, queue string, id job.ID) error {
	err := c.Commander.Redrive(ctx, queue, id)
	if errors.As(err, new(*engine.StateError)) {
		return nil
	}
	return err
}
