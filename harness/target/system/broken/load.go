package broken

import (
	"time"

	"fencepost/core/engine"
	"fencepost/harness/target/workload"
)

func init() {
	plant("jobs-admission-by-count", only(workload.Hooks{Engine: admissionByCount}))
}

// admissionByCount refuses an enqueue when too many wait, however long that takes.
func admissionByCount(_ workload.Config, o *engine.Options) {
	o.MaxWait, o.MaxOverdue = time.Hour, time.Hour
}
