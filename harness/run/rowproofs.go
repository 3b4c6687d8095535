package run

import (
	"context"
	"fmt"
	"time"

	"fencepost/harness/fault"
)

// rowProofs read from rows, by the harness's own session, what shows that a fault took hold
// in a worker.
type rowProofs struct {
	// stamps are times that workers wrote by their wall clocks.
	stamps func(ctx context.Context) ([]fault.Stamp, error)
	// stay is who has a lock, or a job.
	stay func(ctx context.Context, key string) (fault.Claim, error)
}

// written is what WRITETIME gives: microseconds since 1970, by the clock of the node that
// coordinated the write.
func written(row map[string]any) time.Time {
	us, _ := row["written"].(int64)
	return time.UnixMicro(us)
}

func runClaim(run int64) fault.Claim {
	return fault.Claim{By: fmt.Sprintf("run %d", run), Token: run, Anonymous: true}
}
