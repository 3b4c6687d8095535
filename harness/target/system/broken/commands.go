package broken

import (
	"context"

	"fencepost/core/job"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-cancel-told", only(workload.Hooks{Commander: cancelTold}))
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
