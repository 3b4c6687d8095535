//go:build !broken

package main

import (
	"fmt"

	"fencepost/harness/target/workload"
)

// variant: the ordinary worker has no known-broken variants.
func variant(name string) (workload.Hooks, error) {
	if name != "" {
		return workload.Hooks{}, fmt.Errorf("variant %q: this worker was built without known-broken variants (bin/worker-broken has them)", name)
	}
	return workload.Hooks{}, nil
}
