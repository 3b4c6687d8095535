//go:build broken

package main

import (
	"fencepost/harness/target/system/broken"
	"fencepost/harness/target/workload"
)

// variant returns the hooks of a known-broken variant; "" has none.
func variant(name string) (workload.Hooks, error) {
	if name == "" {
		return workload.Hooks{}, nil
	}
	return broken.Worker(name)
}
